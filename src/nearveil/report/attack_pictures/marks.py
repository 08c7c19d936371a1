"""The marks that every picture of an attack has, and the legend that explains them."""

from __future__ import annotations

from typing import Any, Literal

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from nearveil.report.attack_pictures.chart import Chart
from nearveil.report.attack_pictures.colours import tint
from nearveil.report.attack_pictures.scene import Scene
from nearveil.report.attack_pictures.words import legend_name, length
from nearveil.report.coastline import draw_land
from nearveil.report.style import (
    CIRCLE_COLOUR,
    COLLUDER_COLOUR,
    INK,
    LIGHT,
    PUBLISHED_COLOUR,
    TRUE_COLOUR,
    disc_handle,
    disc_handlers,
)

_Loc = Literal["lower center", "outside lower center"]

MARKS: dict[str, dict[str, Any]] = {
    "the person": {"marker": "*", "color": TRUE_COLOUR, "markersize": 24, "markeredgecolor": "white", "zorder": 8},
    "where the person is published": {
        "marker": "D", "color": PUBLISHED_COLOUR, "markersize": 15, "markerfacecolor": "none", "markeredgewidth": 2.4,
        "zorder": 8,
    },
    "the attacker's estimate": {"marker": "x", "color": INK, "markersize": 9, "markeredgewidth": 2, "zorder": 9},
    "others located": {
        "marker": "o", "color": INK, "markersize": 4, "markerfacecolor": "none", "markeredgewidth": 0.9, "zorder": 4,
    },
    "a colluder": {
        "marker": "^", "color": COLLUDER_COLOUR, "markersize": 6, "markeredgecolor": INK, "markeredgewidth": 0.5,
        "zorder": 5,
    },
    "a question, numbered": {
        "marker": "o", "color": "#31688E", "markersize": 9, "markeredgecolor": "white", "zorder": 7,
    },
    "people": {"marker": ".", "color": "#777777", "markersize": 5, "alpha": 0.8, "zorder": 2},
}  # fmt: skip


def draw_people(chart: Chart, scene: Scene, size: float) -> None:
    """Draw land and water, everybody, faintly, and the region's edge."""
    draw_land(chart.axes, scene.region, LIGHT, chart.xy)
    east, north = scene.region.half_extent_m
    chart.rectangle((-east, -north), (east, north), edgecolor="#BBBBBB", linewidth=1, zorder=2)
    chart.marks(scene.dots, ".", color="#777777", markersize=size, alpha=0.55, zorder=2, markeredgewidth=0)


def draw_ends(chart: Chart, scene: Scene, *, estimate: bool = True) -> None:
    """Draw the person, what is published of it, and the estimate."""
    chart.circle(scene.truth, scene.tau_m, edgecolor=TRUE_COLOUR, linewidth=1.6, linestyle="--", zorder=6)
    if scene.published is not None:
        chart.arrow(scene.truth, scene.published, PUBLISHED_COLOUR)
        chart.marks(scene.published, **MARKS["where the person is published"])
    chart.marks(scene.truth, **MARKS["the person"])
    if estimate and scene.result.estimate is not None:
        # A cross on a wider white one is seen on anything.
        chart.marks(scene.result.estimate, "x", color="white", markersize=11, markeredgewidth=4.2, zorder=7)
        chart.marks(scene.result.estimate, **MARKS["the attacker's estimate"])


def add_legend(figure: Figure, scene: Scene, columns: int, loc: _Loc = "outside lower center") -> None:
    """Explain the marks that this attack needs, below the charts."""
    absent = {
        "where the person is published": scene.published is None,
        "the attacker's estimate": scene.result.estimate is None,
        "others located": not scene.result.others,
        "a colluder": not any(step.colluders for step in scene.steps),
        "a question, numbered": not scene.steps,
    }
    handles: list[Any] = []
    for name, mark in MARKS.items():
        if not absent.get(name, False):
            look = {**mark, "linestyle": "none", "markersize": min(mark["markersize"], 11)}
            handles.append(Line2D([], [], **look, label=legend_name(scene, name)))
    within = f"within {length(scene.tau_m)} of the person"
    handles.insert(1, disc_handle(within, TRUE_COLOUR, dashes="--"))
    if scene.result.trace.circles:
        handles.append(disc_handle("a circle found", CIRCLE_COLOUR))
    if any(step.cells is not None for step in scene.steps):
        handles.append(Patch(facecolor=tint("#35B779", 0.45), label="still possible"))
    figure.legend(
        handles=handles, loc=loc, ncol=columns, frameon=False, fontsize=9.5, columnspacing=1.6,
        handler_map=disc_handlers(),
    )  # fmt: skip
