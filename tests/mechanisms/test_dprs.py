import math
from typing import Any

import numpy as np
import pytest
from scipy.spatial import cKDTree

from nearveil.errors import UsageError
from nearveil.mechanisms.dprs import DPRS, ReleaseName
from nearveil.mechanisms.fitting import build_public_intervals
from nearveil.mechanisms.intervals import Intervals, cell_polygons
from nearveil.mechanisms.releases import PaperRelease, losses_by_cell
from nearveil.privacy.accounting import Noise
from nearveil.privacy.guarantee import Basis, PrivacyDefinition
from nearveil.randomness import numbered_rows
from nearveil.region import Region
from nearveil.types import FloatArray

SF = "san-francisco"


@pytest.fixture(scope="module")
def few(san_francisco: Region) -> Intervals:
    return build_public_intervals(region=san_francisco, centres=30, rng=5)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("release", ["paper", "interval"])
@pytest.mark.parametrize("gamma", [0.2, 0.8])
def test_everybody_lands_in_the_disc_of_their_nearest_centre(
    city: FloatArray, noise: Noise, release: ReleaseName, gamma: float
) -> None:
    dprs = DPRS(region=SF, epsilon=1.0, release=release, centres=100, gamma=gamma, noise=noise, seed=1).fit(city)
    intervals = dprs.intervals_
    x = dprs.enter(city)
    t = dprs.draw(x, numbered_rows(len(x), 2))
    _, nearest = cKDTree(intervals.centres).query(x)
    distance = np.hypot(*(t - intervals.centres[nearest]).T)
    assert (distance <= intervals.radii[nearest] * (1 + 1e-12)).all()


def test_given_intervals_need_no_fit_and_bring_their_region(few: Intervals, city: FloatArray) -> None:
    published = DPRS(release="interval", intervals=few, region="paris", seed=1).perturb(city)
    assert few.region.contains(published).all()


def test_without_intervals_it_says_what_to_do(city: FloatArray) -> None:
    with pytest.raises(UsageError, match="fit the intervals first"):
        DPRS(region=SF).perturb(city)
    with pytest.raises(UsageError, match="fit the intervals first"):
        _ = DPRS(region=SF).guarantee


@pytest.mark.parametrize(
    ("given", "release"),
    [
        ({}, "metric"),
        ({"noise_m": 500}, "metric"),
        ({"fit_epsilon": 0.5, "centres": 50}, "metric"),
        ({"epsilon": 1.0}, "interval"),
        ({"noise": "gaussian"}, "interval"),
        ({"release": "interval"}, "interval"),
        ({"release": "paper"}, "paper"),
    ],
)
def test_the_release_that_the_parameters_speak_of(given: dict[str, Any], release: str) -> None:
    dprs = DPRS(region=SF, **given)
    assert dprs.chosen_release == release
    # The constructor stores what it was given, and nothing else.
    assert dprs.release == given.get("release")
    assert DPRS(**dprs.get_params()).chosen_release == release


def test_alone_its_noise_is_500_m_and_public_intervals_cost_nothing(few: Intervals) -> None:
    promise = DPRS(intervals=few).guarantee
    assert (promise.definition, promise.epsilon, promise.unit) == (PrivacyDefinition.METRIC, 0.004, "per meter")
    assert [alone.epsilon for alone in promise.also] == [0]


def test_nothing_private_is_kept_after_fit(city: FloatArray) -> None:
    unfitted = DPRS(region=SF, release="interval", centres=50, seed=1)
    before = set(vars(unfitted))
    assert set(vars(unfitted.fit(city))) - before == {"intervals_"}


@pytest.mark.statistical
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(("release", "epsilon"), [("interval", 4.0), ("paper", 40.0)])
def test_draws_follow_the_density_of_the_release(
    few: Intervals, noise: Noise, release: ReleaseName, epsilon: float
) -> None:
    """The mean distance from the location, against a sum over the disc: 5 standard errors, so false alarms in 6e-7.

    Noise of 0.7 or 1.3 times the scale is farther off.
    """
    dprs = DPRS(release=release, epsilon=epsilon, noise=noise, intervals=few)
    disc = int(np.argmax(few.radii))
    radius, turn = np.meshgrid(np.sqrt((np.arange(400) + 0.5) / 400), 2 * np.pi * (np.arange(400) + 0.5) / 400)
    t = few.centres[disc] + few.radii[disc] * np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=-1)
    x = few.centres[disc] + few.radii[disc] * np.array([0.3, -0.1])
    masses = np.exp(dprs.log_density(x, t))
    mean = float((masses * np.hypot(*np.moveaxis(t - x, -1, 0))).sum() / masses.sum())
    for factor, agrees in ((1.0, True), (0.7, False), (1.3, False)):
        drawn = dprs.rescaled(factor).draw(np.tile(x, (100_000, 1)), numbered_rows(100_000, 3))
        away = np.hypot(*(drawn - x).T)
        assert (abs(away.mean() - mean) < 5 * away.std() / math.sqrt(len(away))) == agrees


# -- what the card says is true -----------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.05, 0.3, 2.0])
def test_loss_within_an_interval_stays_below_the_certified_number(few: Intervals, noise: Noise, scale: float) -> None:
    """Over many pairs of places of one cell, in and outside its disc, and outputs all over the disc."""
    rng = np.random.default_rng(7)
    bound = losses_by_cell(few, cell_polygons(few), scale, noise).max()
    release = PaperRelease(few, noise, scale, delta=1e-5)
    x = rng.uniform(-1, 1, (4000, 2)) * few.region.half_extent_square
    _, cell = cKDTree(few.centres).query(x)
    worst = 0.0
    for j in range(len(few)):
        places = x[cell == j]
        angle = np.linspace(0, 2 * np.pi, 25)
        ring = np.concatenate(
            [radius * np.column_stack([np.cos(angle), np.sin(angle)]) for radius in (0.3, 0.7, 0.9999)]
        )
        outputs = few.centres[j] + few.radii[j] * ring
        logs = release.log_density(places[:, None, :], outputs[None])
        worst = max(worst, float(np.ptp(logs, axis=0).max()))
    assert worst <= bound * (1 + 1e-6)
    assert worst >= 0.2 * bound


@pytest.mark.parametrize("release", ["paper", "interval", "metric"])
def test_densities_for_all_pairs_are_those_of_each_pair(few: Intervals, release: ReleaseName) -> None:
    rng = np.random.default_rng(3)
    for noise in ("laplace", "gaussian") if release != "metric" else ("laplace",):
        dprs = DPRS(release=release, noise=noise, intervals=few)
        x = rng.uniform(-1, 1, (200, 2)) * few.region.half_extent_square
        x = few.region.from_square(x) if release == "metric" else x
        t = dprs.draw(x[:60], numbered_rows(60, rng))
        given = dprs.density_given(x)
        # The second time with what the first has found out.
        for outputs in (t[:30], t):
            found = given(outputs)
            assert found == pytest.approx(dprs.log_density(x[:, None], outputs[None]), abs=1e-9)
        assert np.isfinite(found[np.arange(60), np.arange(60)]).all()
        assert release == "metric" or np.isinf(found).mean() > 0.9


def test_between_intervals_nothing_holds(few: Intervals) -> None:
    """The counterexample: two places a metre apart on either side of a border share no output at all."""
    dprs = DPRS(epsilon=1.0, release="paper", intervals=few)
    gaps = np.hypot(*(few.centres[:, None] - few.centres[None]).transpose(2, 0, 1))
    np.fill_diagonal(gaps, np.inf)
    a, b = np.unravel_index(np.argmin(gaps), gaps.shape)
    middle, along = (few.centres[a] + few.centres[b]) / 2, few.centres[b] - few.centres[a]
    metre = along / np.hypot(*along) / few.region.metres_per_unit / 2
    near_a, near_b = middle - metre, middle + metre
    assert np.hypot(*(near_b - near_a)) * few.region.metres_per_unit == pytest.approx(1.0)
    from_a = dprs.draw(np.tile(near_a, (1000, 1)), numbered_rows(1000, 1))
    assert np.isfinite(dprs.log_density(near_a, from_a)).all()
    assert (dprs.log_density(near_b, from_a) == -np.inf).all()


def test_card_puts_the_claim_beside_what_holds(city: FloatArray) -> None:
    promise = DPRS(region=SF, epsilon=1.0, release="paper", centres=100).fit(city).guarantee
    assert (promise.definition, promise.basis) == (PrivacyDefinition.INTERVAL, Basis.THEOREM)
    intervals, _, claim = promise.also
    assert (intervals.definition, intervals.holds) == (PrivacyDefinition.CENTRAL, True)
    assert intervals.epsilon == pytest.approx(0.65, abs=0.01)
    assert (claim.epsilon, claim.basis) == (pytest.approx(1.0), Basis.REFUTED_CLAIM)
    for card, claimed in ((promise.card(), "DOES NOT HOLD"), (promise.explain(), "that is false")):
        for words in (claimed, "in different intervals, however near", "fitted on"):
            assert words in " ".join(card.replace("│", " ").split())
        assert "seed" not in card


def test_seeded_results_say_so(city: FloatArray, few: Intervals) -> None:
    assert "seed" in str(DPRS(region=SF, release="interval", centres=100, seed=3).fit(city).guarantee)
    assert "seed" in str(DPRS(release="interval", intervals=few, seed=3).guarantee)
    assert "seed" not in str(DPRS(release="interval", intervals=few).guarantee)


def test_claim_of_overlapping_discs_is_refuted_differently(city: FloatArray) -> None:
    claim = DPRS(region=SF, release="paper", centres=100, gamma=0.8).fit(city).guarantee.also[-1]
    assert not claim.holds
    assert "any delta below 1" not in claim.because


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": 1}, "delta"),
        ({"noise": "cauchy"}, "noise"),
        ({"release": "magic"}, "release"),
        ({"centres": 1}, "centres"),
        ({"gamma": 1.0}, "gamma"),
        ({"fit_method": "guess"}, "fit_method"),
        ({"release": "interval", "noise_m": 500.0}, "noise_m"),
        ({"epsilon": 1.0, "noise_m": 500.0}, "noise_m goes with the release metric"),
        ({"release": "metric", "epsilon": 1.0}, "noise_m"),
        ({"release": "metric", "noise_m": 0.5}, "at least 1 m"),
        ({"release": "metric", "noise": "gaussian"}, "planar Laplace"),
        ({"release": "paper", "fit_epsilon": 1.0}, "fit_epsilon"),
        ({"fit_epsilon": -1.0}, "fit_epsilon"),
    ],
)
def test_bad_parameters(change: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        DPRS(region=SF, **change)  # type: ignore[arg-type]
