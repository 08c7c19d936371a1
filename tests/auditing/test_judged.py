"""Small faults that leave nearly all of the noise in place are found, and their witnesses stand on fresh samples."""

import pytest
from tests.auditing.judged import BROKEN, INNOCENT, NARROW, SOUND, Case, OwnCase
from tests.evidence import for_evidence

from nearveil.auditing.auditor import AuditReport, Verdict, audit
from nearveil.auditing.claims import own_claim
from nearveil.auditing.pair_search import mechanism_pairs
from nearveil.auditing.subjects import MechanismSubject
from nearveil.auditing.witness import recheck, witness_from_json

pytestmark = pytest.mark.statistical


def assert_found(case: Case | OwnCase, samples: int, recheck_samples: int) -> AuditReport:
    """The fault is found, and the witness, written down and read back, is confirmed by samples of its own."""
    report = case.audit(samples, seed=1)
    assert report.verdict is Verdict.VIOLATED
    assert report.witness is not None
    again = witness_from_json(report.witness.to_json())
    assert again.explain() == report.witness.explain()
    assert recheck(again, case.subject, samples=recheck_samples, seed=2).violates
    return report


@pytest.mark.parametrize("name", [*list(BROKEN)[:1], *for_evidence(*list(BROKEN)[1:4])])
def test_low_digits_of_the_true_place_are_found(name: str) -> None:
    report = assert_found(BROKEN[name], 100_000, 50_000)
    assert report.witness is not None
    assert report.witness.event.score.kind == "low-digits"
    assert report.witness.counts.false_hits < 0.01 * report.witness.counts.hits


def test_noise_that_is_skipped_once_in_a_thousand_is_found() -> None:
    assert_found(BROKEN["noise skipped, 1 in 1,000"], 600_000, 600_000)


def test_a_pool_of_noise_is_found() -> None:
    report = assert_found(BROKEN["a pool of 100,000 vectors"], 400_000, 400_000)
    assert report.witness is not None
    assert report.witness.event.score.kind == "recurring"
    assert report.witness.counts.false_hits < 0.01 * report.witness.counts.hits


@pytest.mark.evidence
def test_a_small_place_with_less_noise_is_found_by_the_search() -> None:
    report = assert_found(BROKEN["300 m with a third"], 2_000_000, 100_000)
    assert report.witness is not None
    assert "found by a search" in report.witness.pair.kind


def test_a_small_place_with_less_noise_is_found_where_one_looks() -> None:
    """Also on few samples, which leave no search to be made; without the place it goes unseen."""
    assert BROKEN["300 m with a third"].audit(60_000, seed=1).verdict is Verdict.CONSISTENT
    case = BROKEN["300 m, --place"]
    assert isinstance(case, Case)
    report = assert_found(case, 60_000, 60_000)
    assert report.witness is not None
    assert report.witness.pair.first == case.place


@pytest.mark.evidence
def test_a_twentieth_less_noise_is_found_in_four_million_samples() -> None:
    claim = own_claim(SOUND.guarantee)
    report = audit(MechanismSubject(NARROW), claim, mechanism_pairs(SOUND, claim), samples=4_000_000, seed=1)
    assert report.verdict is Verdict.VIOLATED
    assert claim.epsilon < report.epsilon_lower < claim.epsilon / 0.95


@pytest.mark.evidence
def test_a_fall_over_steps_that_is_a_tenth_too_fast_is_found() -> None:
    """At a fifth of the samples that the whole city is audited with (see `tests.auditing.judged`)."""
    report = assert_found(BROKEN["hide among, rate x 1.1"], 2_000_000, 1_000_000)
    assert report.claim.epsilon < report.epsilon_lower < 1.1 * report.claim.epsilon
    assert report.claim.unit == "per step"


@pytest.mark.parametrize("name", [*list(INNOCENT)[:2], *for_evidence(*list(INNOCENT)[2:])])
def test_a_mechanism_that_keeps_its_promise_is_not_accused(name: str) -> None:
    """At the default confidence: false-alarm rate 1e-6 each."""
    report = INNOCENT[name].audit(250_000, seed=1)
    assert report.verdict is Verdict.CONSISTENT
    assert report.epsilon_lower >= 0.4 * report.claim.epsilon
