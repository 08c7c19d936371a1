"""The three panels of the picture: the whole region, the attack close up, and its last stretch."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nearveil.attacks.oracle import Spot
from nearveil.report.attack_pictures.chart import Chart
from nearveil.report.attack_pictures.colours import shades, tint
from nearveil.report.attack_pictures.marks import MARKS, add_legend, draw_ends, draw_people
from nearveil.report.attack_pictures.numbers import Room, ranges
from nearveil.report.attack_pictures.scene import Scene
from nearveil.report.attack_pictures.views import View, close_view, end_view
from nearveil.report.attack_pictures.words import heading, summary
from nearveil.report.style import CIRCLE_COLOUR, house_style

_TITLE_LETTERS = 110
_LINE_INCHES = 0.24


def save_panels(scene: Scene, path: Path, title: str) -> None:
    """Draw the panels side by side, and save them as PNG."""
    lines = textwrap.wrap(heading(scene, title), _TITLE_LETTERS)
    end, close = end_view(scene), close_view(scene)
    with house_style():
        size = (17, 6.7 + _LINE_INCHES * len(lines))
        figure, (left, middle, right) = plt.subplots(1, 3, figsize=size, layout="constrained")
        _draw_region(left, scene, close)
        near = Chart(middle, close, scene.truth, "the person")
        draw_people(near, scene, 5)
        near.frame(end)
        middle.set_title("The attack (the square on the left)")
        last = Chart(right, end, scene.truth, "the person")
        draw_people(last, scene, 9)
        right.set_title("The last stretch (the square in the middle)")
        for chart in (near, last):
            _draw_knowledge(chart, scene)
            _draw_questions(chart, scene)
            draw_ends(chart, scene)
        _draw_order(figure, right, scene)
        add_legend(figure, scene, 5 if scene.published is None else 6)
        _write_heading(figure, lines, summary(scene))
        figure.savefig(path, format="png")
        plt.close(figure)


def _draw_region(axes: Axes, scene: Scene, close: View) -> None:
    """Everybody, all colluders, and where the next panel is."""
    east, north = scene.region.half_extent_m
    whole = Chart(axes, View((0.0, 0.0), max(east, north)), (0.0, 0.0), "the region's centre")
    (right, top) = whole.xy((east, north))[0]
    axes.set_xlim(-right, right)
    axes.set_ylim(-top, top)
    draw_people(whole, scene, 2.2)
    colluders = [spot for step in scene.steps for spot in step.colluders]
    whole.marks(colluders, **{**MARKS["a colluder"], "markersize": 4})
    whole.frame(close, 0.025 * whole.view.half_m)
    axes.set_title(f"The whole region ({len(scene.people_m):,} people)")


def _draw_knowledge(chart: Chart, scene: Scene) -> None:
    """What was possible after each question, later on top of earlier; circles, and others located."""
    for order, (step, colour) in enumerate(zip(scene.steps, shades(len(scene.steps)), strict=False)):
        if step.cells is None:
            continue
        share = 0.25 + 0.3 * order / len(scene.steps)
        chart.boxes(scene.boxes(step.cells), tint(colour, share), tint(colour, share + 0.35), zorder=1 + 0.001 * order)
        for colluder in step.colluders:
            radius_m = math.dist(step.place, colluder)
            chart.circle(step.place, radius_m, edgecolor=colour, linewidth=0.8, linestyle=":", zorder=3)
    for circle in scene.result.trace.circles:
        chart.circle(circle.centre, circle.radius_m, edgecolor=CIRCLE_COLOUR, linewidth=1.8, zorder=3)
    chart.marks(list(scene.result.others.values()), **MARKS["others located"])


def _draw_questions(chart: Chart, scene: Scene) -> None:
    """Places with the numbers of the questions asked there, and the colluders."""
    asked: dict[Spot, list[int]] = {}
    for number, step in enumerate(scene.steps, start=1):
        asked.setdefault(step.place, []).append(number)
    colluders = [spot for step in scene.steps for spot in step.colluders]
    chart.marks(colluders, **MARKS["a colluder"])
    room = Room(chart.view, [*asked, *colluders, *scene.result.others.values()], scene.ends)
    if scene.published is not None:
        room.keep_free(scene.truth, scene.published)
    colours = shades(len(scene.steps))
    for place, numbers in asked.items():
        chart.marks(place, **{**MARKS["a question, numbered"], "color": colours[numbers[-1] - 1]})
        text = ranges(numbers)
        spot = room.beside(place, text)
        # A number without room is left out: the last stretch shows the place closer, and its colour tells.
        if spot is not None:
            chart.write(spot, text)


def _draw_order(figure: Figure, beside: Axes, scene: Scene) -> None:
    """The scale of the questions' colours."""
    if len(scene.steps) < 2:
        return
    colours = mpl.colors.ListedColormap(shades(len(scene.steps)))
    scale = mpl.cm.ScalarMappable(mpl.colors.Normalize(0.5, len(scene.steps) + 0.5), colours)
    bar = figure.colorbar(scale, ax=beside, shrink=0.8, pad=0.02, label="question")
    bar.ax.yaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))


def _write_heading(figure: Figure, title: list[str], below: str) -> None:
    # The empty line below the title keeps room for the summary, which is not bold. Dollars are no formulas.
    figure.suptitle("\n".join([*title, ""]), fontsize=14, fontweight="bold", parse_math=False)
    top = 1 - (0.12 + _LINE_INCHES * len(title)) / figure.get_figheight()
    note = figure.text(0.5, top, below, ha="center", va="top", fontsize=12, parse_math=False)
    note.set_in_layout(False)
