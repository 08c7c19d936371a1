"""Pairs: every kind is there, they are what they are called, and all lie in the region."""

import numpy as np
import pytest

from nearveil import DPRS, SRR, PlanarLaplace
from nearveil.auditing.claims import Claim, own_claim, paper_claim
from nearveil.auditing.pair_search import audit_pairs, interval_pairs, mechanism_pairs, place_pairs
from nearveil.auditing.pairs import Pair, pair_from_dict
from nearveil.mechanisms.intervals import Intervals
from nearveil.mechanisms.nearest import NearestCentre
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.region import Region
from nearveil.types import FloatArray

REGIONS = (
    Region(37.5, -122.6, 37.9, -122.2),
    Region(37.5, -122.6, 37.9, -122.2, scaling="per-axis"),
    Region(-17.2, 179.8, -16.8, -179.8, name="antimeridian"),
    Region(51.5, 0.0, 51.503, 0.004, name="a block"),
)


@pytest.fixture(scope="module", params=REGIONS, ids=str)
def intervals(request: pytest.FixtureRequest) -> Intervals:
    region = request.param
    rng = np.random.default_rng(4)
    people = np.column_stack(
        [rng.uniform(region.south, region.north, 500), region.west + rng.uniform(0, region.width_deg, 500)]
    )
    people[:, 1] = (people[:, 1] + 180) % 360 - 180
    return DPRS(epsilon=5.0, centres=40, region=region, seed=1).fit(people).current_intervals


def test_pairs_with_intervals_are_what_they_are_called(intervals: Intervals) -> None:
    pairs = interval_pairs(intervals)
    region = intervals.region
    for pair in pairs:
        places = np.array([pair.first, pair.second])
        assert region.contains(places).all()
        own = NearestCentre(intervals.centres)(region.to_square(places))
        assert pair.same_interval == (own[0] == own[1])
        assert pair.same_interval == ("boundary" not in pair.kind)
    kinds = " | ".join(pair.kind for pair in pairs)
    for word in ("boundary", "diagonal", "opposite edges", "centre and the edge", "smallest", "median", "far corners"):
        assert word in kinds


def test_the_ends_of_a_diagonal_are_two_radii_apart(intervals: Intervals) -> None:
    pair = next(pair for pair in interval_pairs(intervals) if "diagonal of the median" in pair.kind)
    ends = intervals.region.to_square([pair.first, pair.second])
    centre = NearestCentre(intervals.centres)(ends)[0]
    offsets = (ends - intervals.centres[centre]) / intervals.radii[centre]
    np.testing.assert_allclose(np.abs(offsets), np.sqrt(0.5), rtol=1e-3)


def test_sixty_metres_across_a_border(city: FloatArray) -> None:
    mechanism = DPRS(release="paper", centres=60, seed=1, region="san-francisco").fit(city)
    pairs = mechanism_pairs(mechanism, paper_claim(mechanism.guarantee))
    first = next(pair for pair in pairs if not pair.same_interval)
    assert first.distance_m == pytest.approx(60, abs=0.5)
    assert str(first).startswith("two places 60 m apart, on either side of a boundary between two intervals")


@pytest.mark.parametrize("region", REGIONS, ids=str)
def test_pairs_without_intervals_lie_in_the_region(region: Region) -> None:
    claim = own_claim(PlanarLaplace(noise_m=5, region=region).guarantee)
    pairs = audit_pairs(region, claim)
    for pair in pairs:
        assert region.contains([pair.first, pair.second]).all()
        assert pair.distance_m > 0
        assert pair.same_interval is None
    kinds = " | ".join(pair.kind for pair in pairs)
    for word in ("corners", "near the middle", "opposite edges", "halves", "inwards"):
        assert word in kinds


def test_a_metric_claim_is_tried_at_distances_where_it_tells() -> None:
    claim = own_claim(PlanarLaplace(noise_m=300).guarantee)
    losses = [claim.claimed_loss(pair) for pair in mechanism_pairs(PlanarLaplace(), claim)]
    for wanted in (0.5, 1.0, 2.0, 4.0):
        assert sum(abs((loss or 0) - wanted) < 0.01 for loss in losses) >= 3


def test_the_density_points_at_pairs_that_lose_most() -> None:
    """On a full grid the loss between cells far apart is epsilon; the pairs found have it."""
    mechanism = SRR(epsilon=1.0, levels=4, region="san-francisco")
    found = [pair for pair in mechanism_pairs(mechanism, own_claim(mechanism.guarantee)) if "density" in pair.kind]
    assert len(found) == 3
    for pair in found:
        first, second = mechanism.enter(np.array([pair.first, pair.second]))
        assert mechanism.log_density(first, first) - mechanism.log_density(second, first) == pytest.approx(1.0)


@pytest.mark.parametrize("region", REGIONS, ids=str)
@pytest.mark.parametrize("definition", [PrivacyDefinition.METRIC, PrivacyDefinition.LOCAL])
def test_pairs_around_a_place_lie_in_the_region(region: Region, definition: PrivacyDefinition) -> None:
    claim = Claim(definition, 0.05 if definition is PrivacyDefinition.METRIC else 1.0, 0.0, "a test's claim")
    for place in (region.centre, (region.south, region.west), (region.north, region.east)):
        pairs = place_pairs(region, place, claim)
        assert len(pairs) >= 2
        for pair in pairs:
            assert region.contains([pair.first, pair.second]).all()
            assert pair.first == pytest.approx(place, abs=1e-8)
            assert pair.distance_m > 5
            if definition is PrivacyDefinition.METRIC:
                assert (claim.claimed_loss(pair) or 0) < 2.1


def test_places_of_a_pair_differ_in_their_low_digits() -> None:
    """Or else noise of whole metres would go unseen."""
    region = REGIONS[0]
    for pair in audit_pairs(region, own_claim(PlanarLaplace(noise_m=500, region=region).guarantee)):
        if "in the middle of the region" in pair.kind or "inwards" in pair.kind:
            apart = np.subtract(*region.to_metres([pair.first, pair.second]))
            assert np.abs(apart - np.round(apart)).max() > 0.1


def test_a_pair_survives_json() -> None:
    pair = Pair((1.5, 2.25), (1.5, 2.5), "anywhere", None)
    assert pair_from_dict(pair.to_dict()) == pair
