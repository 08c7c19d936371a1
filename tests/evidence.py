"""Run everything slow that a claim rests on, and write one page with the figures: ``python -m tests.evidence``.

First the tests marked ``evidence``, then programs that attack the service for minutes: an hour or more in all. The exit
code is 1 if anything failed. What this program does not know goes to pytest, such as ``-k audit``.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

ROOT = Path(__file__).parents[1]

# What each program takes, for a scale that is 1 by default.
PROGRAMS: dict[str, Callable[[float], list[str]]] = {
    "flood": lambda scale: ["--connections", str(max(100, round(10_000 * scale)))],
    "fuzz": lambda scale: ["--minutes", str(5 * scale)],
    "faults": lambda _: [],
    "torture": lambda scale: ["--kills", str(max(1, round(50 * scale)))],
    "outage": lambda scale: ["--seconds", str(max(15.0, 120 * scale))],
}


def for_evidence(*cases: object) -> list[ParameterSet]:
    """Return cases of ``pytest.mark.parametrize`` that are run for evidence alone; one of several values is a tuple."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.evidence) for case in cases]


@dataclass
class Result:
    """What a test or a program came to."""

    name: str
    claim: str
    result: str = "passed"
    seconds: float = 0.0
    figures: list[str] = field(default_factory=list)


class Recorder:
    """A plugin of pytest that keeps the results, claims and figures of all tests."""

    def __init__(self) -> None:
        self.results: dict[str, Result] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note one step of a test: setup, call or teardown."""
        properties = [(str(name), str(value)) for name, value in report.user_properties]
        claim = next((value for name, value in properties if name == "claim"), "")
        result = self.results.setdefault(report.nodeid, Result(report.nodeid, claim))
        result.seconds += report.duration
        result.figures = [value for name, value in properties if name == "figure"]
        if report.outcome != "passed" and result.result != "failed":
            result.result = report.outcome


def run_tests(arguments: list[str]) -> tuple[list[Result], bool]:
    """Run the marked tests; also return whether all went well, which takes at least one test."""
    recorder = Recorder()
    workers = str(os.cpu_count() or 1)
    code = pytest.main(["-m", "evidence", "-v", "-n", workers, f"--rootdir={ROOT}", *arguments], plugins=[recorder])
    return list(recorder.results.values()), code == pytest.ExitCode.OK


def run_program(name: str, scale: float) -> Result:
    """Run a program, and keep what it prints as its figures."""
    module = f"tests.services.{name}"
    result = Result(f"{module} {' '.join(PROGRAMS[name](scale))}".strip(), _first_line(name))
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", module, *PROGRAMS[name](scale)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            result.figures.append(line.rstrip())
    result.seconds = time.monotonic() - began
    if process.returncode:
        result.result = "failed"
    return result


def _first_line(name: str) -> str:
    text = (ROOT / "tests" / "services" / f"{name}.py").read_text(encoding="utf-8")
    return text.removeprefix('"""').partition("\n")[0].rstrip('"')


def page(tests: list[Result], programs: list[Result]) -> str:
    """Return the page, in Markdown."""
    everything = [*tests, *programs]
    failed = [each.name for each in everything if each.result == "failed"]
    skipped = sum(each.result == "skipped" for each in everything)
    passed = len(everything) - len(failed) - skipped
    seconds = sum(each.seconds for each in everything)
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    lines = [
        "# Evidence",
        "",
        f"{passed} passed, {len(failed)} failed, {skipped} skipped, in {seconds:,.0f} s of work.",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {_commit()}; {machine}.",
    ]
    if failed:
        lines += ["", "Failed:", "", *(f"- `{name}`" for name in failed)]
    if tests:
        lines += ["", "## Tests", "", "| claim | result | seconds | figures | test |", "|---|---|---|---|---|"]
    for each in tests:
        cells = (each.claim, each.result, f"{each.seconds:,.1f}", "; ".join(each.figures), f"`{each.name}`")
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    for each in programs:
        lines += ["", f"## {each.claim}", "", f"`python -m {each.name}`: {each.result} in {each.seconds:,.0f} s.", ""]
        lines += ["```text", *each.figures, "```"]
    return "\n".join(lines) + "\n"


def _commit() -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=ROOT, check=False, capture_output=True, text=True)  # noqa: S607
        return done.stdout.strip()

    changed = ", with changes" if git("status", "--porcelain") else ""
    return f"commit {git('rev-parse', '--short', 'HEAD') or 'unknown'}{changed}"


def main() -> int:
    """Run all, or what is asked for, and write the page after every part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=["tests", *PROGRAMS], default=["tests", *PROGRAMS])
    parser.add_argument("--scale", type=float, default=1.0, help="length of the programs; 1 takes an hour")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "evidence.md")
    options, arguments = parser.parse_known_args()
    os.chdir(ROOT)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    tests: list[Result] = []
    programs: list[Result] = []
    is_good = True
    for number, name in enumerate(options.only, 1):
        print(f"--- {number} of {len(options.only)}: {name}", flush=True)
        if name == "tests":
            tests, is_good = run_tests(arguments)
        else:
            programs.append(run_program(name, options.scale))
        options.out.write_text(page(tests, programs), encoding="utf-8")
    is_good = is_good and all(each.result != "failed" for each in programs)
    print(f"{'all passed' if is_good else 'FAILED'}: {options.out}")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
