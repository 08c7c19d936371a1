"""Audits, checks of witnesses and certificates as one call from Python."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nearveil as nv
from nearveil.auditing.auditor import AuditReport, Verdict
from nearveil.auditing.check import check_witness, read_witness
from nearveil.auditing.claims import Claim, as_claim
from nearveil.auditing.external import ModuleSubject
from nearveil.auditing.fit_witness import FitWitness
from nearveil.auditing.witness import Witness
from nearveil.errors import DataError, OutputError, UsageError
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.region import Region
from nearveil.types import FloatArray

pytestmark = pytest.mark.statistical

NOISE = nv.PlanarLaplace(noise_m=500, region="san-francisco")


def uniform(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Publish any place of San Francisco."""
    return rng.uniform([37.5, -122.6], [37.9, -122.2], points.shape)


@pytest.fixture(scope="module")
def violated() -> AuditReport:
    """Half of the loss is claimed."""
    report = nv.audit(NOISE, "metric:2/km", samples=60_000, seed=1)
    assert report.verdict is Verdict.VIOLATED
    return report


def test_a_mechanism_is_audited_on_its_own_claim() -> None:
    """False alarms: 1e-6 each, and none at this seed."""
    for claim in (None, "own", NOISE.guarantee, "metric:4/km"):
        report = nv.audit(NOISE, claim, samples=20_000, seed=1)
        assert report.verdict is Verdict.CONSISTENT
        assert report.claim.epsilon == pytest.approx(0.004)


def test_the_papers_claim(city: FloatArray) -> None:
    dprs = nv.DPRS(release="paper", centres=50, seed=1, region="san-francisco").fit(city)
    assert nv.audit(dprs, "paper", samples=40_000, seed=1).verdict is Verdict.VIOLATED


def test_a_function_of_ones_own(san_francisco: Region) -> None:
    """Uniform noise loses nothing (false alarms: 1e-6)."""
    report = nv.audit(uniform, "local:1", region=san_francisco, samples=20_000, seed=1)
    assert report.verdict is Verdict.CONSISTENT
    assert report.witness is not None
    assert report.witness.subject == {}
    with pytest.raises(DataError, match="does not say what it is about"):
        check_witness(report.witness)
    with pytest.raises(UsageError, match="does not know what this mechanism promises"):
        nv.audit(uniform, region=san_francisco)
    with pytest.raises(UsageError, match="region='berlin'"):
        nv.audit(uniform, "local:1")


def test_a_command_and_its_witness(tmp_path: Path) -> None:
    """A program that copies its input hides nothing."""
    copy = [sys.executable, "-c", "import shutil, sys; shutil.copy(*sys.argv[1:])", "{input}", "{output}"]
    report = nv.audit(copy, "local:1", region="berlin", samples=4_000, seed=1)
    assert report.verdict is Verdict.VIOLATED
    assert report.witness is not None
    path = tmp_path / "witness.json"
    path.write_text(report.witness.to_json())
    with pytest.raises(UsageError, match="not run because a file says so"):
        check_witness(path)
    named = str(report.witness.subject["command"])
    assert check_witness(path, command=named, samples=4_000).verdict is Verdict.VIOLATED


def test_places_to_look_at(san_francisco: Region) -> None:
    report = nv.audit(NOISE, "metric:2/km", places=[(37.7, -122.4)], samples=20_000, seed=1)
    asked_for = [summary for summary in report.pairs if "asked for" in summary.pair.kind]
    assert {summary.pair.first for summary in asked_for} == {(37.7, -122.4)}
    assert not any("search" in summary.pair.kind for summary in report.pairs)
    with pytest.raises(UsageError, match="outside the region"):
        nv.audit(NOISE, places=[(10.0, 10.0)])
    with pytest.raises(UsageError, match="2,000 samples"):
        nv.audit(uniform, "local:1", region=san_francisco, samples=100)


def test_a_subject_can_be_audited_and_used_again(tmp_path: Path, san_francisco: Region) -> None:
    """Its process ends with the audit, and begins again when it is needed."""
    path = tmp_path / "own.py"
    path.write_text("def publish(points, rng):\n    return rng.uniform([37.5, -122.6], [37.9, -122.2], points.shape)\n")
    subject = ModuleSubject(f"{path}:publish", san_francisco)
    assert nv.audit(subject, "local:1", samples=2_000, seed=1).samples == 2_000
    with subject:
        assert subject.sample((37.7, -122.4), 10, np.random.default_rng(1)).shape == (10, 2)


def test_a_witness_is_checked(violated: AuditReport, tmp_path: Path) -> None:
    assert violated.witness is not None
    assert violated.witness.subject["mechanism"] == "planar-laplace"
    path = tmp_path / "witness.json"
    path.write_text(violated.witness.to_json())
    assert isinstance(read_witness(path), Witness)
    for witness in (path, str(path), violated.witness):
        check = check_witness(witness, samples=60_000, seed=2)
        assert check.verdict is Verdict.VIOLATED
        assert check.epsilon_lower > violated.claim.epsilon
        assert check.samples == 60_000
        assert check.audited == f"planar-laplace in {NOISE.resolved_region}"
    assert check_witness(path, samples=40, seed=2).verdict is Verdict.INCONCLUSIVE
    with pytest.raises(UsageError, match="mechanism of Nearveil"):
        check_witness(path, command="true")


def test_a_lying_witness_does_not_stand(violated: AuditReport) -> None:
    """The claim is put to what the mechanism keeps. False alarms: 1e-6, and none at this seed."""
    assert violated.witness is not None
    true_claim = replace(violated.claim, epsilon=0.004)
    check = check_witness(replace(violated.witness, claim=true_claim, confidence=0.1), samples=60_000, seed=2)
    assert check.verdict is not Verdict.VIOLATED
    assert check.witness.confidence == 1 - 1e-6


def test_a_fit_and_its_witness(tmp_path: Path) -> None:
    """False alarms: 1e-3 each, and none at this seed."""
    dprs = nv.DPRS(region="san-francisco")
    report = nv.audit_fit(dprs, fits=1_000, seed=1)
    assert (report.verdict, report.view, report.fits) == (Verdict.CONSISTENT, "answers", 1_000)
    assert report.witness.subject["params"]["centres"] == 2
    path = tmp_path / "witness.json"
    path.write_text(report.witness.to_json())
    assert isinstance(read_witness(path), FitWitness)
    assert check_witness(path, samples=400, seed=1).verdict is not Verdict.VIOLATED
    tight = nv.audit_fit(dprs, Claim(PrivacyDefinition.CENTRAL, 0.01, 0.0, "too little"), fits=4_000, seed=1)
    assert tight.verdict is Verdict.VIOLATED
    with pytest.raises(UsageError, match="give all three"):
        nv.audit_fit(lambda points, rng: points)


@pytest.mark.parametrize(
    ("words", "says"), [("papre", "numbers behind the privacy definition"), ("metric:4/km+", "follows the +")]
)
def test_words_that_are_no_claim(words: str, says: str) -> None:
    with pytest.raises(UsageError, match=says.replace("+", r"\+")):
        as_claim(words, NOISE)


def test_a_certificate_is_saved_and_checked(tmp_path: Path) -> None:
    certificate = nv.certify(nv.Square(epsilon=2.0, region="san-francisco"))
    assert certificate.bound == pytest.approx(2.0)
    assert certificate.check(tries=200, seed=1).holds
    path = tmp_path / "certificate.json"
    certificate.save(path)
    found = nv.check_certificate(path)
    assert (found.holds, found.bound) == (True, certificate.bound)
    with pytest.raises(OutputError, match="exists already"):
        certificate.save(path)
    document = json.loads(path.read_text())
    document["guarantee"]["certificate"]["bound"] = 1.0
    path.write_text(json.dumps(document))
    assert "the bound is below the one computed anew" in nv.check_certificate(path).faults
    with pytest.raises(DataError, match="cannot be read"):
        nv.check_certificate(tmp_path / "none.json")


def test_a_mechanism_without_a_certificate_is_refused() -> None:
    class Bare(nv.PlanarLaplace):
        @property
        def guarantee(self) -> nv.Guarantee:
            return replace(super().guarantee, certificate=None)

    with pytest.raises(DataError, match="no certificate"):
        nv.certify(Bare())
