"""Planar Laplace on the sphere: its law anywhere on Earth, its promise, regions, seeds, and what it refuses."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kstest

import nearveil as nv
from nearveil.auditing.subjects import from_plane, to_plane
from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.planar_laplace import NUMERICAL_DELTA, PlanarLaplace
from nearveil.randomness import NumberedRows, RowKeystream, stream_key
from nearveil.region import Region
from nearveil.sphere import EARTH_RADIUS_M, great_circle_m, moved
from nearveil.types import FloatArray, IntArray, WordArray

COUNT = 100_000
PLACES = {
    "a mid-latitude": (48.2, 16.37),
    "near the north pole": (89.9999, 20.0),
    "the south pole": (-90.0, 0.0),
    "the antimeridian": (-17.0, 179.9999),
}
LAWS = pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())


def distance_law(noise_m: float, distance_m: FloatArray) -> FloatArray:
    """The share of the noise within a distance: the density integrated over the cap, in closed form."""
    a, angle = 2 * EARTH_RADIUS_M / noise_m, distance_m / EARTH_RADIUS_M
    reached = 1 - np.exp(-a * angle) * (a * np.sin(angle) + np.cos(angle))
    return np.asarray(reached / (1 + math.exp(-a * math.pi)))


def turns(place: tuple[float, float], published: FloatArray) -> FloatArray:
    """Directions from a place, as shares of a turn."""
    east, north = to_plane(np.array(place), published).T
    return np.asarray(np.arctan2(east, north) / (2 * np.pi) % 1.0)


# -- the law -------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@LAWS
@pytest.mark.parametrize("noise_m", [500.0, 500_000.0])
def test_the_law_is_the_same_everywhere(place: tuple[float, float], noise_m: float) -> None:
    """Distances and directions, Kolmogorov-Smirnov at 1e-6 each; noise 30 % off is rejected at the same level."""
    published = PlanarLaplace(noise_m).perturb(np.tile(place, (COUNT, 1)), rng=3)
    distances_m = great_circle_m(np.array(place), published)
    assert kstest(distances_m, lambda d: distance_law(noise_m, d)).pvalue > 1e-6
    assert kstest(turns(place, published), "uniform").pvalue > 1e-6
    for factor in (0.7, 1.3):
        assert kstest(distances_m, lambda d, factor=factor: distance_law(factor * noise_m, d)).pvalue < 1e-6
    # Half of the distances are on the one half of the directions: they are independent of each other.
    ahead = turns(place, published) < 0.5
    assert kstest(distances_m[ahead], distances_m[~ahead]).pvalue > 1e-6


@pytest.mark.parametrize("noise_m", [1.0, 500.0, 500_000.0, 20_000_000.0])
def test_the_density_integrates_to_one_over_the_sphere(noise_m: float) -> None:
    # The last is wider than the constructor takes: the constant is that of a sphere.
    mechanism = PlanarLaplace()
    mechanism.noise_m = noise_m
    here = np.array([30.0, 60.0])

    def ring(angle: float) -> float:
        there = moved(here, np.array(1.0), np.array(angle * EARTH_RADIUS_M))
        return math.exp(mechanism.log_density(here, there)) * 2 * math.pi * EARTH_RADIUS_M**2 * math.sin(angle)

    scale = min(noise_m / EARTH_RADIUS_M, 1.0)
    ends = sorted({min(step * scale, math.pi) for step in (0, 0.1, 0.5, 1, 2, 5, 20)})
    total = sum(quad(ring, low, high, limit=200)[0] for low, high in itertools.pairwise(ends))
    assert total == pytest.approx(1, abs=2e-5)


class _Scripted(RowKeystream):
    """Rows whose uniform numbers are written down, six for each attempt."""

    def __init__(self, *attempts: list[float]) -> None:
        self.attempts = attempts

    def __len__(self) -> int:
        return 1

    def blocks(self, number: int, rows: IntArray | None = None) -> WordArray:
        attempt, block = divmod(number, 3)
        pair = np.array([self.attempts[attempt][2 * block : 2 * block + 2]])
        return np.floor(pair * 2.0**53).astype(np.uint64) << np.uint64(11)


def test_a_rejected_distance_is_drawn_again_from_further_numbers() -> None:
    """At 0.55 of the radius of the Earth, sin(d) / d is 0.95: the share of distances that is kept."""
    far = 1 - 2.0**-30
    taken, near = [far, 0.0, far, 0.0, 0.25, 0.9], [0.5, 0.0, 0.5, 0.0, 0.5, 0.0]
    mechanism, here = PlanarLaplace(100_000), np.array([[0.0, 0.0]])
    kept = mechanism.draw(here, _Scripted(taken))
    assert kept[0] == pytest.approx([0.0, math.degrees(60 * math.log(2) * 50_000 / EARTH_RADIUS_M)])
    drawn_again = mechanism.draw(here, _Scripted([*taken[:5], 0.999], near))
    assert great_circle_m(here, drawn_again)[0] == pytest.approx(2 * math.log(2) * 50_000)


def test_the_ends_of_two_exponentials_are_as_far_as_delta_says() -> None:
    end = 1 - 2.0**-53
    farthest = PlanarLaplace(500).draw(np.array([[0.0, 0.0]]), _Scripted([end, end, end, end, 0.25, 0.0]))
    reach_m = 2 * 85 * math.log(2) * 250
    assert great_circle_m(np.array([0.0, 0.0]), farthest)[0] == pytest.approx(reach_m)
    # Beyond the reach of one of them, for a place ten times the noise away and so e^20 times likelier.
    assert 2 * math.exp(20) * 2.0**-85 == pytest.approx(NUMERICAL_DELTA)
    assert NUMERICAL_DELTA < 1e-16


# -- the promise -----------------------------------------------------------------------------------------------------


def test_epsilon_is_two_over_the_noise_with_and_without_a_region() -> None:
    for region in (None, "berlin", Region(40, -10, 65, 30)):
        guarantee = PlanarLaplace(500, region).guarantee
        assert guarantee.epsilon == 0.004
        assert guarantee.certificate is not None
        assert guarantee.certificate.bound == guarantee.certificate.attained == 0.004
    assert "ellipsoid" in " ".join(PlanarLaplace().guarantee.notes)


def test_the_loss_is_at_most_epsilon_times_the_distance_and_attained_on_great_circles(
    rng: np.random.Generator,
) -> None:
    mechanism = PlanarLaplace(3000)
    first, second, output = (
        np.column_stack([np.degrees(np.arcsin(rng.uniform(-1, 1, 5000))), rng.uniform(-180, 180, 5000)])
        for _ in range(3)
    )
    loss = mechanism.log_density(first, output) - mechanism.log_density(second, output)
    allowed = mechanism.epsilon_per_m * great_circle_m(first, second)
    assert (np.abs(loss) <= allowed * (1 + 1e-9)).all()
    beyond = moved(second, *_bearing_and_distance(second, first, by=1.2))
    attained = mechanism.log_density(first, beyond) - mechanism.log_density(second, beyond)
    near = great_circle_m(first, second) < 1e7
    assert attained[near] == pytest.approx(allowed[near], rel=1e-6)


def _bearing_and_distance(start: FloatArray, end: FloatArray, by: float) -> tuple[FloatArray, FloatArray]:
    plane_m = np.array([to_plane(here, there) for here, there in zip(start, end, strict=True)])
    return np.arctan2(*plane_m.T), by * np.hypot(*plane_m.T)


@pytest.mark.parametrize(
    ("region", "where"),
    [
        (None, None),
        ("berlin", None),
        (None, Region(89.6, -90.0, 90.0, 90.0, name="near the pole")),
        (None, Region(-17.2, 179.8, -16.8, -179.8, name="the antimeridian")),
    ],
    ids=["anywhere", "region", "pole", "antimeridian"],
)
def test_our_auditor_finds_nothing_and_refutes_less_than_half(region: str | None, where: Region | None) -> None:
    """Confidence 0.999999: a true claim is called violated once in a million audits."""
    mechanism = PlanarLaplace(500, region)
    assert nv.audit(mechanism, region=where, samples=50_000, seed=1).verdict.value == "consistent"
    too_little = nv.audit(mechanism, "metric:2.8/km", region=where, samples=50_000, seed=1)
    assert too_little.verdict.value == "violated"


@pytest.mark.evidence
@pytest.mark.parametrize("case", ["anywhere", "region", "pole"])
def test_ten_million_samples_find_nothing_and_refute_a_claim_ten_percent_below(
    case: str, figure: Callable[..., None]
) -> None:
    """PlanarLaplace survives 10,000,000 samples of our auditor, which refute a rate 10 % below its own."""
    mechanism = PlanarLaplace(500, "berlin" if case == "region" else None)
    where = Region(89.6, -90.0, 90.0, 90.0, name="near the pole") if case == "pole" else None
    own = nv.audit(mechanism, region=where, samples=10_000_000, seed=1)
    assert own.verdict.value == "consistent"
    below = nv.audit(mechanism, "metric:3.6/km", region=where, samples=10_000_000, seed=1)
    assert below.verdict.value == "violated"
    figure(f"largest loss found, {case}", 1000 * own.epsilon_lower, "epsilon per km of 4")


# -- with a region and without ----------------------------------------------------------------------------------------


def test_without_a_region_locations_anywhere_are_published_on_the_grid(rng: np.random.Generator) -> None:
    people = np.column_stack([rng.uniform(-90, 90, 20_000), rng.uniform(-180, 180, 20_000)])
    people[:4] = [[90, 0], [-90, 180], [0, 180], [0, -180]]
    published = PlanarLaplace(100_000).perturb(people)
    assert (np.abs(published[:, 0]) <= 90).all()
    assert ((published[:, 1] >= -180) & (published[:, 1] < 180)).all()
    assert np.abs(published - published.round(6)).max() < 1e-12
    assert np.median(great_circle_m(people, published)) > 50_000


def test_with_a_region_what_would_leave_it_comes_to_its_edge() -> None:
    fiji = Region(-18.0, 179.0, -17.0, -179.0)
    people = np.tile([[-17.01, 179.99]], (20_000, 1))
    published = PlanarLaplace(3000, fiji).perturb(people, rng=1)
    assert fiji.contains(published).all()
    # The edge is 1.1 km away, and beyond a distance of 0.37 times the noise to one side are 26 % of it.
    assert 0.2 < (published[:, 0] == -17.0).mean() < 0.33
    free = PlanarLaplace(3000).perturb(people, rng=1)
    inside = fiji.contains(free)
    assert (published[inside] == free[inside]).all()


def test_seeds_repeat_in_any_split_of_the_rows() -> None:
    people = np.tile([[60.0, -179.9999]], (300, 1))
    mechanism, key = PlanarLaplace(100_000), stream_key(7)
    whole = mechanism.perturb_rows(people, NumberedRows(key, 0, 300))
    for size in (1, 7, 128):
        parts = [
            mechanism.perturb_rows(people[start : start + size], NumberedRows(key, start, min(size, 300 - start)))
            for start in range(0, 300, size)
        ]
        assert (np.vstack(parts) == whole).all()
    seeded = PlanarLaplace(500, seed=4)
    assert (seeded.perturb(people) == seeded.perturb(people)).all()
    assert (PlanarLaplace(500).perturb(people) != PlanarLaplace(500).perturb(people)).all(axis=1).mean() > 0.99


def test_what_is_no_location_is_refused_by_its_row() -> None:
    for bad, words in ((math.nan, "row 2 has no readable location"), (1e4, "row 2"), (-95.0, "row 2")):
        with pytest.raises(DataError, match=words):
            PlanarLaplace().perturb([[10.0, 170.0], [bad, 170.0]])
    with pytest.raises(DataError, match="row 1 lies outside the region berlin"):
        PlanarLaplace(region="berlin").perturb([[37.7, -122.4], [52.5, 13.4]])
    with pytest.raises(DataError, match="no points"):
        PlanarLaplace().perturb(np.empty((0, 2)))


@pytest.mark.parametrize("length", [0, -5, 0.5, 500_001, math.nan, math.inf, "5 ft", True])
def test_impossible_lengths_are_refused(length: float) -> None:
    with pytest.raises(UsageError, match="noise"):
        PlanarLaplace(noise_m=length)


def test_what_needs_a_map_says_that_it_needs_a_region() -> None:
    with pytest.raises(UsageError, match="PlanarLaplace needs a region"):
        _ = PlanarLaplace().resolved_region
    for make in (nv.DPRS, nv.HideAmong, nv.SRR, nv.Square, nv.AxisLaplace):
        with pytest.raises(UsageError, match=f"{make.__name__} needs a region: region='berlin', a box, or a GeoJSON"):
            make()


# -- the sphere -------------------------------------------------------------------------------------------------------


def test_planes_and_steps_agree_with_each_other_and_with_the_haversine(rng: np.random.Generator) -> None:
    here = np.array([[52.0, 13.0], [89.99, 7.0], [0.0, -179.99]])
    bearing, distance_m = rng.uniform(0, 2 * np.pi, 3), np.array([0.5, 40_000.0, 8_000_000.0])
    there = moved(here, bearing, distance_m)
    assert great_circle_m(here, there) == pytest.approx(distance_m, rel=1e-8)
    for one, other in zip(here, there, strict=True):
        assert great_circle_m(from_plane(one, to_plane(one, other)), other) < 1e-6
    latitude, other_latitude = np.radians(here[:, 0]), np.radians(there[:, 0])
    turn = np.radians(there[:, 1] - here[:, 1])
    half = np.sin((other_latitude - latitude) / 2) ** 2
    half += np.cos(latitude) * np.cos(other_latitude) * np.sin(turn / 2) ** 2
    assert great_circle_m(here, there) == pytest.approx(2 * EARTH_RADIUS_M * np.arcsin(np.sqrt(half)), rel=1e-8)
