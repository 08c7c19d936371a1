"""Run commands the way a person does: arguments in; exit code, standard output and standard error out."""

import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from nearveil.cli.main import main
from nearveil.evaluation.campaign import attack_campaign
from nearveil.types import FloatArray


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Run = Callable[..., Outcome]

_NO_REGION = ("--region", "--check", "--dataset", "--url", "--help")


def _may_name_a_region(given: list[str]) -> bool:
    """Whether a command needs a region, which is San Francisco in most tests, and does not say which."""
    about_users = given[:1] in (["fit"], ["plan"], ["audit"], ["import"]) or "--adapter" in given
    return (about_users or "--input" in given) and not any(flag in given for flag in _NO_REGION)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def run(*arguments: object, names_region: bool = True) -> Outcome:
        given = [str(each) for each in arguments]
        if names_region and _may_name_a_region(given):
            given += ["--region", "san-francisco"]
        monkeypatch.setattr(sys, "argv", ["nearveil", *given])
        capsys.readouterr()
        code: object = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return Outcome(int(code or 0) if isinstance(code, int | None) else 1, captured.out, captured.err)

    yield run
    # The command has its own; a test run needs those of before.
    for number, handler in handlers.items():
        signal.signal(number, handler)


def check(outcome: Outcome, code: int, *words: str) -> None:
    """Check that a command failed with one sentence that has these words, and shows no location of a user."""
    assert (outcome.code, outcome.out) == (code, ""), outcome
    (line,) = outcome.err.strip().splitlines()
    assert line.startswith("error: ")
    assert [word for word in words if word not in line] == [], line
    for secret in ("Traceback", "7123", "4123", "-122.4"):
        assert secret not in line


def write_people(path: Path, places: FloatArray) -> Path:
    rows = np.column_stack([np.arange(len(places)), places])
    np.savetxt(path, rows, delimiter=",", header="id,latitude,longitude", comments="", fmt=["%d", "%.7f", "%.7f"])
    return path


@pytest.fixture
def people_csv(tmp_path: Path, city: FloatArray) -> Path:
    return write_people(tmp_path / "people.csv", city)


@pytest.fixture
def two_further_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """A campaign finds two further people, where a reader's finds a hundred: each takes half a second."""
    monkeypatch.setattr(attack_campaign, "__kwdefaults__", {**(attack_campaign.__kwdefaults__ or {}), "further": 2})
