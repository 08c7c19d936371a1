"""How long the command takes to start."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.command import COMMAND
from benchmarks.comparisons.end_to_end import write_people
from benchmarks.measuring.results import Alone, Effort, Result
from benchmarks.measuring.timing import Contender, in_turns

HELP_MOST_S = 0.5
HELP, PROTECT_HELP = "nearveil --help", "nearveil protect --help"
SMALL, PYTHON = "nearveil protect, 1,000 rows", "Python itself"


def compare(effort: Effort) -> Iterator[Result]:
    """Time whole processes; the first start, which compiles, does not count."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        source = write_people(folder / "people.csv", 1_000)
        protect = ["protect", str(source), str(folder / "out.csv"), "--force"]
        contenders = [
            Contender(PYTHON, _starting([sys.executable, "-c", "pass"])),
            Contender(HELP, _starting([*_command(), "--help"])),
            Contender(PROTECT_HELP, _starting([*_command(), "protect", "--help"])),
            Contender(SMALL, _starting([*_command(), *protect])),
        ]
        times = in_turns(contenders, effort.of(10, 3), effort.tell)
    for what, found in times.items():
        yield Alone(what=what, value=found.best, unit="s", most=HELP_MOST_S if what == HELP else None)


def _command() -> list[str]:
    """Return the command as it was installed, where it was."""
    script = Path(sys.executable).with_name("nearveil")
    return [str(script)] if script.exists() else COMMAND


def _starting(command: list[str]) -> Callable[[], object]:
    return lambda: subprocess.run(command, capture_output=True, check=True)
