"""The demo, and what a command says that is stopped."""

import re
import signal
from pathlib import Path

import numpy as np
import pytest

from nearveil.evaluation.tradeoff import Sizes
from nearveil.io.synthetic import on_land
from nearveil.region import named_region
from nearveil.report.land import land_in
from tests.cli.conftest import Run


def test_demo(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The story as it is told, with fewer users attacked."""
    monkeypatch.setattr("nearveil.cli.demo.USERS", 1)
    monkeypatch.setattr("nearveil.evaluation.simulation._SIZES", Sizes(50, 10, 50))
    outcome = run("demo", "--out", tmp_path / "demo")
    assert outcome.code == 0, outcome.err
    # Open, the paper's and the default side by side.
    assert "1 of 1 users found within 100 m" in outcome.out
    assert re.search(r"^found by the best attacker.* – .*\d %.*\d %", outcome.out, re.MULTILINE)
    assert "That claim does not hold" in outcome.out
    for name in ("attack-before.png", "attack-after.png", "before-after.png"):
        assert (tmp_path / "demo" / name).read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "demo" / "attack-before.html").exists()
    people = np.loadtxt(tmp_path / "demo" / "people.csv", delimiter=",", skiprows=1)
    assert on_land(people[:, 1:], land_in(named_region("san-francisco"))).mean() > 0.999


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_is_stopped_says_so(run: Run, monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    monkeypatch.setattr("nearveil.cli.attack.dataset_population", lambda *_: signal.raise_signal(number))
    outcome = run("attack", "--dataset", "gaussian")
    assert (outcome.code, outcome.out) == (130, "")
    assert outcome.err == "error: stopped; no file was left half written\n"
