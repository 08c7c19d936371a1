"""One attack as an animated GIF, closer with every query."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from nearveil.report.attack_figure import MARKS, MapAxes, add_legend, draw_ends, draw_people, shades, tint
from nearveil.report.attack_scene import Frame, Scene, frames_of, heading
from nearveil.report.style import ACCOUNT_COLOUR, CIRCLE_COLOUR, house_style

_QUESTION_MS, _RESULT_MS = 900, 3000
# Of a longer attack frames are left out.
_MOST_FRAMES = 40
_TITLE_LETTERS, _CAPTION_LETTERS = 54, 86
# Inches.
_WIDTH, _MAP, _BELOW, _EDGE, _TITLE_LINE, _CAPTION_LINE = 7.2, 6.12, 1.36, 0.12, 0.25, 0.205


def draw_gif(scene: Scene, path: Path, *, title: str) -> None:
    """Show one attack query by query, or every so many queries of a long one; save as GIF, whatever the path's suffix.

    It shows true locations, so it is for synthetic users, or for the operator's eyes only.
    """
    frames = frames_of(scene)
    chosen = np.linspace(0, len(frames) - 1, min(len(frames), _MOST_FRAMES)).round().astype(int)
    with house_style():
        first, *others = _images(scene, title, [frames[number] for number in chosen])
    durations = [_QUESTION_MS] * len(others) + [_RESULT_MS]
    first.save(path, format="GIF", save_all=True, append_images=others, duration=durations, loop=0, optimize=False)


def _images(scene: Scene, title: str, frames: Sequence[Frame]) -> list[Image.Image]:
    """Draw the frames on a sheet with room for the longest caption, so that nothing but the map moves."""
    lines = textwrap.wrap(heading(scene, title), _TITLE_LETTERS)
    captions = [textwrap.wrap(frame.text, _CAPTION_LETTERS) for frame in frames]
    above = 2 * _EDGE + _TITLE_LINE * len(lines) + _CAPTION_LINE * max(map(len, captions))
    height, colours = _BELOW + _MAP + above, shades(len(scene.steps))
    figure = Figure(figsize=(_WIDTH, height), dpi=100)
    # Matplotlib does not say what its canvas takes.
    canvas: Any = FigureCanvasAgg(figure)
    # Dollars are no formulas.
    style: dict[str, Any] = {"ha": "center", "va": "top", "parse_math": False}
    figure.text(0.5, 1 - _EDGE / height, "\n".join(lines), fontsize=13, fontweight="bold", **style)
    top = 1 - (_EDGE + _TITLE_LINE * len(lines)) / height
    words = figure.text(0.5, top, "", fontsize=10.5, linespacing=1.35, **style)
    add_legend(figure, scene, 3, loc="lower center")
    axes = figure.add_axes((0.12, _BELOW / height, _MAP / _WIDTH, _MAP / height))
    images = []
    for frame, caption in zip(frames, captions, strict=True):
        axes.clear()
        axes.locator_params(nbins=5)
        draw_frame(MapAxes(axes, frame.view, scene.truth, "the person"), scene, frame, colours)
        words.set_text("\n".join(caption))
        canvas.draw()
        drawn = Image.fromarray(np.asarray(canvas.buffer_rgba())[:, :, :3].copy())
        # Of Pillow's ways to 256 colors the one that keeps those of small marks.
        images.append(drawn.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE))
    return images


def draw_frame(chart: MapAxes, scene: Scene, frame: Frame, colours: Sequence[str]) -> None:
    """Draw what was known after a query, and the query itself or the result."""
    colour = colours[frame.number - 1]
    cells = scene.cells_after(frame.number)
    if cells is not None:
        chart.boxes(scene.boxes(cells), tint(colour, 0.4), tint(colour, 0.8))
    for circle in scene.circles_after(frame.number):
        chart.circle(circle.centre, circle.radius_m, edgecolor=CIRCLE_COLOUR, linewidth=1.8, zorder=3)
    draw_people(chart, scene, 3 if frame.view.half_m > 5000 else 6)
    for step, shade in zip(scene.steps[: frame.number], colours, strict=False):
        chart.marks(step.place, **{**MARKS["a question, numbered"], "color": shade, "markersize": 7})
    draw_ends(chart, scene, estimate=frame.step is None)
    if frame.step is None:
        chart.marks(list(scene.result.others.values()), **MARKS["others located"])
        return
    if frame.ring_m is not None:
        chart.ring(frame.step.place, frame.ring_m, facecolor=tint(CIRCLE_COLOUR, 0.3), zorder=1)
    for account in frame.step.accounts:
        radius_m = math.dist(frame.step.place, account)
        chart.circle(frame.step.place, radius_m, edgecolor=ACCOUNT_COLOUR, linewidth=1.3, linestyle=":", zorder=4)
        chart.marks(account, **{**MARKS["an account"], "markersize": 9})
    chart.marks(frame.step.place, **{**MARKS["a question, numbered"], "color": colour, "markersize": 17, "zorder": 8.5})
    chart.write(frame.step.place, str(frame.number), "black" if sum(to_rgb(colour)) > 1.5 else "white", colour)
