"""``nearveil audit --check``: a witness counted again, of which nothing is believed."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.audit_outcomes import SMALL, audited, failed
from tests.cli.conftest import Run

pytestmark = pytest.mark.statistical


@pytest.fixture(scope="module")
def kept() -> dict[str, str]:
    """What one test has written, for the others."""
    return {}


@pytest.fixture
def witness(run: Run, tmp_path: Path, kept: dict[str, str]) -> Path:
    """Against a claim of half the loss."""
    path = tmp_path / "witness.json"
    if not kept:
        outcome = run(
            "audit", "--mechanism", "dprs", "--set", "centres=50", "--epsilon", 4, "--claim", "interval:2",
            "--samples", 200_000, "--seed", 1, "--witness", path,
        )  # fmt: skip
        assert outcome.code == 1, outcome
        kept["witness"] = path.read_text()
    path.write_text(kept["witness"])
    return path


def test_a_witness_stands_on_fresh_samples(run: Run, witness: Path, tmp_path: Path) -> None:
    picture = tmp_path / "p.png"
    found = audited(run("audit", "--check", witness, "--seed", 1, "--json", "--picture", picture), 1, "violated")
    before = json.loads(witness.read_text())
    assert found["witness"]["event"] == before["event"]
    assert found["witness"]["subject"] == before["subject"]
    assert found["witness"]["counts"] != before["counts"]
    assert found["epsilon_lower"] > found["epsilon_claimed"] == 2
    assert picture.stat().st_size > 20_000
    text = run("audit", "--check", witness, "--seed", 1)
    assert (text.code, text.out.startswith("VIOLATED")) == (1, True)
    assert "The witness is confirmed" in text.out


def test_a_witness_that_lies_does_not_stand(run: Run, witness: Path) -> None:
    """Counts are not believed, nor is the confidence. False alarms: 1e-6, and none at this seed."""
    document = json.loads(witness.read_text())
    document["counts"].update(hits=90_000, trials=100_000, false_hits=0, false_trials=100_000)
    document["claim"]["epsilon"] = 4.0
    document["confidence"] = 0.01
    witness.write_text(json.dumps(document))
    found = audited(run("audit", "--check", witness, "--seed", 1, "--json"), 0, "consistent")
    assert found["confidence"] == 1 - 1e-6
    assert "does not prove" in run("audit", "--check", witness, "--seed", 1).out


def test_too_few_samples_to_check_with_are_inconclusive(run: Run, witness: Path) -> None:
    assert run("audit", "--check", witness, "--samples", 40, "--seed", 1).code == 3


def test_places_of_a_witness_are_looked_up(run: Run, tmp_path: Path) -> None:
    """A pair across a border, said to share an interval: an interval claim does not speak of it."""
    path = tmp_path / "witness.json"
    outcome = run(
        "audit",
        "--mechanism",
        "dprs",
        "--set",
        "release=interval",
        "--set",
        "centres=50",
        "--claim",
        "local:1",
        *SMALL,
        "--witness",
        path,
    )
    assert outcome.code == 1, outcome
    document = json.loads(path.read_text())
    document["claim"]["definition"] = "interval"
    document["pair"]["same_interval"] = True
    path.write_text(json.dumps(document))
    assert run("audit", "--check", path, "--samples", 4000).code == 3
    document["pair"]["first"] = [10.0, 10.0]
    path.write_text(json.dumps(document))
    failed(run("audit", "--check", path, "--samples", 4000), 4, "outside")


def test_a_witness_from_a_stranger_cannot_steer_the_terminal(run: Run, witness: Path) -> None:
    document = json.loads(witness.read_text())
    document["pair"]["kind"] = "\x1b[31mred\x07"
    document["claim"]["text"] = "\x1b]0;title\x07"
    witness.write_text(json.dumps(document))
    outcome = run("audit", "--check", witness, "--samples", 4000)
    assert "red" in outcome.out
    assert "\x1b" not in outcome.out + outcome.err


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: "",
        lambda text: text[:-200],
        lambda _: "[1, 2]",
        lambda text: text.replace('"hits"', '"bits"'),
        lambda text: text.replace('"kind": "mechanism"', '"kind": "magic"'),
        lambda text: text.replace('"mechanism": "dprs"', '"mechanism": "dprz"'),
        lambda text: text.replace('"release": "interval"', '"release": 7'),
        lambda text: text.replace('"threshold": ', '"threshold": 1e'),
    ],
)
def test_a_damaged_witness(run: Run, witness: Path, damage: Any) -> None:
    text = witness.read_text()
    assert damage(text) != text
    witness.write_text(damage(text))
    failed(run("audit", "--check", witness, "--samples", 4000), 4)
