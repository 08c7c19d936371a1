"""Hypotheses about the paper's Table 3: they are what their labels say, and stand in rows of their own."""

import numpy as np
import pytest
from scipy import stats

from nearveil.errors import UsageError
from nearveil.evaluation.cells import fitted
from nearveil.evaluation.defences import ConfinedBaseline, Defence, read_population
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.fitting import build_public_intervals
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.mechanisms.square import Square
from nearveil.randomness import numbered_rows
from nearveil.region import Region
from nearveil.types import FloatArray
from tests.evaluation.made_up_results import tiny_town

TOWN = tiny_town("town", people=600)


def resampled(baseline: Mechanism, person: FloatArray, centre: FloatArray, radius: float, count: int) -> FloatArray:
    """The baseline itself, drawn until it lies in the disc."""
    rng, found = np.random.default_rng(2), np.empty((0, 2))
    while len(found) < count:
        drawn = baseline.draw(baseline.enter(np.repeat(person, 200_000, axis=0)), numbered_rows(200_000, rng))
        square = baseline.resolved_region.to_square(baseline.leave(drawn))
        found = np.vstack([found, square[np.hypot(*(square - centre).T) < radius]])
    return found[:count]


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["square", "planar-laplace"])
def test_noise_is_that_of_the_baseline_within_the_disc(kind: str, san_francisco: Region) -> None:
    """Both coordinates by Kolmogorov and Smirnov, 20,000 draws: false alarms 2 in 10^6; noise 1.3 times as wide fails.

    The disc is large, so that noise differs within it; the person is nearer to its centre than to any other.
    """
    intervals = build_public_intervals(region=san_francisco, centres=8, gamma=0.8, rng=2)
    own = int(np.argmax(intervals.radii))
    centre, radius = intervals.centres[own], float(intervals.radii[own])
    person = san_francisco.from_square(centre[None] + [[0.25, 0.15]])
    wide = {"square": Square(epsilon=4.0, region=san_francisco),
            "planar-laplace": PlanarLaplace(noise_m=3000, region=san_francisco)}[kind]  # fmt: skip
    for baseline, agrees in ((wide, True), (wide.rescaled(1.3), False)):
        mechanism = ConfinedBaseline(
            baseline=baseline, discs=DPRS(region=san_francisco), intervals=intervals, region=san_francisco
        )
        x = san_francisco.to_square(np.repeat(person, 20_000, axis=0))
        found = mechanism.draw(x, numbered_rows(len(x), 1))
        assert np.hypot(*(found - centre).T).max() <= radius
        expected = resampled(wide, person, centre, radius, 20_000)
        least = min(stats.ks_2samp(found[:, axis], expected[:, axis]).pvalue for axis in (0, 1))
        assert (least > 1e-6) == agrees


@pytest.mark.parametrize("kind", ["srr", "square", "planar-laplace"])
def test_a_confined_baseline_publishes_in_the_disc_of_the_nearest_centre(kind: str) -> None:
    defence = Defence(label=kind, mechanism=kind, epsilon=5.0, centres=40, gamma=0.8, confined=True)
    mechanism = fitted(defence.build(TOWN.region, 1), TOWN)
    assert isinstance(mechanism, ConfinedBaseline)
    assert mechanism.intervals is not None
    scaled = mechanism.resolved_region
    x = scaled.to_square(TOWN.places)
    t = mechanism.draw(x, numbered_rows(len(x), 1))
    own = np.argmin(np.linalg.norm(x[:, None] - mechanism.intervals.centres, axis=-1), axis=1)
    away = np.hypot(*(t - mechanism.intervals.centres[own]).T)
    assert (away <= mechanism.intervals.radii[own]).all()
    # Noise for the whole region hardly changes within a disc: places are nearly uniform there, 2/3 of the radius away.
    assert np.mean(away / mechanism.intervals.radii[own]) == pytest.approx(2 / 3, abs=0.05)
    # The intervals are those of DPRS at the same epsilon.
    dprs = Defence(label="DPRS", mechanism="dprs", epsilon=5.0, centres=40, gamma=0.8)
    again = dprs.build(TOWN.region, 1).fit(TOWN.places)
    assert isinstance(again, DPRS)
    assert (again.intervals_.centres == mechanism.intervals.centres).all()


def test_a_hypothesis_promises_nothing() -> None:
    mechanism = Defence(label="", mechanism="square", epsilon=1.0, confined=True).build(TOWN.region, 1)
    with pytest.raises(UsageError, match="promises nothing"):
        _ = mechanism.guarantee


def test_populations_under_a_reading() -> None:
    crowd = tiny_town("crowd", people=8_100)
    assert read_population(crowd, "stated") is crowd
    assert (read_population(crowd, "8,000 people").places == crowd.places[:8_000]).all()
    region = crowd.region.with_scaling("per-axis")
    square = region.to_square(read_population(crowd, "min-max").places)
    assert square.min(axis=0) == pytest.approx([-1, -1], abs=1e-9)
    assert square.max(axis=0) == pytest.approx([1, 1], abs=1e-9)
    # Only stretched: the order along each axis is as before.
    assert (np.argsort(square[:, 0]) == np.argsort(crowd.places[:, 1])).all()
