"""Releases `interval` and `metric`: their laws, their promises, and what the card says of both."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.spatial import cKDTree

from nearveil import DPRS, PlanarLaplace, Region
from nearveil.mechanisms._disc_law import GAUSSIAN, LAPLACE, log_density, log_masses
from nearveil.mechanisms._disc_loss import _log_mass_bounds, calibrated_disc_loss, laplace_disc_loss
from nearveil.mechanisms.fitting import build_public_intervals
from nearveil.mechanisms.intervals import Intervals
from nearveil.privacy.accounting import Noise
from nearveil.privacy.guarantee import Basis, PrivacyDefinition
from nearveil.randomness import numbered_rows
from nearveil.types import FloatArray

REGION = "san-francisco"


@pytest.fixture(scope="module")
def few(san_francisco: Region) -> Intervals:
    return build_public_intervals(region=san_francisco, centres=30, rng=5)


def points_of_the_disc(rng: np.random.Generator) -> FloatArray:
    radius, angle = np.sqrt(rng.random(250)), 2 * np.pi * rng.random(250)
    circle = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    radius, angle = np.concatenate([radius, np.full(64, 1 - 1e-13)]), np.concatenate([angle, circle])
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def largest_loss_by_trying(noise: int, scale: float) -> float:
    points = points_of_the_disc(np.random.default_rng(3))
    logs = log_density(noise, points[:, None], points[None], scale)
    return float(np.ptp(logs, axis=0).max())


# -- the disc ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0, 50.0])
def test_verified_loss_is_above_everything_tried_and_tight(epsilon: float) -> None:
    found = calibrated_disc_loss(epsilon, "laplace")
    tried = largest_loss_by_trying(LAPLACE, found.scale)
    assert tried <= found.bound <= epsilon
    assert found.attained == pytest.approx(tried, rel=1e-9)
    assert found.bound <= 1.001 * found.attained


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_gaussian_loss_is_exactly_epsilon(epsilon: float) -> None:
    tried = largest_loss_by_trying(GAUSSIAN, calibrated_disc_loss(epsilon, "gaussian").scale)
    assert tried == pytest.approx(epsilon, rel=1e-9)
    assert tried <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("scale", [0.06, 0.4, 2.83, 40.0])
def test_the_verified_loss_rests_on_bounds_of_the_mass_and_allows_for_its_mesh(scale: float) -> None:
    """Against the law's own quadrature, up to ln(scale), which the bounds leave out; a coarser mesh costs more."""
    angles = np.array([0.0, 0.3, 0.7, 1.2])
    x = np.column_stack([np.cos(angles + np.pi / 4), np.sin(angles + np.pi / 4)])
    exact, (low, high) = log_masses(LAPLACE, x, np.full(4, scale)) - math.log(scale), _log_mass_bounds(angles, scale)
    assert ((low <= exact + 1e-9) & (exact - 1e-9 <= high) & (high < low + 1e-3)).all()
    coarser = laplace_disc_loss(scale, 25) - laplace_disc_loss(scale)
    assert coarser == pytest.approx(2 * math.pi / 4 * (1 / 25 - 1 / 1000) / scale, rel=0.1)


# -- interval ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_interval_loses_at_most_epsilon_within_a_cell_and_everything_between(few: Intervals, noise: Noise) -> None:
    dprs = DPRS(epsilon=1.5, noise=noise, intervals=few)
    rng = np.random.default_rng(7)
    x = rng.uniform(-1, 1, (3000, 2)) * few.region.half_extent_square
    _, cell = cKDTree(few.centres).query(x)
    worst = 0.0
    for disc in range(len(few)):
        places = x[cell == disc]
        outputs = few.centres[disc] + few.radii[disc] * points_of_the_disc(rng)
        logs = dprs.log_density(places[:, None, :], outputs[None])
        assert np.isfinite(logs).all()
        worst = max(worst, float(np.ptp(logs, axis=0).max()))
    assert 1.2 < worst <= 1.5
    other = x[cell != cell[0]]
    drawn = dprs.draw(np.tile(x[0], (100, 1)), numbered_rows(100, rng))
    assert (dprs.log_density(other[:, None], drawn[None]) == -np.inf).all()


def test_interval_treats_everybody_beyond_the_disc_like_the_nearest_point_of_it(few: Intervals) -> None:
    disc = int(np.argmax(few.radii))
    centre, radius = few.centres[disc], few.radii[disc]
    direction = np.array([0.6, 0.8])
    dprs = DPRS(epsilon=2.0, intervals=few)
    on_edge, outside = centre + radius * direction, centre + 1.05 * radius * direction
    t = centre + radius * points_of_the_disc(np.random.default_rng(1))
    assert dprs.log_density(outside, t) == pytest.approx(dprs.log_density(on_edge, t), abs=1e-9)
    again = [dprs.draw(place[None], numbered_rows(1, 2)) for place in (on_edge, outside)]
    assert again[0] == pytest.approx(again[1], abs=1e-12)


# -- metric ------------------------------------------------------------------------------------------------------


def test_metric_is_planar_laplace_before_the_discs(few: Intervals) -> None:
    metric, planar = DPRS(release="metric", noise_m=700, intervals=few), PlanarLaplace(noise_m=700)
    x, t = np.array([[37.71, -122.41]]), np.array([[37.7, -122.45]])
    assert metric.frame == planar.frame
    assert metric.log_density(x, t) == planar.log_density(x, t)
    assert (metric.draw(x, numbered_rows(1, 1)) == planar.draw(x, numbered_rows(1, 1))).all()
    promise = metric.guarantee
    assert (promise.definition, promise.unit, promise.basis) == (PrivacyDefinition.METRIC, "per meter", Basis.THEOREM)
    assert promise.epsilon == pytest.approx(2 / 700)


@pytest.mark.parametrize("scaling", ["isotropic", "per-axis"])
def test_metric_publishes_points_of_the_discs_only(city: FloatArray, scaling: str) -> None:
    region = Region(37.5, -122.6, 37.9, -122.2, scaling=scaling)  # type: ignore[arg-type]
    discs = build_public_intervals(region=region, centres=40, rng=5)
    metric = DPRS(release="metric", noise_m=3000, intervals=discs, seed=1)
    published = region.to_square(metric.perturb(city))
    outside = np.min(np.hypot(*(published[:, None] - discs.centres[None]).transpose(2, 0, 1)) - discs.radii, axis=1)
    # A disc may stick out of the region, where points are clamped to it; the rest is off by rounding alone.
    on_border = (np.abs(np.abs(published) - region.half_extent_square) < 1e-4).any(axis=1)
    assert (outside[~on_border] < 1e-5).all()
    assert on_border.mean() < 0.2
    inside = (outside < -1e-5).mean()
    assert 0.1 < inside < 0.9


def test_metric_remap_looks_at_nothing_but_the_noisy_place(few: Intervals) -> None:
    metric = DPRS(release="metric", noise_m=500, intervals=few)
    noisy = np.array([[37.7100001, -122.4100001], [37.7100003, -122.4100002]])
    moved = metric.remap(noisy)
    assert (moved[0] == moved[1]).all()  # the same point of the public grid
    assert metric.remaps
    assert not DPRS(release="interval", intervals=few).remaps


# -- cards and fits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["pic", "private-grid"])
def test_card_adds_what_fitting_costs_those_fitted_on(city: FloatArray, method: str) -> None:
    interval = DPRS(region=REGION, epsilon=1.0, fit_epsilon=0.5, fit_method=method, centres=50).fit(city)  # type: ignore[arg-type]
    intervals, together = interval.guarantee.also
    assert intervals.epsilon == pytest.approx(0.5, rel=1e-3)
    assert together.epsilon == pytest.approx(1.0 + 2 * intervals.epsilon)
    assert together.delta >= interval.guarantee.delta + 2 * intervals.delta
    metric = DPRS(release="metric", noise_m=500, intervals=interval.intervals_).guarantee
    assert (metric.epsilon, metric.offset) == (pytest.approx(0.004), 0.0)
    assert (metric.also[1].epsilon, metric.also[1].offset) == (
        pytest.approx(0.004),
        pytest.approx(together.epsilon - 1),
    )
    assert "+ 1" in str(metric)


def test_fit_costs_as_much_as_the_release_unless_told_otherwise(city: FloatArray) -> None:
    kinds: tuple[dict[str, Any], ...] = ({"epsilon": 2.0}, {"release": "metric"}, {"epsilon": 2.0, "release": "paper"})
    interval, metric, paper = (DPRS(region=REGION, centres=50, **kind).fit(city).intervals_ for kind in kinds)
    assert (interval.fit_cost(1e-5)[0], metric.fit_cost(1e-5)[0]) == (pytest.approx(2.0), pytest.approx(1.0))
    assert [fitted.method for fitted in (interval, metric, paper)] == ["private-grid", "private-grid", "pic"]
