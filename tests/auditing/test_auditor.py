"""The auditor: right about itself before it judges others."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from tests.auditing.judged import other_stream
from tests.evidence import for_evidence

from nearveil import DPRS, SRR, AxisLaplace, Mechanism, PlanarLaplace, Square
from nearveil.auditing.auditor import DEFAULT_CONFIDENCE, AuditReport, Verdict, audit
from nearveil.auditing.claims import Claim, own_claim, paper_claim
from nearveil.auditing.pair_search import audit_pairs, mechanism_pairs
from nearveil.auditing.pairs import Pair
from nearveil.auditing.subjects import MechanismSubject, PublishedSubject
from nearveil.errors import UsageError
from nearveil.mechanisms.base import local_guarantee
from nearveil.mechanisms.srr import StaircaseChannel, interleave, staircase_channel
from nearveil.privacy.guarantee import Basis, Guarantee, PrivacyDefinition
from nearveil.randomness import RowKeystream, numbered_rows
from nearveil.region import Region
from nearveil.types import FloatArray

pytestmark = pytest.mark.statistical

WEST, EAST = (37.70, -122.50), (37.70, -122.30)
APART = Pair(WEST, EAST, "west and east")
Publish = Callable[[FloatArray, np.random.Generator], object]


class Published(PublishedSubject):
    """Anything that takes places and gives places, and whose density nobody knows."""

    def __init__(self, region: Region, function: Publish) -> None:
        super().__init__(region)
        self._function = function

    def publish(self, points: FloatArray, rng: np.random.Generator) -> object:
        return self._function(points, rng)


def published(mechanism: Mechanism) -> Published:
    return Published(mechanism.resolved_region, mechanism.perturb)


def audited(mechanism: Mechanism, claim: Claim | None = None, samples: int = 200_000, seed: int = 1) -> AuditReport:
    claim = claim or own_claim(mechanism.guarantee)
    return audit(MechanismSubject(mechanism), claim, mechanism_pairs(mechanism, claim), samples=samples, seed=seed)


def audited_from_outside(subject: Published, claim: Claim, samples: int = 200_000) -> AuditReport:
    return audit(subject, claim, audit_pairs(subject.region, claim), samples=samples, seed=1)


def local(epsilon: float, delta: float = 0.0) -> Claim:
    return Claim(PrivacyDefinition.LOCAL, epsilon, delta, "a test's claim")


# -- mechanisms that keep their promise ----------------------------------------------------------------------


def uniform(region: Region) -> Published:
    """The null mechanism: its output has nothing to do with its input."""
    low, high = (region.south, region.west), (region.north, region.east)
    return Published(region, lambda points, rng: rng.uniform(low, high, points.shape))


@pytest.mark.parametrize("audits", [20, *for_evidence(100)])
def test_a_null_mechanism_is_accused_no_more_often_than_stated(audits: int, san_francisco: Region) -> None:
    """20 or 100 audits of "epsilon = 0" at 95 %: false alarms are binomial with a chance of 0.05 at most.

    More than are allowed have probability 1e-6. What was counted accuses none at the default confidence, 1 - 1e-6; the
    false-alarm rate of that is 1e-4.
    """
    reports = [
        audit(uniform(san_francisco), local(0.0), [APART], samples=4_000, confidence=0.95, seed=seed)
        for seed in range(audits)
    ]
    assert all(report.verdict is not Verdict.INCONCLUSIVE for report in reports)
    assert sum(report.verdict is Verdict.VIOLATED for report in reports) <= binom.isf(1e-6, audits, 0.05)
    witnesses = [replace(report.witness, confidence=DEFAULT_CONFIDENCE) for report in reports if report.witness]
    assert len(witnesses) == audits
    assert not any(witness.violates for witness in witnesses)


@pytest.mark.parametrize("audits", [20, *for_evidence(100)])
def test_a_claim_that_is_just_true_is_accused_no_more_often_than_stated(audits: int, san_francisco: Region) -> None:
    """Randomised response whose loss is the claim exactly, audited at 95 %; false-alarm rate 1e-6 as above."""
    keep = math.e / (1 + math.e)

    def respond(points: FloatArray, rng: np.random.Generator) -> FloatArray:
        truly_west = points[:, 1] < -122.4
        say_west = truly_west == (rng.random(len(points)) < keep)
        return np.where(say_west[:, None], WEST, EAST)

    reports = [
        audit(Published(san_francisco, respond), local(1.0), [APART], samples=4_000, confidence=0.95, seed=seed)
        for seed in range(audits)
    ]
    assert sum(report.verdict is Verdict.VIOLATED for report in reports) <= binom.isf(1e-6, audits, 0.05)
    # It is no mere silence: nearly all of the loss is seen.
    assert np.median([report.epsilon_lower for report in reports]) > 0.7


SPARSE = [(0, 0), (1, 0), (0, 1), (1, 1), (6, 6), (7, 0)]
EXACT = [
    (PlanarLaplace(noise_m=500), 0.8),
    (Square(epsilon=1.0, region="san-francisco"), 0.85),
    *for_evidence(
        (AxisLaplace(epsilon=1.0, region="san-francisco"), 0.75),
        (SRR(epsilon=1.0, levels=2, region="san-francisco"), 0.75),
        (SRR(epsilon=2.0, levels=3, cells=SPARSE, region="san-francisco"), 0.8),
    ),
]
EXACT_NAMES = ["planar-laplace", "square", "axis-laplace", "srr", "srr-sparse"]


@pytest.mark.parametrize(("mechanism", "share"), EXACT, ids=EXACT_NAMES)
def test_an_exact_mechanism_is_not_accused(mechanism: Mechanism, share: float) -> None:
    """False-alarm rate 1e-6. The bound comes near the claim from below: the audit would have seen more."""
    report = audited(mechanism)
    assert report.verdict is Verdict.CONSISTENT
    assert share * report.claim.epsilon < report.epsilon_lower <= report.claim.epsilon


@pytest.mark.parametrize(
    "mechanism",
    [PlanarLaplace(region="san-francisco"), *for_evidence(Square(epsilon=1.0, region="san-francisco"))],
    ids=["planar-laplace", "square"],
)
def test_an_exact_mechanism_is_not_accused_from_outside(mechanism: Mechanism) -> None:
    """What it publishes, clamped and rounded, with no density known; false-alarm rate 1e-6."""
    report = audited_from_outside(published(mechanism), own_claim(mechanism.guarantee))
    assert report.verdict is Verdict.CONSISTENT
    assert report.epsilon_lower > 0.6 * report.claim.epsilon


# -- mechanisms that do not ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("mechanism", "share"), EXACT, ids=EXACT_NAMES)
def test_noise_of_seven_tenths_of_the_scale_is_caught(mechanism: Mechanism, share: float) -> None:
    del share
    report = audited(mechanism.rescaled(0.7), own_claim(mechanism.guarantee))
    assert report.verdict is Verdict.VIOLATED
    assert report.claim.epsilon < report.epsilon_lower < report.claim.epsilon / 0.7


@pytest.mark.parametrize(
    "mechanism",
    [PlanarLaplace(region="san-francisco"), *for_evidence(AxisLaplace(epsilon=1.0, region="san-francisco"))],
    ids=["planar", "axis"],
)
def test_noise_of_seven_tenths_of_the_scale_is_caught_from_outside(mechanism: Mechanism) -> None:
    report = audited_from_outside(published(mechanism.rescaled(0.7)), own_claim(mechanism.guarantee))
    assert report.verdict is Verdict.VIOLATED


class DrawnTwiceAndAveraged(PlanarLaplace):
    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        return (super().draw(x, rows) + super().draw(x, other_stream(rows))) / 2


@pytest.mark.evidence
def test_noise_drawn_twice_and_averaged_is_caught() -> None:
    """With the density of the single draw, which is not its own, and with none."""
    mechanism = DrawnTwiceAndAveraged(noise_m=500, region="san-francisco")
    assert audited(mechanism).verdict is Verdict.VIOLATED
    outside = audited_from_outside(published(mechanism), own_claim(mechanism.guarantee))
    assert outside.verdict is Verdict.VIOLATED


class BlindDensity(DrawnTwiceAndAveraged):
    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        return np.zeros(np.broadcast_shapes(np.shape(x), np.shape(t))[:-1])


def test_a_density_that_says_nothing_does_not_blind_the_audit() -> None:
    report = audited(BlindDensity(noise_m=500))
    assert report.verdict is Verdict.VIOLATED
    assert report.witness is not None
    assert report.witness.event.score.kind != "density"


class Overspending(SRR):
    """Staircase weights as if all groups were of equal size."""

    @cached_property
    def channel(self) -> StaircaseChannel:  # type: ignore[override]
        assert self.cells is not None
        columns, rows = np.array(self.cells).T
        return staircase_channel(np.sort(interleave(columns, rows)), self.levels, math.exp(self.epsilon))

    @property
    def guarantee(self) -> Guarantee:
        """SRR itself would refuse to certify it."""
        return local_guarantee(epsilon=self.epsilon, delta=0.0, basis=Basis.THEOREM, because="groups are of one size")


def sparse_cells() -> list[tuple[int, int]]:
    """A dense quarter and a few cells elsewhere: groups of very unequal size."""
    dense = [(column, row) for column in range(4) for row in range(4)]
    return [*dense, (7, 0), (0, 7), (7, 7), (6, 7)]


@pytest.mark.evidence
def test_srr_with_c_equal_to_e_to_the_epsilon_on_unequal_groups_is_caught() -> None:
    mechanism = Overspending(epsilon=1.0, levels=3, cells=sparse_cells(), region="san-francisco")
    realised = mechanism.channel.worst_case[0]
    assert realised > 1.1
    report = audited(mechanism, local(1.0), samples=1_000_000)
    assert report.verdict is Verdict.VIOLATED
    assert 1.0 < report.epsilon_lower <= realised


def resampled_until_inside(mechanism: PlanarLaplace) -> Published:
    region = mechanism.resolved_region

    def publish(points: FloatArray, rng: np.random.Generator) -> FloatArray:
        out = np.empty_like(points)
        left = np.arange(len(points))
        while len(left):
            drawn = mechanism.draw(points[left], numbered_rows(len(left), rng))
            inside = region.contains(drawn)
            out[left[inside]] = drawn[inside]
            left = left[~inside]
        return out

    return Published(region, publish)


@pytest.mark.evidence
def test_noise_resampled_until_inside_is_caught() -> None:
    """Near a corner three quarters of the draws are thrown away, and the rest weigh four times as much."""
    mechanism = PlanarLaplace(noise_m=500, region="san-francisco")
    report = audited_from_outside(resampled_until_inside(mechanism), own_claim(mechanism.guarantee), samples=800_000)
    assert report.verdict is Verdict.VIOLATED
    assert report.witness is not None
    # By the pairs that are always tried there, or by the search, which is drawn there as well.
    assert "inwards" in report.witness.pair.kind or "search" in report.witness.pair.kind


# -- the paper's release and the sound ones ------------------------------------------------------------------


@pytest.mark.evidence
def test_the_papers_claim_is_refuted_with_a_witness_to_read(city: FloatArray) -> None:
    mechanism = DPRS(release="paper", epsilon=1.0, centres=200, seed=1, region="san-francisco").fit(city)
    report = audited(mechanism, paper_claim(mechanism.guarantee), samples=200_000)
    assert report.verdict is Verdict.VIOLATED
    assert report.epsilon_lower > 8
    assert report.witness is not None
    text = report.witness.explain()
    assert text.startswith("Two places 60 m apart, on either side of a boundary between two intervals")
    assert "outputs that the second cannot give" in text
    assert "never out of" in text
    assert "allows 2.72 times as likely, plus delta 1e-05" in text


@pytest.mark.evidence
def test_the_interval_release_is_measured_to_eight_tenths(city: FloatArray) -> None:
    """Four million samples, epsilon = 1: consistent (false-alarm rate 1e-6), and the bound is at least 0.8."""
    mechanism = DPRS(release="interval", epsilon=1.0, centres=200, seed=1, region="san-francisco").fit(city)
    report = audited(mechanism, samples=4_000_000)
    assert report.verdict is Verdict.CONSISTENT
    assert 0.8 <= report.epsilon_lower <= 1.0


@pytest.mark.parametrize("noise", ["laplace", *for_evidence("gaussian")])
def test_the_interval_release_with_less_noise_is_caught(city: FloatArray, noise: str) -> None:
    settings: dict[str, Any] = {"noise": noise, "region": "san-francisco"}
    mechanism = DPRS(release="interval", epsilon=1.0, centres=200, seed=1, **settings).fit(city)
    assert audited(mechanism).verdict is Verdict.CONSISTENT
    narrow = audited(mechanism.rescaled(0.7), own_claim(mechanism.guarantee), samples=400_000)
    assert narrow.verdict is Verdict.VIOLATED


def test_what_shows_while_exploring_only_is_no_evidence(san_francisco: Region) -> None:
    """Truth told in the four calls of exploring, and nothing afterwards: samples that chose an event do not count."""
    plain = uniform(san_francisco)
    calls: list[int] = []

    def publish(points: FloatArray, rng: np.random.Generator) -> object:
        calls.append(len(points))
        return points if len(calls) <= 4 else plain.publish(points, rng)

    report = audit(Published(san_francisco, publish), local(0.1), [APART], samples=20_000, seed=1)
    assert len(calls) == 6
    assert report.pairs[0].estimated_loss is not None
    assert report.pairs[0].estimated_loss > 3
    assert report.verdict is Verdict.CONSISTENT


# -- how it counts -------------------------------------------------------------------------------------------


def one_sided(region: Region, share: float) -> Published:
    """Gives the middle of the region away for a share of the people in the east, and a uniform place otherwise."""
    plain = uniform(region)

    def publish(points: FloatArray, rng: np.random.Generator) -> FloatArray:
        out = np.asarray(plain.publish(points, rng)).copy()
        out[(points[:, 1] > -122.4) & (rng.random(len(points)) < share)] = region.centre
        return out

    return Published(region, publish)


@pytest.mark.parametrize("pair", [APART, Pair(EAST, WEST, "east and west")])
def test_both_directions_are_tried(san_francisco: Region, pair: Pair) -> None:
    report = audit(one_sided(san_francisco, 0.2), local(1.0), [pair], samples=100_000, seed=1)
    assert report.verdict is Verdict.VIOLATED
    assert report.witness is not None
    assert report.witness.event.direction == ("second" if pair is APART else "first")


def test_delta_is_taken_off(san_francisco: Region) -> None:
    """The event has a probability of 0.2 from the east and next to none from the west."""
    subject = one_sided(san_francisco, 0.2)
    assert audit(subject, local(1.0, 0.1), [APART], samples=40_000, seed=1).verdict is Verdict.VIOLATED
    assert audit(subject, local(1.0, 0.21), [APART], samples=40_000, seed=1).verdict is Verdict.CONSISTENT


@pytest.mark.evidence
def test_a_rare_tell_tale_is_found(san_francisco: Region) -> None:
    """One in two hundred gives itself away: the tail is searched finely."""
    report = audit(one_sided(san_francisco, 0.005), local(1.0), [APART], samples=1_000_000, seed=1)
    assert report.verdict is Verdict.VIOLATED


def test_the_bound_has_the_unit_of_the_claim() -> None:
    mechanism = PlanarLaplace(noise_m=500)
    report = audited(mechanism.rescaled(0.5), own_claim(mechanism.guarantee), samples=100_000)
    assert report.witness is not None
    assert report.epsilon_lower == pytest.approx(report.witness.bound / report.witness.pair.distance_m)
    assert report.to_dict()["unit"] == "per meter"


def test_too_few_samples_are_no_verdict(san_francisco: Region) -> None:
    report = audit(uniform(san_francisco), local(9.0), [APART], samples=2_000, seed=1)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "more samples are needed" in report.pairs[0].remark
    assert "times as many samples" in report.explanation
    assert report.samples == 0


@pytest.mark.parametrize("definition", [PrivacyDefinition.INTERVAL, PrivacyDefinition.CENTRAL])
def test_a_claim_about_no_pair_at_all_is_no_verdict(san_francisco: Region, definition: PrivacyDefinition) -> None:
    report = audit(uniform(san_francisco), Claim(definition, 1.0, 0.0, ""), [APART], samples=2_000, seed=1)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "nothing was tested" in report.explanation


def test_the_same_seed_gives_the_same_audit_and_no_seed_a_fresh_one() -> None:
    mechanism = Square(epsilon=1.0, region="san-francisco")
    counts = [audited(mechanism, samples=20_000, seed=seed).witness for seed in (5, 5, 6)]
    assert counts[0] is not None and counts[1] is not None and counts[2] is not None
    assert counts[0].counts == counts[1].counts != counts[2].counts
    claim, pairs = own_claim(mechanism.guarantee), [APART]
    seeds = {audit(MechanismSubject(mechanism), claim, pairs, samples=2_000).seed for _ in range(3)}
    assert len(seeds) == 3


def test_samples_are_counted_and_not_exceeded() -> None:
    ticks: list[int] = []
    square = Square(region="san-francisco")
    claim, subject = own_claim(square.guarantee), MechanismSubject(square)
    report = audit(subject, claim, [APART], samples=50_001, seed=1, progress=ticks.append)
    assert 49_000 < report.samples <= 50_001
    assert sum(ticks) == report.samples
    assert report.witness is not None
    assert report.witness.counts.trials >= 0.37 * 50_001


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 100}, "at least"),
        ({"samples": True}, "at least"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": 0.3}, "confidence"),
        ({"seed": -1}, "seed"),
    ],
)
def test_options_are_checked(san_francisco: Region, options: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        audit(uniform(san_francisco), local(1.0), [APART], **options)  # type: ignore[arg-type]
