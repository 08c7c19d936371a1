"""Subjects: what is no place, or not drawn afresh, is an error and never a verdict."""

import itertools
import json
import secrets
from dataclasses import replace

import numpy as np
import pytest

from nearveil import DPRS, PlanarLaplace, Square
from nearveil.auditing.auditor import audit
from nearveil.auditing.claims import Claim, claim_from_json, own_claim
from nearveil.auditing.external import CallableSubject
from nearveil.auditing.pair_search import as_place, mechanism_pairs
from nearveil.auditing.pairs import Pair
from nearveil.auditing.subjects import (
    AuditError,
    MechanismSubject,
    PublishedSubject,
    ReleasedSubject,
    checked_outputs,
    own_subject,
)
from nearveil.nearby.publishing.noise import ReportNoise, Wanted
from nearveil.nearby.publishing.protection import Protection
from nearveil.nearby.stores.base import STEP_M
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.randomness import RowKeystream
from nearveil.region import Region, named_region
from nearveil.types import FloatArray

PAIR = Pair((37.70, -122.50), (37.70, -122.30), "west and east")
CLAIM = Claim(PrivacyDefinition.LOCAL, 1.0, 0.0, "")


class Gives(PublishedSubject):
    def __init__(self, change: object) -> None:
        super().__init__(named_region("san-francisco"))
        self._change = change

    def publish(self, points: FloatArray, rng: np.random.Generator) -> object:
        published = Square(epsilon=1.0, region="san-francisco").perturb(points, rng)
        return self._change(published) if callable(self._change) else self._change


def put(value: float) -> object:
    def change(published: FloatArray) -> FloatArray:
        published[-1, 0] = value
        return published

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put(np.nan), "not a number"),
        (put(np.inf), "not a number"),
        (put(52.0), "outside the region"),
        (lambda published: published[:-1], "it must give"),
        (lambda published: published[:, :1], "it must give"),
        (lambda published: [*published.astype(str).tolist(), ["a", "b"]], "not an array of numbers"),
        (lambda published: [[None, None]] * len(published), "not a number"),
        (None, "it must give"),
        ("places", "not an array of numbers"),
    ],
)
def test_bad_outputs_are_an_error(change: object, message: str) -> None:
    with pytest.raises(AuditError, match=message) as caught:
        audit(Gives(change), CLAIM, [PAIR], samples=2_000, seed=1)
    assert caught.value.exit_code == 4


def test_a_fixed_seed_inside_the_mechanism_is_an_error() -> None:
    """Its samples would never be fresh, and no confidence would hold."""

    class Fixed(PublishedSubject):
        def publish(self, points: FloatArray, rng: np.random.Generator) -> object:
            del rng
            return Square(epsilon=1.0, region="san-francisco").perturb(points, 7)

    with pytest.raises(AuditError, match="fixed seed"):
        audit(Fixed(named_region("san-francisco")), CLAIM, [PAIR], samples=20_000, seed=1)


def test_a_mechanism_without_chance_is_no_error() -> None:
    """Truth told every time: the same outputs again, and rightly so."""

    class Truth(PublishedSubject):
        def publish(self, points: FloatArray, rng: np.random.Generator) -> object:
            del rng
            return points

    report = audit(Truth(named_region("san-francisco")), CLAIM, [PAIR], samples=20_000, seed=1)
    assert report.verdict.value == "violated"


def test_places_are_never_named_in_an_error() -> None:
    region = Region(37.5, -122.6, 37.9, -122.2)
    with pytest.raises(AuditError) as caught:
        checked_outputs([[51.123456, 7.654321]], 1, region)
    assert "51.12" not in str(caught.value)


@pytest.mark.parametrize("release", ["interval", "metric", "paper"])
def test_a_mechanism_is_audited_at_its_draw(release: str, city: FloatArray) -> None:
    """Samples come from the mechanism's draw, in its frame, on several cores as on one; ratios from its density."""
    mechanism = DPRS(release=release, centres=20, seed=1, region="san-francisco").fit(city)  # type: ignore[arg-type]
    subject = MechanismSubject(mechanism)
    count = 70_000
    outputs, again = (subject.sample(PAIR.first, count, np.random.default_rng(3)) for _ in range(2))
    assert (outputs == again).all()
    assert len(np.unique(outputs, axis=0)) > 0.99 * count
    ratio = subject.log_ratio(PAIR.first, PAIR.first, outputs[:100])
    assert ratio is not None
    assert (ratio == 0).all()
    assert mechanism.resolved_region.contains(subject.outputs_in_degrees(outputs)).all()


def test_what_is_published_is_audited_after_the_remap(city: FloatArray) -> None:
    """Published places lie in the discs, by the same code as a release's, on several cores as on one."""
    mechanism = DPRS(release="metric", centres=20, seed=1, region="san-francisco").fit(city)
    subject = own_subject(mechanism)
    assert isinstance(subject, ReleasedSubject)
    count = 70_000
    outputs, again = (subject.sample(PAIR.first, count, np.random.default_rng(3)) for _ in range(2))
    assert (outputs == again).all()
    intervals = mechanism.intervals_
    places = intervals.region.to_square(subject.outputs_in_degrees(outputs[:2000]))
    beyond = np.linalg.norm(places[:, None] - intervals.centres, axis=2) - intervals.radii
    assert beyond.min(axis=1).max() * intervals.region.metres_per_unit < 0.2
    assert isinstance(own_subject(PlanarLaplace()), MechanismSubject)


@pytest.mark.statistical
def test_release_metric_is_audited_end_to_end(city: FloatArray) -> None:
    """Consistent at the true scale and violated at 0.7 of it (false-alarm rate 1e-6)."""
    mechanism = DPRS(release="metric", centres=20, seed=1, region="san-francisco").fit(city)
    claim = own_claim(mechanism.guarantee)
    pairs = mechanism_pairs(mechanism, claim)
    for factor, verdict in ((1.0, "consistent"), (0.7, "violated")):
        report = audit(ReleasedSubject(mechanism.rescaled(factor)), claim, pairs, samples=100_000, seed=1)
        assert report.verdict.value == verdict


@pytest.mark.statistical
def test_a_remap_that_looks_at_the_true_place_is_caught(city: FloatArray) -> None:
    """The noise is right, and the disc is that of the true place: nothing at the draw, violated as published."""

    class Peeking(DPRS):
        def perturb_rows(self, points: object, rows: RowKeystream) -> FloatArray:
            centres = self.current_intervals.centres
            places = self.resolved_region.to_square(np.asarray(points))
            return self.resolved_region.from_square(
                centres[[np.linalg.norm(centres - at, axis=1).argmin() for at in places]]
            )

    mechanism = Peeking(release="metric", centres=20, seed=1, region="san-francisco").fit(city)
    claim = own_claim(mechanism.guarantee)
    pairs = mechanism_pairs(mechanism, claim)
    drawn, published = (
        audit(subject, claim, pairs, samples=20_000, seed=1)
        for subject in (MechanismSubject(mechanism), own_subject(mechanism))
    )
    assert (drawn.verdict.value, published.verdict.value) == ("consistent", "violated")


@pytest.mark.statistical
def test_the_card_of_a_service_is_audited_with_its_offset() -> None:
    """Its own draws, for a person each: two places a metre apart, in two cells (false-alarm rate 1e-6).

    The cells' centres are 125 m apart, which 0.004 per meter alone does not allow for and the card's offset does.
    """
    protection = Protection(region=named_region("san-francisco"))
    region, grid = protection.region, protection.grid
    noise, people = ReportNoise(protection), itertools.count()
    key = secrets.token_bytes(32)

    def publish(points: FloatArray, _: np.random.Generator) -> FloatArray:
        cells = [grid.cells_near(x, y)[0] for x, y in region.to_metres(points)]
        wanted = [Wanted(f"p{next(people)}", *grid.centre_of(cell), cell, b"", key) for cell in cells]
        drawn = noise.perturb(wanted, {one.person: [] for one in wanted})
        return region.from_metres(np.array(drawn) * STEP_M)

    here, there = (as_place(region, place) for place in region.from_metres(np.array([[62.0, 0.0], [63.0, 0.0]])))
    pair = Pair(here, there, "on either side of a border between two cells")
    claim = claim_from_json(json.dumps({"guarantee": protection.guarantee.to_dict()}))
    assert claim.offset == pytest.approx(2**0.5)
    without = replace(claim, offset=0.0)
    for stated, verdict in ((claim, "consistent"), (without, "violated")):
        report = audit(CallableSubject(publish, region), stated, [pair], samples=20_000, seed=1)
        assert report.verdict.value == verdict


def test_metres_are_the_coordinates_of_published_places() -> None:
    subject = Gives(lambda published: published)
    at = subject.in_outputs(PAIR.first)
    assert subject.outputs_in_degrees(at[None])[0] == pytest.approx(PAIR.first)
    assert subject.log_ratio(PAIR.first, PAIR.second, at[None]) is None


def test_equal_places_are_equal_in_metres_whatever_else_is_published() -> None:
    """A row a hair outside the region must not change the others: an atom on the edge would seem to be two."""
    region = named_region("san-francisco")
    subject = Gives(None)
    corner = np.array([[region.south, region.west], [region.south, region.west + 0.1]])
    outside = np.array([[region.south - 9e-10, region.west - 9e-10]])
    assert region.contains(outside).all()
    assert (subject.in_metres(np.vstack([corner, outside]))[:2] == subject.in_metres(corner)).all()


def test_across_the_antimeridian_metres_are_those_of_the_region() -> None:
    region = Region(-17.2, 179.8, -16.8, -179.8)

    class Fiji(PublishedSubject):
        def publish(self, points: FloatArray, rng: np.random.Generator) -> object:
            del rng
            return points

    places = np.array([[-17.0, 179.9], [-17.0, -179.9], [-17.2, 179.8], [-16.8, -179.8]])
    metres = Fiji(region).sample_each(places, np.random.default_rng(1))
    np.testing.assert_allclose(metres, region.to_metres(places), atol=2e-6)


def test_each_place_gets_its_own_draw() -> None:
    places = np.array([PAIR.first, PAIR.second])
    for subject in (Gives(lambda published: published), MechanismSubject(PlanarLaplace(noise_m=5))):
        outputs = subject.sample_each(np.repeat(places, 500, axis=0), np.random.default_rng(1))
        assert len(np.unique(outputs, axis=0)) > 900
    middles = outputs.reshape(2, 500, 2).mean(axis=1)
    assert middles == pytest.approx(np.array([subject.in_outputs(place) for place in (PAIR.first, PAIR.second)]), abs=2)
