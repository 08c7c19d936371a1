"""``nearveil audit`` where there is no verdict: wrong usage leaves with 2, everything else with 4."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nearveil.auditing.auditor import audit
from tests.cli.audit_outcomes import SMALL, failed
from tests.cli.conftest import Run

pytestmark = pytest.mark.statistical

WRONG = [
    (("--claim", "paper"), "no claim of the paper's"),
    (("--callable", "a:b", "--command", "c"), "give one of them"),
    (("--callable", "a:b"), "does not know what this mechanism promises"),
    (
        ("--callable", "a:b", "--claim", "local:1", "--set", "release=paper"),
        "--set release cannot be used with --callable",
    ),
    (("--timeout", "3"), "--timeout is for"),
    (("--mechanism", "dprs", "--set", "release=metric", "--epsilon", "1"), "the release metric takes"),
    (("--samples", "100"), "at least 2,000 samples"),
    (("--picture", "p.jpg"), ".png"),
    (("--witness", "w.txt"), ".json"),
    (("--stage", "fit", "--mechanism", "srr"), "--stage fit is for dprs"),
    (("--stage", "fit", "--picture", "p.png"), "a fit has no two locations"),
    (("--stage", "fit", "--claim", "local:1"), "central"),
    (("--check", "w.json", "--set", "release=paper"), "from the witness"),
    (("--check", "w.json", "--claim", "local:1"), "from the witness"),
    (("--check", "w.json", "--stage", "fit"), "from the witness"),
    (("--region", "atlantis"), "no region named"),
]


@pytest.mark.parametrize(("options", "says"), WRONG, ids=[" ".join(options) for options, _ in WRONG])
def test_wrong_usage(run: Run, options: tuple[str, ...], says: str) -> None:
    failed(run("audit", *options), 2, says)


def test_words_the_command_line_does_not_know(run: Run) -> None:
    for options in (("--mechanism", "magic"), ("--samples", "many"), ("--seed", "-1"), ("--confidence", "0.5")):
        assert run("audit", *options).code == 2


@pytest.mark.parametrize("option", ["--claim", "--intervals", "--check"])
def test_a_file_that_cannot_be_read_is_a_failure(run: Run, tmp_path: Path, option: str) -> None:
    """4 and not 3, which other commands say of data: 3 is a verdict here."""
    failed(run("audit", option, tmp_path / "none.json"), 4, "cannot be read")
    (tmp_path / "damaged.json").write_text("{")
    failed(run("audit", option, tmp_path / "damaged.json"), 4)


@pytest.mark.parametrize("error", [RuntimeError("at 37.7123"), MemoryError(), SystemExit(1), OSError("disk")])
def test_a_bug_is_no_verdict(run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*_args: object, **_kwargs: object) -> None:
        raise error

    monkeypatch.setattr("nearveil.cli.audit.run_audit", fail)
    failed(run("audit", "--mechanism", "square", *SMALL), 4)
    monkeypatch.setenv("NEARVEIL_DEBUG", "1")
    outcome = run("audit", "--mechanism", "square", *SMALL)
    assert outcome.code == 4


def test_an_audit_that_returns_nothing_is_no_verdict(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearveil.cli.audit.audit.callback", lambda **_options: None)
    assert run("audit", "--mechanism", "square", *SMALL).code == 4


def test_files_are_checked_before_the_work(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearveil.cli.audit.run_audit", lambda *_args, **_kwargs: pytest.fail("it has begun"))
    for option, name in (("--witness", "w.json"), ("--picture", "p.png")):
        (tmp_path / name).write_text("precious")
        failed(run("audit", option, tmp_path / name), 4, "exists already", "--force")
        failed(run("audit", option, tmp_path / "no" / name), 4, "folder does not exist")
        assert (tmp_path / name).read_text() == "precious"


@pytest.mark.parametrize(("option", "name"), [("--witness", "w.json"), ("--picture", "p.png")])
def test_a_file_that_cannot_be_written_loses_no_verdict(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, name: str
) -> None:
    """The folder goes away meanwhile."""
    folder = tmp_path / "folder"
    folder.mkdir()

    def slow(*args: Any, **options: Any) -> object:
        folder.rmdir()
        return audit(*args, **options)

    monkeypatch.setattr("nearveil.cli.audit.run_audit", slow)
    outcome = run("audit", "--mechanism", "square", *SMALL, option, folder / name)
    assert outcome.code == 4
    assert outcome.out.startswith("CONSISTENT")
    assert "cannot be written" in outcome.err


# -- a real process -----------------------------------------------------------------------------------------------

COMMAND = [sys.executable, "-c", "from nearveil.cli.main import main; main()"]
QUICK = ["audit", "--mechanism", "square", "--samples", "4000", "--seed", "1"]


def test_a_nearveil_that_cannot_be_loaded_gives_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise ImportError('broken')")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    found = subprocess.run([*COMMAND, *QUICK], capture_output=True, text=True, check=False, env=environment)
    assert (found.returncode, found.stdout) == (4, "")
    assert found.stderr.startswith("error: Nearveil failed (ImportError)")
    other = subprocess.run([*COMMAND, "guarantee"], capture_output=True, text=True, check=False, env=environment)
    assert other.returncode == 1
    (tmp_path / "click.py").write_text("raise ImportError('broken')")
    found = subprocess.run([*COMMAND, *QUICK], capture_output=True, text=True, check=False, env=environment)
    assert (found.returncode, found.stdout) == (4, "")


def test_output_that_goes_nowhere_is_no_verdict() -> None:
    """A full disk and a reader who left; Python itself would notice too late, or leave with 1."""
    # Where output waits to be printed, as it does by default.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        found = subprocess.run([*COMMAND, *QUICK], stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=env)
        assert (found.returncode, found.stderr.count("\n")) == (4, 1)
        mute = subprocess.run(
            [*COMMAND, *QUICK, "--claim", "none.json"], stdout=full, stderr=full, check=False, env=env
        )
        assert mute.returncode == 4
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        for buffering in ({}, {"PYTHONUNBUFFERED": "1"}):
            found = subprocess.run(
                [*COMMAND, *QUICK], stdout=pipe, stderr=subprocess.PIPE, text=True, check=False, env=env | buffering
            )
            assert (found.returncode, found.stderr) == (4, "")
