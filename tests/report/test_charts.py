"""Charts: values where they belong, looks that stay the same, and words that can be read."""

import io
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from nearveil.evaluation.attack_experiment import Mean, Share
from nearveil.evaluation.experiments import guarantee
from nearveil.evaluation.experiments.scope import Scope
from nearveil.evaluation.results import Chart, Panel, Series, exact
from nearveil.report import charts
from nearveil.report.charts import draw_chart, linear_ticks, log_ticks, plain_number
from nearveil.report.style import DARK, LIGHT, looks_of
from tests.evaluation.made_up_results import made_up_results, tiny_town
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


def test_a_series_without_points_is_drawn(drawn: Draw) -> None:
    drawn(chart_of(Panel("p", "x", "y", (line("a"),)), Panel("q", "x", "y", ())))


def test_the_papers_values_are_hollow_diamonds(drawn: Draw) -> None:
    figure = drawn(CHART)
    measured, paper, _ = (each[0] for each in figure.axes[0].containers)
    assert (paper.get_marker(), paper.get_fillstyle(), paper.get_linestyle()) == ("D", "none", "None")
    assert paper.get_color() == measured.get_color()
    # Without ours beside it, in ink, and each with a shape of its own.
    alone = drawn(chart_of(Panel("p", "x", "y", tuple(line(name, (1, 2), kind="paper") for name in "ab"))))
    first, second = (each[0] for each in alone.axes[0].containers)
    assert (first.get_marker(), first.get_color()) == ("D", LIGHT.ink)
    assert second.get_marker() != "D"
    panels = [Panel("p", "x", "y", tuple(line(name, (1, 2), kind="paper") for name in names)) for names in ("ab", "b")]
    one, other = drawn(chart_of(*panels)).axes
    assert other.containers[0][0].get_marker() == one.containers[1][0].get_marker()


def test_a_mark_can_have_the_colour_of_a_line_and_is_seen_on_it(drawn: Draw) -> None:
    lines = line("planar Laplace", (1, 2), (2, 1)), line("interval, private grid", (1, 3), (2, 2))
    for winner in lines:
        star = Series("recommended", (exact(1),), (exact(2),), "points", colour_of=winner.label)
        axes = drawn(chart_of(Panel("p", "x", "y", (*lines, star)))).axes[0]
        *colours, mark = (each[0] for each in axes.containers)
        assert mark.get_color() == colours[lines.index(winner)].get_color()
        assert mark.get_markeredgecolor() == LIGHT.ink


@pytest.mark.parametrize("quick", [True, False])
def test_the_claimed_loss_is_a_dotted_line_even_at_a_single_epsilon(drawn: Draw, quick: bool) -> None:
    scope = Scope(datasets={"a town": tiny_town("a town")}, runs=1, quick=quick)
    outcome = guarantee.outcome(scope, made_up_results(guarantee.cells(scope)))
    (chart,) = outcome.pictures
    assert isinstance(chart, Chart)
    figure = drawn(chart)
    claimed = figure.axes[0].containers[[series.label for series in chart.panels[0].series].index("claimed")][0]
    (x0, y0), (x1, y1) = claimed.get_xydata()
    assert (x0, x1) == (y0, y1)
    assert x0 < 1 < x1
    assert claimed.get_linestyle() == ":"


def test_one_legend_has_each_label_once_row_by_row_and_the_paper_last(drawn: Draw) -> None:
    names = ["a rather long name", "an even longer name than that", "b", "a name as long as the others", "c"]
    series = [line(name, (1, 2), (2, 3), kind=kind) for name in names for kind in ("line", "paper")]
    figure = drawn(chart_of(*(Panel("p", "x", "y", tuple(series)) for _ in range(2)), columns=2))
    (legend,) = figure.legends
    boxes = {text.get_text(): text.get_window_extent() for text in legend.get_texts()}
    rows = {name: round(box.y0 / 5) for name, box in boxes.items()}
    assert len(set(rows.values())) > 1
    assert sorted(boxes, key=lambda name: (-rows[name], boxes[name].x0)) == [*names, "the paper's values"]
    assert len(boxes) == len(legend.get_texts())
    assert all(axes.get_legend() is None for axes in figure.axes)


def test_strangers_have_looks_in_the_order_of_the_chart(drawn: Draw) -> None:
    axes = drawn(chart_of(Panel("p", "x", "y", (line("z", (1, 2)), line("a", (1, 3)))))).axes[0]
    looks = looks_of(["z", "a"])
    assert [each[0].get_marker() for each in axes.containers] == [looks["z"].marker, looks["a"].marker]


def test_scales(drawn: Draw) -> None:
    recall, other, time = drawn(CHART).axes
    # Both recalls from nought, to the same height.
    assert recall.get_ylim() == other.get_ylim()
    assert recall.get_ylim()[0] == 0
    assert 0.5 < recall.get_ylim()[1] < 0.6
    assert (time.get_xscale(), time.get_yscale()) == ("log", "log")
    assert [tick.get_text() for tick in time.get_yticklabels()] == ["1", "10", "100", "1,000", "10,000"]
    # Labels are not said twice, but said below where nothing is.
    assert [axes.get_ylabel() for axes in (recall, other, time)] == ["recall@10", "", "time (µs)"]
    assert [axes.get_xlabel() for axes in (recall, other, time)] == ["epsilon", "epsilon", "R"]


def test_shares_end_at_one_and_what_may_be_less_does_not_begin_at_nought(drawn: Draw) -> None:
    figure = drawn(
        chart_of(
            Panel("a", "x", "Acc", (line("a", (1, 0.99), (2, 1.0), half_width=0.5),)),
            Panel("b", "x", "change", (line("a", (1, -1.0), (2, 1.0)),)),
            Panel("c", "x", "none", (line("a", (1, 0.0), (2, 0.0)),)),
            Panel("d", "x", "found", (line("a", (1, 0.8), (2, 0.9)),)),
        )
    )
    share, change, nothing, near_one = (axes.get_ylim() for axes in figure.axes)
    assert share == near_one == pytest.approx((0, 1.05))
    assert change[0] < -1
    assert nothing == pytest.approx((0, 1))


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


def test_words_do_not_overlap_and_nothing_is_cut_off(drawn: Draw) -> None:
    labels = ["metric, private grid", "paper, Gaussian, private k-means", "SRR", "Square", "2D Laplace", "unfolding"]
    panels = [
        Panel(name, "error of the best attacker that anybody knows (m)", "share of people found within 100 m of it", (
            *(line(label, (low, 0.5), (high, 0.25), half_width=0.1) for label in labels),
        ), log_x=log)
        for name, low, high, log in (
            ("a title that is far too long for one line", 0.5, 1_000_000, True), ("b", 900_000, 1_000_000, False),
            ("c", 1, 2, True), ("d", 0.001, 0.002, False), ("e", 600, 1000, False),
        )
    ]  # fmt: skip
    crowded = Panel("crowded", "x", "y", (line("SRR", (10_000, 1.0), (10_100, 2.0), (10_200, 2.0), (11_000, 3.0)),))
    figure = drawn(chart_of(*panels, crowded))
    width = figure.bbox.width
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            boxes = [text.get_window_extent() for text in axis.get_ticklabels() if text.get_text()]
            assert len(boxes) >= 2
            assert not any(one.overlaps(other) for one, other in pairwise(boxes))
        box = axes.get_tightbbox()
        assert box is not None
        assert min(box.x0, box.y0) >= 0
        assert box.x1 <= width
    for words in ([axes.title for axes in figure.axes[:4]], [axes.xaxis.label for axes in figure.axes[:4]]):
        assert not any(one.get_window_extent().overlaps(other.get_window_extent()) for one, other in pairwise(words))
    legend = figure.legends[0].get_window_extent()
    assert min(legend.x0, legend.y0) >= 0
    assert legend.x1 <= width
    title = figure.get_suptitle()
    assert title == "title"
    assert all(axes.get_tightbbox().y0 >= legend.y1 - 1 for axes in figure.axes)  # type: ignore[union-attr]


def test_dark_charts_are_dark(drawn: Draw) -> None:
    figure = drawn(CHART, dark=True)
    assert figure.get_facecolor()[:3] == to_rgb(DARK.page)
    assert figure.axes[0].containers[0][0].get_color() == DARK.palette["blue"]
    assert figure.axes[0].xaxis.label.get_color() == DARK.ink


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


def test_a_title_can_be_left_to_a_caption(drawn: Draw) -> None:
    assert drawn(CHART).get_suptitle() == CHART.title
    assert drawn(CHART, titled=False).get_suptitle() == ""


def test_numbers_are_plain() -> None:
    assert [plain_number(value) for value in (0, -0.0, 1.0, 0.1 + 0.2, 1500, -2.5)] == [
        "0",
        "0",
        "1",
        "0.3",
        "1,500",
        "-2.5",
    ]
    assert [plain_number(value) for value in (1e-5, 2e6)] == ["1×10⁻⁵", "2×10⁶"]


@pytest.mark.parametrize(("low", "high"), [(0.001, 5), (1, 2), (90, 110), (1e-9, 1e9), (3, 3.1)])
def test_logarithmic_ticks_are_inside_and_not_too_many(low: float, high: float) -> None:
    for most in (3, 6):
        ticks = log_ticks(low, high, most)
        assert len(ticks) <= most
        assert all(low <= tick <= high for tick in ticks)


def test_linear_ticks_are_inside() -> None:
    assert linear_ticks(0.9, 4.1, 5) == [1, 2, 3, 4]
    assert linear_ticks(-0.33, 0.25, 7) == [-0.3, -0.2, -0.1, 0, 0.1, 0.2]
    assert exact(3) == Mean(3.0, None)


def test_what_is_ones_own_is_in_front_with_its_name_and_what_is_behind_has_one_entry(drawn: Draw) -> None:
    points = ((Mean(1, 0.1), Mean(2, 0.1)), (Mean(0.5, 0.1), Mean(0.4, 0.1)))
    series = (
        Series("mine", *points, emphasis="own"),
        Series("planar Laplace", *points),
        *(Series(name, *points, emphasis="background") for name in ("SRR", "Square")),
    )
    figure = drawn(chart_of(Panel("p", "x (m)", "y", series)))
    own, other = (each[0] for each in figure.axes[0].containers)
    assert own.get_zorder() > other.get_zorder()
    assert own.get_linewidth() > other.get_linewidth()
    assert own.get_color() == LIGHT.ink
    assert [text.get_text() for text in figure.axes[0].texts] == ["mine"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "mine",
        "planar Laplace",
        "others, never the best",
    ]


@pytest.mark.parametrize("x", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("y", [0.02, 0.5, 0.98])
def test_the_name_of_ones_own_stays_in_its_panel_and_off_the_points(drawn: Draw, x: float, y: float) -> None:
    own = Series("a mechanism of mine", (exact(x),), (exact(y),), emphasis="own")
    others = line("others", *((x + 0.09 * dx, y) for dx in range(-3, 4)), *((0.0, 0.0), (1.0, 1.0)))
    axes = drawn(chart_of(Panel("p", "x", "y (share)", (own, others)), columns=2)).axes[0]
    (name,) = axes.texts
    box = name.get_window_extent()
    assert axes.bbox.x0 <= box.x0 < box.x1 <= axes.bbox.x1
    assert axes.bbox.y0 <= box.y0 < box.y1 <= axes.bbox.y1
    marks = [each[0].get_xydata() for each in axes.containers]
    assert box.count_contains(axes.transData.transform(np.concatenate(marks))) == 0


def test_more_private_is_to_the_right_where_an_axis_is_reversed(drawn: Draw) -> None:
    panel = Panel("p", "named (share)", "y", (line("a", (0.1, 0.5), (0.9, 0.8)),), reverse_x=True)
    low, high = drawn(chart_of(panel)).axes[0].get_xlim()
    assert low > high


def test_wide_intervals_do_not_stretch_a_logarithmic_axis(drawn: Draw) -> None:
    wide = Series("a", (Mean(20, 19.9999), Mean(900, 800)), (Mean(0.5, 0.1), Mean(0.4, 0.1)))
    low, high = drawn(chart_of(Panel("p", "x (m)", "y", (wide,), log_x=True))).axes[0].get_xlim()
    assert 15 < low < 20
    assert 900 < high < 1500


def test_the_caption_is_between_the_title_and_the_panels(drawn: Draw) -> None:
    figure = drawn(replace(CHART, caption="See how it falls. " * 20))
    (caption,) = (text for text in figure.texts if text.get_text().startswith("See how"))
    title, box = figure.get_suptitle(), caption.get_window_extent()
    assert title == CHART.title
    assert all(panel is not None and panel.y1 < box.y0 for panel in (axes.get_tightbbox() for axes in figure.axes))
    assert box.y1 < figure.bbox.y1
