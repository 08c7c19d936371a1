"""Charts: values where they belong, looks that stay the same, and words that can be read."""

import io
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nearveil.evaluation.results import Chart, Panel, Series
from nearveil.evaluation.stats import Mean, Share
from nearveil.report import charts
from nearveil.report.charts import draw_chart
from tests.report.outcome_samples import CHART, line

Draw = Callable[..., Figure]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Draw:
    """Draw a chart and look at the figure itself."""
    figures: list[Figure] = []
    monkeypatch.setattr(charts, "save", lambda figure, _path, _format: figures.append(figure))

    def draw(chart: Chart, **options: Any) -> Figure:
        draw_chart(chart, io.BytesIO(), **options)
        figures[-1].draw_without_rendering()
        return figures[-1]

    return draw


def chart_of(*panels: Panel, columns: int = 4) -> Chart:
    return Chart("name", "title", panels, columns, "words")


def bars(axes: Axes) -> list[float]:
    """Lengths of all error bars, upright or not."""
    segments = [segment for each in axes.containers for part in each[2] for segment in part.get_segments()]
    return sorted(float(np.ptp(segment, axis=0).max()) for segment in segments if len(segment))


def test_values_and_intervals_are_where_they_belong(drawn: Draw) -> None:
    series = Series("a", (Mean(1, 0.25), Mean(2, None)), (Mean(10, 3.0), Mean(20, None)))
    axes = drawn(chart_of(Panel("p", "x (m)", "y (s)", (series,)))).axes[0]
    assert axes.containers[0][0].get_xydata().tolist() == [[1, 10], [2, 20]]
    assert bars(axes) == pytest.approx([0.5, 6.0])
    assert (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()) == ("p", "x (m)", "y (s)")


def test_intervals_of_shares_reach_as_far_down_and_up_as_they_do(drawn: Draw) -> None:
    series = Series("a", (Mean(1, None),), (Share(0.9, 0.5, 0.95),))
    axes = drawn(chart_of(Panel("p", "x", "Acc", (series,)))).axes[0]
    (segment,) = axes.containers[0][2][0].get_segments()
    assert segment[:, 1].tolist() == pytest.approx([0.5, 0.95])


def test_what_is_no_number_is_left_out(drawn: Draw) -> None:
    axes = drawn(chart_of(Panel("p", "x", "y", (line("a", (1, 2.0), (2, math.nan), (3, math.inf)),)))).axes[0]
    assert axes.containers[0][0].get_xydata().tolist() == [[1, 2]]


@pytest.mark.parametrize("points", [[(3.02, 3.0), (3.08, 0.5)], [(2, 2.5)], [(1, 5.0), (2, 0.0)], []])
def test_odd_logarithmic_axes_have_ticks_too(drawn: Draw, points: list[tuple[float, float]]) -> None:
    """Short stretches without a round number, a single point, a nought, an interval that reaches below nought."""
    axes = drawn(chart_of(Panel("p $x^2", "x", "y", (line("a", *points, half_width=4.0),), True, True))).axes[0]
    for axis in (axes.xaxis, axes.yaxis):
        assert len(axis.get_ticklocs()) >= 2
        assert all(text.get_text() for text in axis.get_ticklabels())
    low, high = axes.get_ylim()
    assert low < high < 1000
    assert low > 0 or not points


@pytest.mark.parametrize("format", ["svg", "png"])
def test_the_same_chart_gives_the_same_bytes(tmp_path: Path, format: str) -> None:
    paths = [tmp_path / "one", tmp_path / "two"]
    for path in paths:
        draw_chart(CHART, path, format=format)  # type: ignore[arg-type]
    data = paths[0].read_bytes()
    assert data == paths[1].read_bytes()
    assert len(data) > 10_000
    draw_chart(replace(CHART, title="Another"), paths[1], format=format)  # type: ignore[arg-type]
    assert data != paths[1].read_bytes()
    if format == "svg":
        # Neither a date nor letters that need a font.
        assert b"<dc:date>" not in data
        assert b"<text" not in data
