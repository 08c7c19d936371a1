"""Film: the frames of a GIF on one sheet, of which only the map and the words are drawn anew."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from nearveil.attacks.oracle import Spot
from nearveil.attacks.result import TraceStep
from nearveil.report.attack_pictures.chart import Chart
from nearveil.report.attack_pictures.colours import ink_on, shades, tint
from nearveil.report.attack_pictures.marks import MARKS, add_legend, draw_ends, draw_people
from nearveil.report.attack_pictures.palette import with_palette
from nearveil.report.attack_pictures.scene import Scene
from nearveil.report.attack_pictures.story import Frame
from nearveil.report.attack_pictures.views import View
from nearveil.report.attack_pictures.words import heading, length
from nearveil.report.style import CIRCLE_COLOUR, COLLUDER_COLOUR, INK, PUBLISHED_COLOUR, TRUE_COLOUR

_COLOURS = ("#ffffff", INK, TRUE_COLOUR, PUBLISHED_COLOUR, COLLUDER_COLOUR, CIRCLE_COLOUR)
_TITLE_LETTERS, _CAPTION_LETTERS = 54, 86

# Inches.
_WIDTH, _MAP, _BELOW, _EDGE, _TITLE_LINE, _CAPTION_LINE = 7.2, 6.12, 1.36, 0.12, 0.25, 0.205


class Film:
    """A sheet with the title and the legend, and room for a map and the longest caption.

    Parameters
    ----------
    frames : sequence of Frame
        All that will be drawn; the sheet is made to fit them, so that nothing but the map moves.
    """

    def __init__(self, scene: Scene, title: str, frames: Sequence[Frame]) -> None:
        self._scene, self._colours = scene, shades(len(scene.steps))
        lines = textwrap.wrap(heading(scene, title), _TITLE_LETTERS)
        caption_lines = max(len(_caption(frame)) for frame in frames)
        above = 2 * _EDGE + _TITLE_LINE * len(lines) + _CAPTION_LINE * caption_lines
        height = _BELOW + _MAP + above
        self.figure = Figure(figsize=(_WIDTH, height), dpi=100)
        # Matplotlib does not say what its canvas takes.
        canvas: Any = FigureCanvasAgg(self.figure)
        self._canvas = canvas
        self._caption_top = 1 - (_EDGE + _TITLE_LINE * len(lines)) / height
        self._write(1 - _EDGE / height, lines, fontsize=13, fontweight="bold")
        add_legend(self.figure, scene, 3, "lower center")
        canvas.draw()
        self._sheet = canvas.copy_from_bbox(self.figure.bbox)
        self._axes = self.figure.add_axes((0.12, _BELOW / height, _MAP / _WIDTH, _MAP / height))
        # Most of the time goes into the numbers along the edges, and into finding room for words beside them.
        self._axes.locator_params(nbins=5)
        self._axes.xaxis.set_label_coords(0.5, -0.052)
        self._axes.yaxis.set_label_coords(-0.095, 0.5)

    def image(self, frame: Frame) -> Image.Image:
        """One frame."""
        self._canvas.restore_region(self._sheet)
        axes = self._axes
        draw_frame(Chart(axes, frame.view, self._scene.truth, "the person"), self._scene, frame, self._colours)
        words = self._write(self._caption_top, _caption(frame), fontsize=10.5, linespacing=1.35)
        for artist in (axes, words):
            self.figure.draw_artist(artist)
        # New axes would take longer than all that is drawn on them.
        for artist in (*axes.lines, *axes.patches, *axes.collections, *axes.texts, words):
            artist.remove()
        pixels = np.asarray(self._canvas.buffer_rgba())[:, :, :3]
        return with_palette(pixels, [*_COLOURS, *self._colours[: frame.number][-64:]])

    def _write(self, top: float, lines: Sequence[str], **style: Any) -> Any:
        # Dollars are no formulas.
        return self.figure.text(0.5, top, "\n".join(lines), ha="center", va="top", parse_math=False, **style)


def _caption(frame: Frame) -> list[str]:
    return textwrap.wrap(frame.words, _CAPTION_LETTERS)


def draw_frame(chart: Chart, scene: Scene, frame: Frame, colours: Sequence[str]) -> None:
    """Draw what was known after a question, and the question itself or the result."""
    colour = colours[frame.number - 1]
    cells = scene.cells_after(frame.number)
    if cells is not None:
        chart.boxes(scene.boxes(cells), tint(colour, 0.4), tint(colour, 0.8))
    for circle in scene.circles_after(frame.number):
        chart.circle(circle.centre, circle.radius_m, edgecolor=CIRCLE_COLOUR, linewidth=1.8, zorder=3)
    draw_people(chart, scene, 3 if frame.view.half_m > 5000 else 6)
    asked = {step.place: shade for step, shade in zip(scene.steps[: frame.number], colours, strict=False)}
    chart.spots(list(asked), list(asked.values()), 6, MARKS["a question, numbered"]["zorder"])
    draw_ends(chart, scene, estimate=frame.step is None)
    if frame.step is None:
        chart.marks(list(scene.result.others.values()), **MARKS["others located"])
        return
    if frame.ring_m is not None:
        chart.ring(frame.step.place, frame.ring_m, facecolor=tint(CIRCLE_COLOUR, 0.3), zorder=1)
    _draw_colluders(chart, frame.step)
    _draw_question(chart, frame.step.place, frame.number, colour)


def _draw_colluders(chart: Chart, step: TraceStep) -> None:
    """The attacker's accounts at their distances; those out of sight in words, on the way to the first of them."""
    for colluder in step.colluders:
        radius_m = math.dist(step.place, colluder)
        chart.circle(step.place, radius_m, edgecolor=COLLUDER_COLOUR, linewidth=1.3, linestyle=":", zorder=4)
        chart.marks(colluder, **{**MARKS["a colluder"], "markersize": 9})
    far = [colluder for colluder in step.colluders if not chart.view.holds(colluder)]
    if far:
        distances = sorted(math.dist(step.place, colluder) for colluder in far)
        edge = _at_edge(chart.view, step.place, far[0])
        chart.write(edge, "\n".join(["colluder", *(length(distance) for distance in distances), "away"]))


def _draw_question(chart: Chart, place: Spot, number: int, colour: str) -> None:
    chart.marks(place, **{**MARKS["a question, numbered"], "color": colour, "markersize": 17, "zorder": 8.5})
    x, y = chart.xy(place)[0]
    style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 9, "zorder": 9, "clip_on": True}
    chart.axes.text(x, y, str(number), color=ink_on(colour), **style)


def _at_edge(view: View, start: Spot, towards: Spot) -> Spot:
    """Where the way to a place out of sight leaves the view, a little inside."""
    room = 0.88 * view.half_m
    share = 1.0
    for here, there, middle in zip(start, towards, view.centre, strict=True):
        if abs(there - middle) > room and there != here:
            border = middle + math.copysign(room, there - middle)
            share = min(share, max((border - here) / (there - here), 0.0))
    x, y = start[0] + share * (towards[0] - start[0]), start[1] + share * (towards[1] - start[1])
    # Not on the question's own mark, where that is close to the edge.
    if math.dist((x, y), start) < 0.2 * view.half_m:
        x += math.copysign(0.25 * view.half_m, view.centre[0] - x)
    return x, y
