"""``nearveil audit``: true claims pass, false ones are refuted by something that anyone can check again."""

import json
import sys
from pathlib import Path

import pytest

from tests.acceptance.helpers import REGION, done, is_picture, run

SMALL = ("--samples", 20_000)
BLURS = """
import numpy as np

EDGES = np.array([37.5, -122.6]), np.array([37.9, -122.2])


def disc(points, rng):
    length, angle = 0.005 * np.sqrt(rng.uniform(size=len(points))), rng.uniform(0, 2 * np.pi, len(points))
    moved = np.asarray(points) + length[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return np.clip(moved, *EDGES)


def uniform(points, rng):
    return rng.uniform(*EDGES, (len(points), 2))


def failing(points, rng):
    raise RuntimeError(str(points))
"""


@pytest.fixture
def blurs(tmp_path: Path) -> Path:
    path = tmp_path / "blurs.py"
    path.write_text(BLURS)
    return path


@pytest.mark.statistical
def test_a_true_claim_passes(tmp_path: Path) -> None:
    """False alarms: 1e-6. The bound that is shown comes near the claim, and never above it."""
    report = done("audit", "--noise", "500m", *SMALL, "--json").json
    assert report["verdict"] == "consistent"
    assert 0.002 < report["epsilon_lower"] <= report["epsilon_claimed"] == pytest.approx(0.004, rel=0.01)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.statistical
def test_a_false_claim_is_refuted_and_the_witness_can_be_checked(tmp_path: Path) -> None:
    """Noise of 500 m is claimed to be as good as noise of 700 m: that is 30 % off."""
    witness, picture = tmp_path / "witness.json", tmp_path / "witness.png"
    options = ("--samples", 400_000, "--witness", witness, "--picture", picture)
    result = run("audit", "--noise", "500m", "--claim", "metric:2.857/km", *options, "--json")
    assert (result.code, result.json["verdict"]) == (1, "violated")
    assert result.json["epsilon_lower"] > 0.002857
    assert is_picture(picture)
    again = run("audit", "--check", witness, "--samples", 200_000, "--json")
    assert (again.code, again.json["verdict"]) == (1, "violated")
    # A witness of a claim that is true proves nothing.
    document = json.loads(witness.read_text())
    document["claim"]["epsilon"] = 0.004
    witness.write_text(json.dumps(document))
    assert run("audit", "--check", witness, "--samples", 200_000).code == 0


def test_noise_within_intervals_does_not_hide_in_which_interval_a_user_is() -> None:
    options = ("--mechanism", "dprs", "--epsilon", 1, "--claim", "local:1", "--samples", 40_000)
    result = run("audit", "--region", REGION, *options, "--json")
    assert (result.code, result.json["verdict"]) == (1, "violated")
    assert result.json["epsilon_lower"] > 2


def test_a_python_function(blurs: Path, tmp_path: Path) -> None:
    """A disc has an edge, so no epsilon holds; uniform locations tell nothing (false alarms: 1e-6)."""
    witness = tmp_path / "witness.json"
    disc = ("--callable", f"{blurs}:disc")
    assert run("audit", *disc, "--region", REGION, "--claim", "metric:4/km", *SMALL, "--witness", witness).code == 1
    assert run("audit", "--check", witness, *disc, *SMALL).code == 1
    # A file never has something run.
    assert run("audit", "--check", witness, *SMALL).code == 2
    assert run("audit", "--callable", f"{blurs}:uniform", "--region", REGION, "--claim", "local:1", *SMALL).code == 0


def test_a_program(tmp_path: Path) -> None:
    """A program that copies its input hides nothing."""
    copy = f"{sys.executable} -c 'import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2])' {{input}} {{output}}"
    result = run("audit", "--command", copy, "--region", REGION, "--claim", "local:1", "--samples", 4000, "--json")
    assert (result.code, result.json["verdict"]) == (1, "violated")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--claim", "rubbish"), 2),
        (("--no-such-option",), 2),
        (("--callable", "no_such_module:blur", "--region", REGION, "--claim", "local:1"), 2),
        (("--command", "false", "--region", REGION, "--claim", "local:1"), 4),
        (("--check", "no-such-file.json"), 4),
    ],
)
def test_a_failure_is_never_a_verdict(options: tuple[str, ...], code: int) -> None:
    result = run("audit", *options, *SMALL)
    assert (result.code, result.out) == (code, "")


def test_a_function_that_fails_tells_no_location(blurs: Path) -> None:
    result = run("audit", "--callable", f"{blurs}:failing", "--region", REGION, "--claim", "local:1", *SMALL)
    assert (result.code, result.out) == (4, "")
    assert "37." not in result.err
