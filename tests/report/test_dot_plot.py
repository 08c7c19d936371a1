"""Dot plots: every row has its dots and numbers, and numbers do not stand in each other's way."""

import io
from dataclasses import replace

from nearveil.evaluation.results import DotPanel, DotPlot, Dots
from nearveil.evaluation.stats import Mean, Share
from nearveil.report.dot_plot import draw_dot_plot

FOUND = DotPanel(
    "found",
    "share",
    (
        Dots("first", (Share(0.99, 0.97, 1.0), Share(0.3, 0.2, 0.4), Share(0.05, 0.02, 0.2)), ".0%"),
        Dots("second", (None, None, Share(0.14, 0.12, 0.16)), ".0%"),
    ),
)
ASKED = DotPanel(
    "questions", "number", (Dots("first", (Mean(10.0, 0.5), Mean(20.0, None), Mean(5.0, 1.0))),), log_x=True
)
PLOT = DotPlot("plot", "A title", (("above", ("a", "b")), ("below", ("c",))), (FOUND, ASKED), "What it shows.")


def drawn(plot: DotPlot, *, dark: bool = False) -> bytes:
    stream = io.BytesIO()
    draw_dot_plot(plot, stream, dark=dark)
    return stream.getvalue()


def test_the_same_plot_gives_the_same_picture_and_another_another() -> None:
    first = drawn(PLOT)
    assert first.startswith(b"\x89PNG")
    assert first == drawn(PLOT)
    assert first != drawn(PLOT, dark=True)
    other = replace(ASKED, series=(Dots("first", (Mean(10.0, 0.5), Mean(20.0, None), Mean(6.0, 1.0))),))
    assert first != drawn(replace(PLOT, panels=(FOUND, other)))


def test_nothing_found_can_be_drawn() -> None:
    nothing = tuple(Share(0.0, 0.0, 0.1) for _ in range(3))
    assert drawn(replace(PLOT, panels=(replace(ASKED, series=(Dots("first", nothing),)),))).startswith(b"\x89PNG")
