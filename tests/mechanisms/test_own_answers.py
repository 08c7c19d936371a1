"""What cards, audits and attackers ask of a mechanism; a new one needs its own module, and an entry, alone."""

from __future__ import annotations

import numpy as np
import pytest

from nearveil import Guarantee, Region, audit, certify
from nearveil.attacks.bayes import BayesAttacker, prior_from_points
from nearveil.attacks.scores import score_attacker
from nearveil.errors import DataError
from nearveil.evaluation.contenders import contender
from nearveil.evaluation.tradeoff import Sizes, measure
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.fit_cells import cells_from_points
from nearveil.mechanisms.fitting import build_public_intervals
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.mechanisms.srr import SRR
from nearveil.randomness import RowKeystream
from nearveil.sphere import great_circle_m
from nearveil.types import FloatArray

REGION = Region(37.5, -122.6, 37.9, -122.2)
CITY = np.random.default_rng(1).normal((37.7, -122.4), 0.04, (400, 2)).clip((37.55, -122.55), (37.85, -122.25))
PLACES = CITY[:40], CITY[40:80]


def test_metric_mechanisms_count_meters_on_great_circles() -> None:
    intervals = build_public_intervals(region=REGION, centres=40, rng=1)
    for mechanism in (PlanarLaplace(500), DPRS(noise_m=500, intervals=intervals)):
        assert np.allclose(mechanism.distance(*PLACES), great_circle_m(*PLACES))
        assert mechanism.decay_per_m == pytest.approx(2 / 500)


def test_confined_noise_is_about_locations_of_one_interval() -> None:
    intervals = build_public_intervals(region=REGION, centres=4, rng=1)
    mechanism = DPRS(epsilon=1.0, intervals=intervals)
    squared = ((REGION.to_square(CITY[:80])[:, None] - intervals.centres) ** 2).sum(axis=-1)
    own = np.argmin(squared, axis=1)
    assert np.array_equal(mechanism.distance(*PLACES), np.where(own[:40] == own[40:], 1.0, np.inf))
    assert {1.0, np.inf} <= set(mechanism.distance(*PLACES))


def test_hiding_among_people_counts_steps() -> None:
    mechanism = HideAmong(100, cells=cells_from_points(CITY, REGION))
    steps = mechanism.distance(*PLACES)
    assert np.allclose(steps, mechanism.distance(*PLACES[::-1]))
    assert np.array_equal(mechanism.distance(CITY, CITY), np.zeros(len(CITY)))
    same_cell = np.equal(*(mechanism.current_cells.find(mechanism.enter(part)) for part in PLACES))
    assert (steps[~same_cell] >= 1).all()


def test_other_losses_do_not_grow_with_the_distance() -> None:
    assert np.array_equal(SRR(region=REGION).distance(*PLACES), np.ones(40))


class UniformDisc(Mechanism):
    """Somewhere within twice the mean distance: nobody claims anything for it."""

    def __init__(self, *, noise_m: float = 500.0, region: Region | str | None = None) -> None:
        self.noise_m = noise_m
        self.region = region

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        """Draw in the disc."""
        uniforms = rows.uniforms(2)
        turned = np.exp(2j * np.pi * uniforms[:, 0]) * np.sqrt(uniforms[:, 1])
        return x + 1.5 * self.noise_m * np.column_stack([turned.real, turned.imag])

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Alike in the disc."""
        return np.where(((t - x) ** 2).sum(axis=-1) < (1.5 * self.noise_m) ** 2, 0.0, -np.inf)

    @property
    def guarantee(self) -> Guarantee:
        """Nobody claims anything."""
        return Guarantee.claimed_by_nobody()


def test_a_new_mechanism_is_audited_attacked_and_evaluated_by_its_module_alone() -> None:
    mechanism = UniformDisc(noise_m=500, region=REGION)
    report = audit(mechanism, "metric:4/km", samples=50_000, seed=1)
    assert report.verdict.value == "violated"
    with pytest.raises(DataError, match="there is no certificate for this mechanism"):
        certify(mechanism)
    attacker = BayesAttacker(mechanism=mechanism, prior=prior_from_points(CITY, REGION), tau_m=100)
    errors_m = score_attacker(attacker, CITY[:40], mechanism.perturb(CITY, 1)[:40])
    assert errors_m["median"].mean() < errors_m["read_off"].mean()
    dataset = Dataset(name="city", places=CITY, region=REGION, source="made up")
    found = measure(contender(f"{__name__}:UniformDisc"), 500.0, dataset, seed=1, sizes=Sizes(50, 20, 40))
    assert 100 < found["extra_m"] < 600
    assert found["named"] < 0.5
