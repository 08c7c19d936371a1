import json
import re
import signal
from pathlib import Path

import numpy as np
import pytest

from nearveil.io.synthetic import on_land
from nearveil.mechanisms.intervals import intervals_from_json
from nearveil.region import named_region
from nearveil.report.land import land_in
from tests.cli.conftest import Run


@pytest.mark.parametrize("method", ["pic", "private-grid"])
def test_fit(run: Run, people_csv: Path, tmp_path: Path, method: str) -> None:
    output = tmp_path / "intervals.json"
    outcome = run(
        "fit", people_csv, output, "--set", f"fit_method={method}", "--set", "centres=60", "--epsilon", 0.7, "--json"
    )
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)
    assert (document["intervals"], document["method"], document["seeded"]) == (60, method, False)
    assert document["epsilon"] == pytest.approx(0.7, rel=1e-6)
    intervals = intervals_from_json(output.read_text())
    assert len(intervals) == 60
    assert run("fit", people_csv, output, "--set", "centres=60").code == 4
    text = run(
        "fit", people_csv, output, "--set", f"fit_method={method}", "--set", "centres=60", "--force", "--seed", 1
    ).out
    assert "60 intervals, found by" in text
    assert "seed" in text


def test_fit_on_several_rows_per_person_counts_rows(run: Run, people_csv: Path, tmp_path: Path) -> None:
    output = tmp_path / "intervals.json"
    assert run("fit", people_csv, output, "--set", "centres=60", "--per-row").code == 0
    assert intervals_from_json(output.read_text()).unit == "row"
    outcome = run("protect", people_csv, tmp_path / "o.csv", "--intervals", output, "--json")
    assert json.loads(outcome.out)["guarantee"]["also"][0]["unit"] == "per row"


def test_demo(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The story as it is told, with fewer people attacked."""
    monkeypatch.setattr("nearveil.cli.demo.INSTANCES", 1)
    monkeypatch.setattr("nearveil.cli.demo.GUESSED", 10)
    outcome = run("demo", "--out", tmp_path / "demo", "--cores", 1)
    assert outcome.code == 0, outcome.err
    for words in ("the answers rule out every other location", "DOES NOT HOLD", "metric, epsilon = 0.004 per meter"):
        assert words in outcome.out
    table = outcome.out[outcome.out.index("mean distance moved") :].split("\n\n")[0].splitlines()
    # Open, the paper's and the default side by side.
    assert all(
        len(re.findall(r"\d+%", line)) == 3 for line in table if line.startswith(("  gi", "  adap", "  unf", "  asked"))
    )
    users = next(line for line in table if "users' locations" in line).split()
    shown = outcome.out[outcome.out.index("Result: ranked lists alone find") :].split()
    # Last of all, the recall that people get, of the default and of the paper's.
    assert users[-3:] == ["100%", shown[-1].strip("."), shown[shown.index("keep") + 1]]
    for name in ("attack-before.png", "attack-after.png", "before-after.png"):
        picture = tmp_path / "demo" / name
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size > 50_000
    assert (tmp_path / "demo" / "attack-before.html").exists()
    people = np.loadtxt(tmp_path / "demo" / "people.csv", delimiter=",", skiprows=1)
    assert on_land(people[:, 1:], land_in(named_region("san-francisco"))).mean() > 0.999


def test_demo_folder_that_cannot_be_made(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    outcome = run("demo", "--out", tmp_path / "file" / "demo")
    assert (outcome.code, "cannot be created" in outcome.err) == (4, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_stops_a_command_is_told_so(run: Run, monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    monkeypatch.setattr("nearveil.cli.attack.dataset_population", lambda *_: signal.raise_signal(number))
    outcome = run("attack", "--dataset", "gaussian")
    assert (outcome.code, outcome.out) == (130, "")
    assert outcome.err == "error: stopped; no file was left half written\n"
