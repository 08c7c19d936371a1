"""``nearveil reproduce`` as a person runs it, stops it, and runs it again."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from nearveil.evaluation.runner import open_journal
from tests.cli.conftest import Run
from tests.evaluation.towns import tiny_town

TOWN = tiny_town("brightkite", users=1000)
SMALL = ("--dataset", "brightkite", "--quick", "--runs", 1, "--instances", 2, "--cores", 1)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that has a tiny population under a name of the paper's."""
    folder = tmp_path / "data"
    folder.mkdir()
    np.savetxt(
        folder / "brightkite.csv", TOWN.places, delimiter=",", header="latitude,longitude", comments="", fmt="%.7f"
    )  # fmt: skip
    for name in ("NEARVEIL_DATA_DIR", "NEARVEIL_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "nothing"))
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def lines(out: Path) -> list[bytes]:
    path = out / "cells.jsonl"
    return path.read_bytes().splitlines(keepends=True) if path.exists() else []


def test_one_figure_from_one_command(run: Run, data: Path, tmp_path: Path) -> None:
    first, again, other = (tmp_path / name for name in ("first", "again", "other"))
    for out, seed in ((first, 1), (again, 1), (other, 2)):
        outcome = run("reproduce", "figure9", *SMALL, "--data-dir", data, "--out", out, "--seed", seed)
        assert outcome.code == 0, outcome.err
        assert set(files(out)) == {"cells.jsonl", "figure9.csv", "figure9.md", "figure9.png"}
    assert files(first) == files(again)
    assert files(first)["figure9.csv"] != files(other)["figure9.csv"]
    assert files(first)["figure9.csv"].startswith(b"dataset,gamma,")
    assert files(first)["figure9.png"].startswith(b"\x89PNG")
    assert "# Figure 9" in (first / "figure9.md").read_text(encoding="utf-8")
    assert "gamma" in outcome.out
    assert f"Written to {other}: figure9.csv, figure9.md, figure9.png" in outcome.out


def test_killed_in_the_middle_and_run_again(run: Run, data: Path, tmp_path: Path) -> None:
    arguments = ["reproduce", "table3", "--dataset", "brightkite", "--data-dir", str(data), "--quick", "--runs", "2",
                 "--instances", "3"]  # fmt: skip
    out, whole = tmp_path / "out", tmp_path / "whole"
    code = "from nearveil.cli.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments, "--out", str(out), "--cores", "2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while len(lines(out)) < 5:
        try:
            process.wait(timeout=0.005)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError("it ended before it could be killed")
    workers = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    # Whoever is killed takes the workers along.
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert not alive
    finished = [line for line in lines(out) if line.endswith(b"\n")]
    assert 5 <= len(finished) < 60
    with (out / "cells.jsonl").open("wb") as file:
        file.write(b"".join(finished) + finished[0][:50])

    assert run(*arguments, "--out", out, "--cores", 1).code == 0
    assert lines(out)[: len(finished)] == finished
    assert len(lines(out)) == 60
    keys = [json.loads(line.partition(b" ")[2])["key"] for line in lines(out)]
    assert len(set(keys)) == 60
    assert run(*arguments, "--out", whole, "--cores", 1).code == 0
    assert {name: content for name, content in files(out).items() if name != "cells.jsonl"} == {
        name: content for name, content in files(whole).items() if name != "cells.jsonl"
    }


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("figure12",), 2, "figure12"),
        (("table1", "--dataset", "mars"), 2, "mars"),
        (("table1", "--runs", 0), 2, "--runs"),
        (("table1", "--instances", 0), 2, "--instances"),
        (("table1", "--cores", 0), 2, "--cores"),
        (("table1", "--seed", -1), 2, "--seed"),
        (("table1", "--dataset", "gowalla"), 3, "no file of gowalla check-ins was found"),
        (("table1", "--data-dir", "nowhere"), 3, "there is no folder nowhere"),
        (("table1", "--dataset", "gowalla", "--data-dir", "nowhere"), 3, "there is no folder nowhere"),
    ],
)
def test_wrong_input(
    run: Run, data: Path, tmp_path: Path, arguments: tuple[object, ...], code: int, words: str
) -> None:
    del data
    outcome = run("reproduce", *arguments, "--out", tmp_path / "out")
    assert (outcome.code, outcome.out) == (code, "")
    assert words in outcome.err
    assert "Traceback" not in outcome.err
    assert code == 2 or len(outcome.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_used(run: Run, data: Path, tmp_path: Path) -> None:
    def reproduce(out: Path) -> tuple[int, str]:
        outcome = run("reproduce", "figure9", *SMALL, "--data-dir", data, "--out", out)
        assert len(outcome.err.splitlines()) == 1
        return outcome.code, outcome.err

    (tmp_path / "file").touch()
    code, words = reproduce(tmp_path / "file")
    assert (code, "cannot be created" in words) == (4, True)
    (tmp_path / "taken" / "cells.jsonl").mkdir(parents=True)
    code, words = reproduce(tmp_path / "taken")
    assert (code, "cannot be written" in words) == (4, True)
    (tmp_path / "busy").mkdir()
    with open_journal(tmp_path / "busy" / "cells.jsonl"):
        code, words = reproduce(tmp_path / "busy")
    assert (code, "another run is writing" in words) == (2, True)
