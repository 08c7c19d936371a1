"""What a terminal shows while a command works; and that nothing is shown where there is none."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nearveil.cli._output import progress_bar, times, waiting, work_bar
from tests.cli.conftest import Run


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Not a fixture: pytest takes standard error back when a test begins."""
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    for name, value in (("TERM", "xterm"), ("COLUMNS", "120")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return shown


def test_a_bar_says_what_how_much_and_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = terminal(monkeypatch)
    with progress_bar("moving people", 2000) as advance:
        advance(500)
    assert "moving people" in shown.getvalue()
    assert "500 of 2,000" in shown.getvalue()
    assert "0:00 elapsed" in shown.getvalue()
    with work_bar("measuring", 4.0) as advance_work:
        advance_work(1.0)
    assert "25 %" in shown.getvalue()
    with waiting("computing the largest loss"):
        pass
    assert "computing the largest loss" in shown.getvalue()


def test_nothing_is_shown_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("moving people", 2000) as advance, waiting("computing"):
        advance(500)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("elapsed_s", "left_s", "said"),
    [
        (25.9, 300.0, "0:25 elapsed, about 5:00 left"),
        (3725.0, None, "1:02:05 elapsed, time left not known yet"),
        (2.9, None, "0:02 elapsed"),
        (0, 7200, "0:00 elapsed, about 2:00:00 left"),
    ],
)
def test_times_as_a_clock_shows_them(elapsed_s: float, left_s: float | None, said: str) -> None:
    assert times(elapsed_s, left_s) == said


def test_where_nothing_can_be_counted_that_is_said() -> None:
    assert times(25, None, countable=False).startswith("0:25 elapsed, time left unknown: no steps to count")
    assert times(1, None, countable=False) == "0:01 elapsed"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (lambda folder: ("certify", "--out", folder / "c.json"), "computing the largest loss"),
        (lambda folder: ("certify", "--check", folder / "c.json"), "computing everything anew"),
        (lambda folder: ("certify", "--check", folder / "c.json"), "20,000 of 20,000"),
        (lambda _: ("guarantee", "--noise", "500m"), "computing the largest loss"),
        (lambda folder: ("protect", folder / "in.csv", folder / "out.csv"), "computing the guarantee"),
    ],
)
def test_commands_that_may_take_long_say_what_they_do(
    arguments: Callable[[Path], tuple[object, ...]],
    said: str,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "in.csv").write_text("latitude,longitude\n37.7,-122.4\n")
    if "--check" in arguments(tmp_path):
        assert run("certify", "--out", tmp_path / "c.json").code == 0
    shown = terminal(monkeypatch)
    assert run(*arguments(tmp_path)).code == 0
    assert said in shown.getvalue()
