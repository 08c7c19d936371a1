"""``nearveil audit`` as a person runs it. Exit codes: 0 consistent, 1 violated, 3 inconclusive; 2 and 4 no verdict."""

import json
from pathlib import Path

import pytest

from tests.cli.audit_outcomes import SMALL, audited, failed
from tests.cli.conftest import Run

pytestmark = pytest.mark.statistical

SHIFTED = """
import os, sys, time
import numpy as np

def noisy(points, rng):
    return points + rng.normal(0, 0.002, points.shape).clip(-0.003, 0.003) * inwards(points)

def inwards(points):
    return np.where((points > [37.51, -122.59]) & (points < [37.89, -122.21]), 1.0, 0.0)

def uniform(points, rng):
    return rng.uniform([37.5, -122.6], [37.9, -122.2], points.shape)

def crashing(points, rng):
    raise RuntimeError("somebody is at 37.7123")

def leaving(points, rng):
    os._exit(0)

def hanging(points, rng):
    time.sleep(60)

def nothing(points, rng):
    return points * np.nan

def too_few(points, rng):
    return points[:-1]

def elsewhere(points, rng):
    return points + 5.0

def words(points, rng):
    return ["here"] * len(points)
"""


PATCHED = """
import numpy as np

def patched(points, rng):
    angle, metres = rng.uniform(0, 2 * np.pi, len(points)), rng.gamma(2, 250, len(points))
    per_degree = np.array([111_000, 88_000])
    away = np.hypot(*((points - [37.61, -122.33]) * per_degree).T)
    metres = metres * np.where(away < 150, 1 / 3, 1)
    moved = points + np.column_stack([np.sin(angle), np.cos(angle)]) * metres[:, None] / per_degree
    return moved.clip([37.5, -122.6], [37.9, -122.2])
"""


@pytest.fixture
def module(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(SHIFTED, encoding="utf-8")
    return str(path)


def test_the_papers_claim_for_its_release_is_violated(run: Run, tmp_path: Path) -> None:
    """No outputs are shared between cells, so it is found for certain."""
    witness, picture = tmp_path / "w.json", tmp_path / "p.png"
    paper = ("audit", "--mechanism", "dprs", "--set", "release=paper", "--claim", "paper", *SMALL)
    found = audited(run(*paper, "--json", "--witness", witness, "--picture", picture), 1, "violated")
    assert found.keys() >= {"verdict", "epsilon_lower", "epsilon_claimed", "witness"}
    assert found["epsilon_claimed"] == pytest.approx(1.0)
    assert found["epsilon_lower"] > 5
    assert found["witness"] == json.loads(witness.read_text())
    assert found["witness"]["violates"] is True
    assert found["witness"]["pair"]["same_interval"] is False
    assert found["witness"]["counts"]["false_hits"] == 0
    assert picture.stat().st_size > 20_000
    text = run(*paper)
    assert (text.code, text.out.startswith("VIOLATED: epsilon = 1 per user is claimed")) == (1, True)


@pytest.mark.parametrize("release", ["interval", "metric", None])
def test_the_sound_releases_are_consistent(run: Run, release: str | None) -> None:
    """False alarms: 1e-6 each, and none at this seed."""
    options = () if release is None else ("--mechanism", "dprs", "--set", f"release={release}")
    found = audited(run("audit", *options, *SMALL, "--json"), 0, "consistent")
    assert 0 < found["epsilon_lower"] <= found["epsilon_claimed"]
    assert found["epsilon_claimed"] == pytest.approx(1.0 if release == "interval" else 0.004)
    assert found["witness"]["violates"] is False


@pytest.mark.parametrize(("delta", "code"), [(0.0, 1), (0.9, 0)])
def test_a_claim_from_a_file(run: Run, tmp_path: Path, delta: float, code: int) -> None:
    """Half of the noise that is claimed; with a delta of 0.9 that breaks nothing. False alarms: 1e-6."""
    claim = tmp_path / "claim.json"
    claim.write_text(json.dumps({"definition": "metric", "epsilon": 2, "unit": "per kilometre", "delta": delta}))
    outcome = run("audit", "--mechanism", "planar-laplace", "--claim", claim, *SMALL, "--json")
    assert outcome.code == code, outcome
    assert json.loads(outcome.out)["epsilon_claimed"] == pytest.approx(0.002)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("metric:0.004/m", 0),
        ("metric:2/km", 1),
        ("metric:4/km+2:1e-6", 0),
        ("local:40", 3),
        ("local:1:1e-6", 1),
        ("central:1", 3),
    ],
)
def test_a_claim_in_words(run: Run, words: str, code: int) -> None:
    """False alarms: 1e-6 each, and none at this seed."""
    outcome = run("audit", "--mechanism", "planar-laplace", "--claim", words, *SMALL)
    assert outcome.code == code, outcome


def test_a_place_to_look_at(run: Run, tmp_path: Path) -> None:
    """A disc of 300 m with a third of the noise goes unseen on few samples, until somebody says where to look."""
    path = tmp_path / "patched.py"
    path.write_text(PATCHED, encoding="utf-8")
    patched = ("audit", "--callable", f"{path}:patched", "--claim", "metric:4/km", *SMALL, "--json")
    audited(run(*patched), 0, "consistent")
    audited(run(*patched, "--place", "37.7,-122.4"), 0, "consistent")
    found = audited(run(*patched, "--place", "37.7,-122.4", "--place", "37.6102,-122.3301"), 1, "violated")
    assert found["pair"]["first"] == [37.6102, -122.3301]
    assert "asked for" in found["pair"]["kind"]


@pytest.mark.parametrize("place", ["37.7", "37.7,-122.4,1", "here,there", "nan,1", "51.5,0.0", "137.7,-122.4"])
def test_what_is_no_place_is_refused(run: Run, place: str) -> None:
    failed(run("audit", "--mechanism", "square", "--place", place, *SMALL), 2, "--place")


# -- somebody else's ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("crashing", "RuntimeError"),
        ("leaving", "ended its process"),
        ("nothing", "not a number"),
        ("too_few", "gave"),
        ("elsewhere", "outside the region"),
        ("words", "not an array of numbers"),
    ],
)
@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_a_mechanism_that_fails_gets_no_verdict(
    run: Run, module: str, function: str, says: str, as_json: tuple[str, ...]
) -> None:
    outcome = run("audit", "--callable", f"{module}:{function}", "--claim", "local:1", *SMALL, *as_json)
    failed(outcome, 4, says)


def test_a_mechanism_that_hangs_gets_no_verdict(run: Run, module: str) -> None:
    outcome = run("audit", "--callable", f"{module}:hanging", "--claim", "local:1", *SMALL, "--timeout", 0.5)
    failed(outcome, 4, "time limit")


# -- the fit ------------------------------------------------------------------------------------------------------


def test_the_fit(run: Run, tmp_path: Path) -> None:
    """False alarms: 1e-6, and none at this seed."""
    witness = tmp_path / "w.json"
    fit = ("audit", "--stage", "fit", "--mechanism", "dprs", "--set", "release=paper", "--seed", 1, "--samples", 1000)
    found = audited(run(*fit, "--json", "--witness", witness), 0, "consistent")
    assert found["witness"] == json.loads(witness.read_text())
    assert found["epsilon_lower"] <= found["epsilon_claimed"] < 1
    assert found["view"] == "answers"
    assert "not prove" in run("audit", "--check", witness, "--seed", 1, "--samples", 1000).out
    text = run(*fit, "--claim", "central:8")
    assert (text.code, text.out.startswith("INCONCLUSIVE")) == (3, True)
    document = json.loads(witness.read_text())
    unknown = {**document["subject"], "view": "sums"}
    for damaged in (
        {**document, "subject": {}},
        {**document, "subject": unknown},
        {**document, "subject": None},
        {**document, "counts": 1},
    ):
        witness.write_text(json.dumps(damaged))
        failed(run("audit", "--check", witness), 4, "damaged")
