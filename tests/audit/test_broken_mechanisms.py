"""Small faults that leave nearly all of the noise in place: each is found, and its witness stands on fresh samples."""

from collections.abc import Callable

import numpy as np
import pytest

from nearveil import PlanarLaplace
from nearveil.audit.auditor import audit
from nearveil.audit.claim import own_claim
from nearveil.audit.pair_choice import audit_pairs, mechanism_pairs, place_pairs
from nearveil.audit.recheck import recheck
from nearveil.audit.report import AuditReport, Verdict
from nearveil.audit.subject import MechanismSubject, PublishedSubject
from nearveil.audit.witness import witness_from_json
from nearveil.region_names import named_region
from nearveil.types import FloatArray

pytestmark = pytest.mark.statistical

REGION = named_region("san-francisco")
SOUND = PlanarLaplace(hide_within_m=500)
CLAIM = own_claim(SOUND.guarantee)
WEAK_PLACE = (37.61, -122.33)
Publish = Callable[[FloatArray, np.random.Generator], FloatArray]

POOL = SOUND.draw(np.zeros((100_000, 2)), np.random.default_rng(9))


def noise(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    return SOUND.draw(np.zeros_like(points), rng)


def moved(points: FloatArray, metres: FloatArray) -> FloatArray:
    return REGION.clip(REGION.from_metres(REGION.to_metres(points) + metres))


def whole_metres(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The true place modulo 1 m is kept."""
    return moved(points, np.round(noise(points, rng)))


def whole_metres_rounded(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    return np.round(whole_metres(points, rng), 6)


def degrees(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Noise in degrees, a metre taken for 1 / 111,320 of a degree."""
    east, north = noise(points, rng).T
    return np.column_stack([north, east / np.cos(np.radians(points[:, 0]))]) / 111_320


def five_decimals(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The noise is rounded and not the place: the sixth decimal and all below are the true ones."""
    return REGION.clip(points + np.round(degrees(points, rng), 5))


def whole_metres_in_degrees(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Whole metres by a rough formula, so that the period in longitude depends on the latitude."""
    east, north = np.round(noise(points, rng)).T
    moves = np.column_stack([north, east / np.cos(np.radians(points[:, 0]))]) / 111_320
    return REGION.clip(points + moves)


def skipped(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """One in a thousand is published as it is."""
    return np.where(rng.random((len(points), 1)) < 1e-3, points, SOUND.perturb(points, rng))


def pooled(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """100,000 vectors of noise, used again and again."""
    return moved(points, POOL[rng.integers(len(POOL), size=len(points))])


def patched(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A disc of 300 m across with a third of the noise."""
    away = REGION.to_metres(points) - REGION.to_metres([WEAK_PLACE])
    share = np.where(np.hypot(*away.T) < 150, 1 / 3, 1.0)
    return moved(points, noise(points, rng) * share[:, None])


class Broken(PublishedSubject):
    def __init__(self, function: Publish) -> None:
        super().__init__(REGION)
        self._function = function

    def publish(self, points: FloatArray, rng: np.random.Generator) -> object:
        return self._function(points, rng)


def audited(function: Publish, samples: int, seed: int = 1) -> AuditReport:
    return audit(Broken(function), CLAIM, audit_pairs(REGION, CLAIM), samples=samples, seed=seed)


def assert_stands(report: AuditReport, function: Publish, samples: int) -> None:
    """The witness, written down and read back, is confirmed by samples of its own."""
    assert report.verdict is Verdict.VIOLATED
    assert report.witness is not None
    again = witness_from_json(report.witness.to_json())
    assert again.explain() == report.witness.explain()
    assert recheck(again, Broken(function), samples=samples, seed=2).stands


@pytest.mark.parametrize("function", [whole_metres, whole_metres_rounded, whole_metres_in_degrees, five_decimals])
def test_low_digits_of_the_true_place_are_found(function: Publish) -> None:
    report = audited(function, 100_000)
    assert_stands(report, function, 50_000)
    assert report.witness is not None
    assert report.witness.event.score.kind == "low-digits"
    assert report.witness.counts.false_hits < 0.01 * report.witness.counts.hits


def test_noise_that_is_skipped_once_in_a_thousand_is_found() -> None:
    """At 1,000,000 samples; at 400,000 it is found four times out of five."""
    report = audited(skipped, 1_000_000)
    assert_stands(report, skipped, 700_000)


def test_a_pool_of_noise_is_found() -> None:
    report = audited(pooled, 400_000)
    assert_stands(report, pooled, 400_000)
    assert report.witness is not None
    assert report.witness.event.score.kind == "recurring"
    assert report.witness.counts.false_hits == 0


def test_a_small_place_with_less_noise_is_found_by_the_search() -> None:
    report = audited(patched, 2_000_000)
    assert_stands(report, patched, 200_000)
    assert report.witness is not None
    assert "found by a search" in report.witness.pair.kind


def test_a_small_place_with_less_noise_is_found_where_one_looks() -> None:
    """Also on few samples, which leave no search to be made; not found without the place."""
    subject, near = Broken(patched), (37.6105, -122.3295)
    pairs = audit_pairs(REGION, CLAIM)
    assert audit(subject, CLAIM, pairs, samples=60_000, seed=1).verdict is Verdict.CONSISTENT
    report = audit(subject, CLAIM, [*pairs, *place_pairs(REGION, near, CLAIM)], samples=60_000, seed=1)
    assert_stands(report, patched, 60_000)
    assert report.witness is not None
    assert report.witness.pair.first == near


def test_a_twentieth_less_noise_is_found_in_ten_million_samples() -> None:
    mechanism = SOUND.rescaled(0.95)
    report = audit(MechanismSubject(mechanism), CLAIM, mechanism_pairs(SOUND, CLAIM), samples=10_000_000, seed=1)
    assert report.verdict is Verdict.VIOLATED
    assert CLAIM.epsilon < report.epsilon_lower < CLAIM.epsilon / 0.95


@pytest.mark.parametrize("decimals", [6, 4, 2])
def test_a_public_output_grid_is_not_accused(decimals: int) -> None:
    """Rounding what was published to 0.1 m, 11 m and 1.1 km loses nothing more; false-alarm rate 1e-6 each."""

    def rounded(points: FloatArray, rng: np.random.Generator) -> FloatArray:
        return REGION.clip(np.round(SOUND.perturb(points, rng), decimals))

    report = audited(rounded, 200_000)
    assert report.verdict is Verdict.CONSISTENT
    assert report.epsilon_lower > 0.5 * CLAIM.epsilon
