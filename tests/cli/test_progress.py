"""What a terminal shows while a command works; and that nothing is shown where there is none."""

import io
import sys

import pytest

from nearveil.cli._output import progress_bar, waiting, work_bar


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
