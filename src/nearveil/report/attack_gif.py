"""One attack as an animated GIF, or as a page with a player.

Below `animate_attack` are the frames and the reduction to the 256 colours that a GIF can have.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from nearveil.attacks.base import TraceStep
from nearveil.attacks.oracle import Spot
from nearveil.report.attack_figure import MARKS, MapAxes, add_legend, draw_ends, draw_people, ink_on, shades, tint
from nearveil.report.attack_scene import Frame, Scene, View, frames_of, heading, length
from nearveil.report.style import CIRCLE_COLOUR, COLLUDER_COLOUR, INK, PUBLISHED_COLOUR, TRUE_COLOUR, house_style

_QUESTION_MS, _RESULT_MS = 900, 3000
# With more questions than the first number they share frames; with more frames than the second, some are left out.
_FEW, _MOST = 25, 39


def draw_gif(scene: Scene, path: Path, *, title: str) -> None:
    """Draw frame after frame, and save them."""
    *questions, result = frames_of(scene, _FEW)
    frames = [*_at_most(questions, _MOST), result]
    with house_style():
        film = Film(scene, title, frames)
        images = [film.image(frame) for frame in frames]
    durations = [_QUESTION_MS] * (len(frames) - 1) + [_RESULT_MS]
    images[0].save(
        path, format="GIF", save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=False
    )


def _at_most(frames: Sequence[Frame], most: int) -> Sequence[Frame]:
    """Frames spread evenly over all, the first and the last among them."""
    if len(frames) <= most:
        return frames
    return [frames[index] for index in np.linspace(0, len(frames) - 1, most).round().astype(int)]


# From all colours to the 256 that a GIF can have.


def with_palette(pixels: npt.NDArray[np.uint8], wanted: Sequence[str]) -> Image.Image:
    """Reduce to the colours wanted and the most frequent; Pillow's choice would spoil those of small marks.

    Parameters
    ----------
    pixels : ndarray of shape (height, width, 3)
        Red, green and blue.
    """
    packed = pixels @ np.array([1 << 16, 1 << 8, 1], dtype=np.int32)
    found, counts = np.unique(packed, return_counts=True)
    first = [int(colour[1:], 16) for colour in wanted]
    palette, shades = _unpacked(np.array([*first, *found[np.argsort(-counts)]])[:256]), _unpacked(found)
    # The nearest has the least |a - b|², and |a|² is the same for all; floats hold these numbers exactly.
    nearest = ((palette**2).sum(axis=1) - 2 * shades @ palette.T).argmin(axis=1)
    # A table of all colours is quicker than a search for each pixel.
    table = np.zeros(1 << 24, dtype=np.uint8)
    table[found] = nearest
    image = Image.fromarray(table[packed]).convert("P")
    image.putpalette(palette.astype(np.uint8).tobytes())
    return image


def _unpacked(colours: npt.NDArray[np.integer]) -> npt.NDArray[np.float32]:
    return np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1).astype(np.float32)


# Film: the frames of a GIF on one sheet, of which only the map and the words are drawn anew.


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
        draw_frame(MapAxes(axes, frame.view, self._scene.truth, "the person"), self._scene, frame, self._colours)
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
    return textwrap.wrap(frame.text, _CAPTION_LETTERS)


def draw_frame(chart: MapAxes, scene: Scene, frame: Frame, colours: Sequence[str]) -> None:
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


def _draw_colluders(chart: MapAxes, step: TraceStep) -> None:
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


def _draw_question(chart: MapAxes, place: Spot, number: int, colour: str) -> None:
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
