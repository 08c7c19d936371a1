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


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["nearveil", *map(str, arguments)])
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
