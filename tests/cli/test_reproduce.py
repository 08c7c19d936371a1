"""``nearveil reproduce`` as a user runs it, stops it, and runs it again."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from nearveil.io.synthetic import synthetic_city
from nearveil.region import named_region
from tests.cli.conftest import Run

CITY = synthetic_city(1000, named_region("san-francisco"), rng=1)
SMALL = ("--dataset", "brightkite", "--quick", "--runs", 2, "--cores", 1)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that has a tiny population under a name of the paper's."""
    folder = tmp_path / "data"
    folder.mkdir()
    np.savetxt(folder / "brightkite.csv", CITY, delimiter=",", header="latitude,longitude", comments="", fmt="%.7f")
    monkeypatch.setenv("NEARVEIL_DATA_DIR", str(tmp_path / "nothing"))
    monkeypatch.setenv("NEARVEIL_CACHE_DIR", str(tmp_path / "nothing"))
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def finished(out: Path) -> dict[Path, int]:
    """The results that are kept, and when each was written."""
    return {path: path.stat().st_mtime_ns for path in (out / ".measured").rglob("*.json")}


def test_one_figure_from_one_command(run: Run, data: Path, tmp_path: Path) -> None:
    first, again, other = (tmp_path / name for name in ("first", "again", "other"))
    for out, seed in ((first, 1), (again, 1), (other, 2)):
        outcome = run("reproduce", "figure9", *SMALL, "--data-dir", data, "--out", out, "--seed", seed)
        assert outcome.code == 0, outcome.err
    written = files(first)
    assert written.keys() >= {"report.html", "figure9.csv", "figure9.md", "figure9.png"}
    assert written == files(again)
    assert written["figure9.csv"] != files(other)["figure9.csv"]
    assert written["figure9.csv"].startswith(b"dataset,gamma,")
    assert written["figure9.md"].startswith(b"# Figure 9")
    for words in ("gamma", "brightkite", " ± ", f"Written: {other / 'report.html'}"):
        assert words in outcome.out
    assert max(map(len, outcome.out.splitlines()[:-1])) <= 100


@pytest.mark.evidence
def test_killed_in_the_middle_and_run_again(run: Run, data: Path, tmp_path: Path) -> None:
    arguments = ["reproduce", "figure9", "--dataset", "brightkite", "--data-dir", str(data), "--runs", "4"]
    out, whole = tmp_path / "out", tmp_path / "whole"
    code = "from nearveil.cli.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments, "--out", str(out), "--cores", "2"], stderr=subprocess.DEVNULL
    )
    while len(finished(out)) < 4:
        try:
            process.wait(timeout=0.01)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError("it ended before it could be killed")
    workers = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    # No worker outlives it, waiting for more work.
    assert not psutil.wait_procs(workers, timeout=30)[1]
    before = finished(out)
    assert not (out / "report.html").exists()

    assert run(*arguments, "--out", out, "--cores", 1).code == 0
    after = finished(out)
    assert len(after) > len(before) >= 4
    assert {path: after[path] for path in before} == before
    assert run(*arguments, "--out", whole, "--cores", 1).code == 0
    assert files(out) == files(whole)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("figure12",), 2, "figure12"),
        (("table1", "--dataset", "mars"), 2, "mars"),
        (("table1", "--runs", 0), 2, "--runs"),
        (("table2", "--region", "berlin"), 2, "--region and how a file is read are for --input FILE"),
        (("table2", "--mechanism", "srr"), 2, "goes into frontier"),
        (("table1", "--dataset", "gowalla"), 3, "no file of gowalla check-ins was found"),
        (("table1", "--data-dir", "nowhere"), 3, "there is no folder nowhere"),
    ],
)
@pytest.mark.usefixtures("data")
def test_wrong_input(run: Run, tmp_path: Path, arguments: tuple[object, ...], code: int, words: str) -> None:
    outcome = run("reproduce", *arguments, "--out", tmp_path / "out")
    assert (outcome.code, outcome.out) == (code, "")
    assert words in outcome.err
    assert not (tmp_path / "out").exists()
