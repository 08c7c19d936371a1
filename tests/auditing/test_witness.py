"""Witnesses: written down, read back, and checked again on fresh samples."""

import json

import numpy as np
import pytest

from nearveil import DPRS, PlanarLaplace, Square
from nearveil.auditing.auditor import audit
from nearveil.auditing.claims import own_claim, paper_claim
from nearveil.auditing.explore import MOST_EVENTS
from nearveil.auditing.pair_search import audit_pairs, mechanism_pairs
from nearveil.auditing.subjects import MechanismSubject, PublishedSubject
from nearveil.auditing.witness import Witness, recheck, witness_from_json
from nearveil.errors import DataError, UsageError
from nearveil.region import named_region
from nearveil.types import FloatArray

pytestmark = pytest.mark.statistical


class Narrow(PublishedSubject):
    """Planar Laplace noise of half the width, from outside."""

    def publish(self, points: FloatArray, rng: np.random.Generator) -> object:
        return PlanarLaplace(noise_m=250, region="san-francisco").perturb(points, rng)


NARROW = Narrow(named_region("san-francisco"))
CLAIM = own_claim(PlanarLaplace(noise_m=500).guarantee)


@pytest.fixture(scope="module")
def outside() -> Witness:
    """A witness whose event was learned."""
    report = audit(NARROW, CLAIM, audit_pairs(NARROW.region, CLAIM), samples=200_000, seed=1)
    assert report.witness is not None
    return report.witness


@pytest.fixture(scope="module")
def paper(city: FloatArray) -> tuple[DPRS, Witness]:
    mechanism = DPRS(release="paper", centres=50, seed=1, region="san-francisco").fit(city)
    claim = paper_claim(mechanism.guarantee)
    report = audit(MechanismSubject(mechanism), claim, mechanism_pairs(mechanism, claim), samples=50_000, seed=1)
    assert report.witness is not None
    return mechanism, report.witness


def test_a_witness_survives_json(outside: Witness, paper: tuple[DPRS, Witness]) -> None:
    for witness in (outside, paper[1]):
        again = witness_from_json(witness.to_json())
        assert again.to_json() == witness.to_json()
        assert again.violates
        assert again.explain() == witness.explain()


def test_a_violation_stands_on_fresh_samples(outside: Witness, paper: tuple[DPRS, Witness]) -> None:
    """Also with the audit's own seed, whose samples are not used again."""
    for witness, subject in ((outside, NARROW), (paper[1], MechanismSubject(paper[0]))):
        read = witness_from_json(witness.to_json())
        for seed in (None, witness.seed):
            checked = recheck(read, subject, samples=200_000, seed=seed)  # type: ignore[arg-type]
            assert checked.violates
            assert checked.bound > checked.claimed_loss
            assert checked.counts.trials == 100_000


def test_a_recheck_with_the_audits_seed_draws_other_samples(outside: Witness) -> None:
    again = recheck(outside, NARROW, samples=2 * outside.counts.trials, seed=outside.seed)
    assert again.counts.trials == outside.counts.trials
    assert again.counts != outside.counts


def test_a_forged_witness_does_not_stand(outside: Witness) -> None:
    """Its counts say what they like; an honest mechanism does not repeat them (false-alarm rate 1e-6)."""
    document = json.loads(outside.to_json())
    trials = document["counts"]["trials"]
    document["counts"] = {"hits": trials, "trials": trials, "false_hits": 0, "false_trials": trials}
    forged = witness_from_json(json.dumps(document))
    assert forged.violates

    class Honest(PublishedSubject):
        def publish(self, points: FloatArray, rng: np.random.Generator) -> object:
            return PlanarLaplace(noise_m=500, region="san-francisco").perturb(points, rng)

    assert not recheck(forged, Honest(NARROW.region), samples=100_000, seed=1).violates


def test_what_a_witness_says_of_itself_is_computed_again(outside: Witness) -> None:
    document = json.loads(outside.to_json())
    document["violates"], document["bound"] = True, 99.0
    document["counts"]["hits"] = document["counts"]["false_hits"]
    assert not witness_from_json(json.dumps(document)).violates


def test_events_counted_together_share_the_error(outside: Witness) -> None:
    document = json.loads(outside.to_json())
    assert 1 < document["events_counted"] <= MOST_EVENTS
    document["events_counted"] = 1
    assert witness_from_json(json.dumps(document)).bound > outside.bound


def test_what_is_shown_where_nothing_is_found() -> None:
    mechanism = Square(epsilon=1.0, region="san-francisco")
    claim = own_claim(mechanism.guarantee)
    report = audit(MechanismSubject(mechanism), claim, mechanism_pairs(mechanism, claim), samples=20_000, seed=1)
    witness = report.witness
    assert witness is not None
    assert not witness.violates
    assert not recheck(witness, MechanismSubject(mechanism), samples=20_000, seed=2).violates
    assert "does not prove" in report.explanation
    json.dumps(report.to_dict(), allow_nan=False)


def test_a_witness_for_a_pair_beyond_the_claim_violates_nothing(paper: tuple[DPRS, Witness]) -> None:
    """The same counts, held against the promise that speaks of one interval only."""
    document = json.loads(paper[1].to_json())
    document["claim"] = own_claim(paper[0].guarantee).to_dict()
    witness = witness_from_json(json.dumps(document))
    assert not witness.violates
    assert "anything" in witness.explain()


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"counts": {"hits": 5, "trials": 3, "false_hits": 0, "false_trials": 3}},
        {"counts": None},
        {"confidence": 1.0},
        {"events_counted": 0},
        {"event": {"score": {"kind": "density"}, "threshold": 0.0, "direction": "up"}},
        {"pair": {"first": [1.0], "second": [1.0, 2.0], "kind": "", "same_interval": None}},
        {"claim": {}},
        {"subject": 3},
    ],
)
def test_a_damaged_witness_is_refused(outside: Witness, change: dict[str, object]) -> None:
    document = {**json.loads(outside.to_json()), **change}
    with pytest.raises(DataError, match="not a witness"):
        witness_from_json(json.dumps(document))


def test_another_version_is_refused(outside: Witness) -> None:
    document = {**json.loads(outside.to_json()), "version": 99}
    with pytest.raises(DataError, match="not a witness file"):
        witness_from_json(json.dumps(document))
    with pytest.raises(DataError, match="not a witness"):
        witness_from_json("{")


def test_a_recheck_needs_samples(outside: Witness) -> None:
    with pytest.raises(UsageError, match="samples"):
        recheck(outside, NARROW, samples=1)
