"""One suite of checks for every mechanism, ours and others'.

>>> from nearveil import PlanarLaplace
>>> from nearveil.io.synthetic import synthetic_city
>>> mechanism = PlanarLaplace(noise_m=500, region="berlin")
>>> check_mechanism(mechanism, synthetic_city(500, mechanism.resolved_region, rng=1), draws=20_000)

A check raises `ConformanceError` if the mechanism fails it. The statistical ones draw with a fixed seed and each raise
a false alarm with probability about 1e-6 for each place they try. A mechanism without a seed is fitted afresh each
time.

A mechanism without a density is not asked about it, and one that promises nothing is not audited. A class that passes
can be used everywhere by its name, ``file.py:Class``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyproj
from scipy.special import chdtrc

from nearveil.auditing.auditor import Verdict, audit
from nearveil.auditing.subjects import MechanismSubject, audited_region, flat
from nearveil.errors import NearveilError
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.registry import check_draws
from nearveil.randomness import numbered_rows, stream_key
from nearveil.region import PUBLISHED_DECIMALS, Region
from nearveil.sphere import great_circle_m
from nearveil.types import FloatArray

FALSE_ALARM_RATE = 1e-6
AUDIT_DRAWS = 5
"""Ratio of the draws of the audit to those of the other checks."""

_BINS = 24
_LATTICES = (89, 233, 1597)
"""Points of the lattices in a bin; the last is for bins that the first two disagree about."""
_AGREE_SHARE, _AGREE_MASS = 1e-3, 1e-6
_AGREE_CHANCE = 0.2
"""Share of what chance moves a bin's count by that its integral may be off; beyond it, bins are cut in four."""
_MOST_CUTS = 6
_QUARTERS = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
_GOLDEN = 0.6180339887498949
_PLACES = 3
_INTEGRAL_TOLERANCE = 5e-3
_LEAST_EXPECTED = 10.0
_GROUND_REGIONS = (
    Region(-0.2, 10.0, 0.2, 10.4, name="equator"),
    Region(37.5, -122.6, 37.9, -122.2, name="latitude 37"),
    Region(59.8, 10.5, 60.2, 11.1, name="latitude 60"),
    Region(-17.2, 179.8, -16.8, -179.8, name="antimeridian"),
)


class ConformanceError(NearveilError, AssertionError):
    """A mechanism does not do what every mechanism must."""


@dataclass(frozen=True, slots=True, eq=False)
class MechanismUnderTest:
    """A mechanism under test, fitted, with places to test it at."""

    mechanism: Mechanism
    people: FloatArray
    draws: int = 200_000
    seed: int = 1
    _drawn: dict[bytes, FloatArray] = field(init=False, repr=False, default_factory=dict)
    _masses: dict[bytes, FloatArray] = field(init=False, repr=False, default_factory=dict)

    @property
    def flat(self) -> Mechanism:
        """The mechanism in a plane, also if its frame is degrees."""
        return flat(self.mechanism, audited_region(self.mechanism))

    @property
    def places(self) -> FloatArray:
        """Some people's places, in the plane."""
        return self.flat.enter(self.people[: 20 * _PLACES])

    def samples(self, place: FloatArray) -> FloatArray:
        """Draws for someone at ``place``, the same for every check."""
        key = place.tobytes()
        if key not in self._drawn:
            rng = np.random.default_rng([self.seed, int(abs(place).sum() * 1e6) % 2**31])
            self._drawn[key] = self.flat.draw(np.tile(place, (self.draws, 1)), numbered_rows(self.draws, rng))
        return self._drawn[key]

    def bin_masses(self, place: FloatArray) -> FloatArray:
        """Probability of each bin, by the mechanism's density."""
        key = place.tobytes()
        if key not in self._masses:
            self._masses[key] = _bin_masses(self.flat, place, _grid(self, place), self.draws)
        return self._masses[key]


def check_mechanism(mechanism: Mechanism, people: FloatArray, *, draws: int = 200_000, seed: int = 1) -> None:
    """Fit a mechanism on made-up people and run every check on it."""
    subject = MechanismUnderTest(mechanism.fitted_on(people), people, draws, seed)
    for check in CHECKS:
        check(subject)


def failure_of(mechanism: Mechanism, *, draws: int = 50_000, seed: int = 1) -> str | None:
    """Say which check a mechanism with these parameters fails on made-up people; None if it passes.

    Noise that is too wide for ``draws`` draws to tell from noise 30 % narrower is not held against it, nor is a loss
    that is too large to be audited.
    """
    people = synthetic_city(500, audited_region(mechanism), rng=seed)
    try:
        subject = MechanismUnderTest(mechanism.with_params().fit(people), people, draws, seed)
        for check in CHECKS:
            if check is check_sampler_matches_density:
                check_draws_follow_density(subject)
            elif check is check_guarantee_survives_audit:
                _check_not_violated(subject, (Verdict.CONSISTENT, Verdict.INCONCLUSIVE))
            else:
                check(subject)
    except ConformanceError as error:
        return str(error)
    except Exception as error:  # Somebody else's code; it has seen made-up people only.
        return f"{type(mechanism).__name__}: it fails with {type(error).__name__}: {error}"
    return None


def check_density_integrates_to_one(subject: MechanismUnderTest) -> None:
    """The density, of the stage before any remap, sums to 1 over the plane."""
    if not subject.mechanism.has_density:
        return
    for place in subject.places[:_PLACES]:
        total = subject.bin_masses(place).sum()
        _require(
            abs(total - 1) < _INTEGRAL_TOLERANCE, f"the density integrates to {total:.4f}, not 1", subject.mechanism
        )


def check_draws_follow_density(subject: MechanismUnderTest) -> None:
    """Draws follow the density, by a chi-square test."""
    for place in subject.places[:_PLACES] if subject.mechanism.has_density else ():
        p_value = _chi_square(subject.samples(place), _grid(subject, place), subject.bin_masses(place))
        _require(p_value > FALSE_ALARM_RATE, f"draws do not follow the density (p = {p_value:.2g})", subject.mechanism)


def check_sampler_matches_density(subject: MechanismUnderTest) -> None:
    """Draws follow the density, by a chi-square test, and the same test rejects noise 30 % narrower or wider."""
    check_draws_follow_density(subject)
    for place in subject.places[:_PLACES] if subject.mechanism.has_density else ():
        drawn, edges = subject.samples(place), _grid(subject, place)
        for factor in (0.7, 1.3):
            masses = _bin_masses(subject.flat.rescaled(factor), place, edges, subject.draws)
            p_value = _chi_square(drawn, edges, masses)
            _require(
                p_value < FALSE_ALARM_RATE,
                f"the test cannot tell noise {factor} times as wide (p = {p_value:.2g}); use more draws or less noise",
                subject.mechanism,
            )


def check_output_in_support(subject: MechanismUnderTest) -> None:
    """Draws have positive density; published places lie in the region, on the public grid."""
    mechanism = subject.mechanism
    for place in subject.places[:_PLACES] if mechanism.has_density else ():
        density = subject.flat.log_density(place, subject.samples(place)[:10_000])
        _require(bool(np.isfinite(density).all()), "a draw has density 0", mechanism)
    published = mechanism.perturb(subject.people, rng=subject.seed)
    _require(published.shape == subject.people.shape, "there is not one published place for each person", mechanism)
    _require(bool(np.isfinite(published).all()), "a published place is not finite", mechanism)
    _require(bool(mechanism.area.contains(published).all()), "a published place lies outside", mechanism)
    off_grid = np.abs(published - published.round(PUBLISHED_DECIMALS)).max()
    _require(off_grid < 1e-12, "a published place is not on the public grid", mechanism)


def check_rows_draw_alike_in_any_split(subject: MechanismUnderTest) -> None:
    """Rows draw the same again, also in other batches and one at a time."""
    wrong = check_draws(subject.mechanism, subject.people[: 20 * _PLACES], stream_key(subject.seed))
    _require(wrong is None, str(wrong), subject.mechanism)


def check_seed_repeats(subject: MechanismUnderTest) -> None:
    """The same seed gives the same result, another seed another; without a seed no two results are alike."""
    perturb, people = subject.mechanism.perturb, subject.people
    _require(
        bool((perturb(people, rng=7) == perturb(people, rng=7)).all()), "a seed does not repeat", subject.mechanism
    )
    # What promises nothing may have no noise.
    if not subject.mechanism.guarantee.is_promised:
        return
    _require(bool((perturb(people, rng=7) != perturb(people, rng=8)).any()), "seeds do not matter", subject.mechanism)
    if subject.mechanism.seed is None:
        _require(bool((perturb(people) != perturb(people)).any()), "unseeded results repeat", subject.mechanism)


def check_guarantee_survives_audit(subject: MechanismUnderTest) -> None:
    """The auditor finds no pair of places that loses more than is promised, and could have found one."""
    _check_not_violated(subject, (Verdict.CONSISTENT,))


def _check_not_violated(subject: MechanismUnderTest, allowed: tuple[Verdict, ...]) -> None:
    mechanism = subject.mechanism
    if not mechanism.guarantee.is_promised:
        return
    # At the draw, also where what is published is moved afterwards.
    found = audit(MechanismSubject(mechanism), samples=AUDIT_DRAWS * subject.draws, seed=subject.seed)
    _require(found.verdict in allowed, f"{found.verdict}: {found.explanation}", mechanism)


def check_displacement_on_the_ground(subject: MechanismUnderTest) -> None:
    """Metres in the frame are metres on the ground, at latitudes 0, 37 and 60 and across the antimeridian."""
    geod = pyproj.Geod(ellps="WGS84")
    for region in _GROUND_REGIONS:
        people = synthetic_city(2_000, region, rng=subject.seed)
        in_degrees = subject.mechanism.frame == "degrees"
        mechanism = flat(subject.mechanism.with_params(**_moved_to(subject.mechanism, region)).fit(people), region)
        x = mechanism.enter(people)
        t = mechanism.draw(x, numbered_rows(len(x), subject.seed))
        unit_m = 1.0 if mechanism.frame == "metres" else region.metres_per_unit
        inside = region.contains(mechanism.leave(t)) & (np.abs(t) <= _half_extent(mechanism, region)).all(axis=1)
        published = region.publish(mechanism.leave(t))
        *_, ground = geod.inv(people[:, 1], people[:, 0], published[:, 1], published[:, 0])
        if in_degrees:
            ground = great_circle_m(people, published)
        planned = np.hypot(*(t - x).T) * unit_m
        off = np.abs(np.asarray(ground) - planned)[inside]
        # Rounding to the public grid moves a point by up to 0.08 m; the flat map bends by far less in a city.
        allowed = 0.1 + 1e-4 * planned[inside]
        _require(
            bool((off <= allowed).all()), f"displacements are not metres on the ground at the {region.name}", mechanism
        )


CHECKS: tuple[Callable[[MechanismUnderTest], None], ...] = (
    check_density_integrates_to_one,
    check_sampler_matches_density,
    check_output_in_support,
    check_rows_draw_alike_in_any_split,
    check_seed_repeats,
    check_guarantee_survives_audit,
    check_displacement_on_the_ground,
)


def _require(truth: bool, message: str, mechanism: Mechanism) -> None:
    if not truth:
        raise ConformanceError(f"{type(mechanism).__name__}: {message}")


def _moved_to(mechanism: Mechanism, region: Region) -> dict[str, object]:
    moved: dict[str, object] = {"region": region}
    # What was learned in one region, or found for it, is of no use in another.
    moved |= {name: None for name in (mechanism.learns, "calibration") if name in mechanism.get_params()}
    return moved


def _half_extent(mechanism: Mechanism, region: Region) -> FloatArray:
    return np.array(region.half_extent_m if mechanism.frame == "metres" else region.half_extent_square)


def _grid(subject: MechanismUnderTest, place: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Edges of bins along both axes that hold nearly all draws: the region itself where draws fill it."""
    drawn = subject.samples(place)
    low, high = drawn.min(axis=0), drawn.max(axis=0)
    half_extent = _half_extent(subject.flat, audited_region(subject.mechanism))
    fills = (np.abs(drawn) <= half_extent).all() and ((high - low) > 1.8 * half_extent).all()
    if fills:
        low, high = -half_extent, half_extent
    else:
        margin = 0.05 * (high - low)
        low, high = low - margin, high + margin
    return np.linspace(low[0], high[0], _BINS + 1), np.linspace(low[1], high[1], _BINS + 1)


def _bin_masses(
    mechanism: Mechanism, place: FloatArray, edges: tuple[FloatArray, FloatArray], draws: int
) -> FloatArray:
    """Probability of each bin, by the mean density over a lattice in it: a fine one where two coarse ones disagree.

    Where the fine one disagrees as well, by what as many draws could show, the bin is cut into four again and again: a
    density may be constant on many pieces that are smaller than a bin.
    """
    corners = np.stack(np.meshgrid(edges[0][:-1], edges[1][:-1], indexing="ij"), axis=-1).reshape(-1, 2)
    size = np.array([edge[1] - edge[0] for edge in edges])
    rough, better = (_lattice_masses(mechanism, place, corners, size, points) for points in _LATTICES[:2])
    doubtful = np.flatnonzero(np.abs(rough - better) > _AGREE_SHARE * better + _AGREE_MASS)
    if not len(doubtful):
        return better
    before = better[doubtful]
    better[doubtful] = _lattice_masses(mechanism, place, corners[doubtful], size, _LATTICES[2])
    chance = np.sqrt(np.maximum(better, 1 / draws) / draws)
    uneven = doubtful[np.abs(before - better[doubtful]) > _AGREE_CHANCE * chance[doubtful]]
    better[uneven] = 0.0
    bins, corners, allowed = uneven, corners[uneven], _AGREE_CHANCE * chance[uneven]
    for cut in range(_MOST_CUTS):
        size = size / 2
        corners = (corners[:, None, :] + _QUARTERS * size).reshape(-1, 2)
        # Four errors that are independent add up to twice as much.
        bins, allowed = np.repeat(bins, 4), np.repeat(allowed / 2, 4)
        rough, finer = (_lattice_masses(mechanism, place, corners, size, points) for points in _LATTICES[:2])
        again = (np.abs(rough - finer) > allowed) & (cut < _MOST_CUTS - 1)
        np.add.at(better, bins[~again], finer[~again])
        bins, corners, allowed = bins[again], corners[again], allowed[again]
        if not len(bins):
            break
    return better


def _lattice_masses(
    mechanism: Mechanism, place: FloatArray, corners: FloatArray, size: FloatArray, points: int
) -> FloatArray:
    """Probability of the bins with these lower corners, by the mean density over a lattice of ``points`` points.

    A lattice with all abscissae and all ordinates different sees a jump along an axis as finely as it has points.
    """
    steps = np.arange(points)
    lattice = np.column_stack([(steps + 0.5) / points, (steps * _GOLDEN + 0.5) % 1.0])
    outputs = (corners[:, None, :] + lattice * size).reshape(-1, 2)
    density = np.exp(mechanism.log_density(place, outputs)).reshape(len(corners), points)
    masses: FloatArray = density.mean(axis=-1) * size.prod()
    return masses


def _chi_square(drawn: FloatArray, edges: tuple[FloatArray, FloatArray], masses: FloatArray) -> float:
    """p-value of the counts in the bins, small bins and the outside taken together."""
    counts = np.histogram2d(drawn[:, 0], drawn[:, 1], bins=edges)[0].ravel()
    expected = masses * len(drawn)
    usual = expected >= _LEAST_EXPECTED
    rest_expected = max(len(drawn) - expected[usual].sum(), 0.0)
    rest_count = len(drawn) - counts[usual].sum()
    statistic = ((counts[usual] - expected[usual]) ** 2 / expected[usual]).sum()
    # The rest may be expected to be all but empty; a few counts there are no surprise, many are.
    statistic += (rest_count - rest_expected) ** 2 / max(rest_expected, _LEAST_EXPECTED)
    return float(chdtrc(int(usual.sum()), statistic))
