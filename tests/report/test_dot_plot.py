"""Dot plots: every row has its dots and numbers, and numbers do not stand in each other's way."""

import io
from dataclasses import replace

from matplotlib.figure import Figure

from nearveil.evaluation.attack_experiment import Mean, Share
from nearveil.evaluation.results import DotPanel, DotPlot, Dots
from nearveil.report.dot_plot import _heights, _set_axes, _write_numbers, draw_dot_plot
from nearveil.report.style import LIGHT

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


def test_rows_go_down_below_their_headings() -> None:
    assert _heights(PLOT) == {("above", "a"): -1.0, ("above", "b"): -2.0, ("below", "c"): -4.0}


def test_numbers_stand_beside_dots_and_not_on_the_next_one() -> None:
    """On the right; on the left near the right edge, and where a greater one follows in the row."""
    axes = Figure().subplots()
    heights = _heights(PLOT).values()
    _set_axes(axes, FOUND, heights, LIGHT)
    _write_numbers(axes, FOUND, heights)
    written = [(text.get_text(), text.get_ha(), text.xy) for text in axes.texts]  # type: ignore[attr-defined]
    assert written == [
        ("99%", "right", (0.97, -1.0)), ("30%", "left", (0.4, -2.0)), ("5%", "right", (0.02, -4.0)),
        ("14%", "left", (0.2, -4.0)),
    ]  # fmt: skip
