"""One attack as a picture: all queries with what they leave possible, and the last stretch close up.

All is drawn in meters from the user; the axes write kilometers where that is shorter.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import shapely
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Circle, PathPatch
from matplotlib.path import Path as Outline
from matplotlib.patheffects import withStroke

from nearveil.attacks.base import TraceStep
from nearveil.attacks.oracle import Point
from nearveil.report.attack_scene import Scene, certificate, heading, length, views_of
from nearveil.report.land import rings_of
from nearveil.report.maps import draw_land, map_axes
from nearveil.report.style import (
    ACCOUNT_COLOR,
    INK,
    POSSIBLE_COLOR,
    PUBLISHED_COLOR,
    TRUE_COLOR,
    add_legend,
    house_style,
    save_png,
)

_SIZE_IN = (12.0, 7.4)
_TITLE_LETTERS, _NOTE_LETTERS = 84, 140
_MOST_DOTS = 40_000


def draw_attack(scene: Scene, path: Path, *, title: str) -> None:
    """Draw the whole attack, and a part of it close up; save as PNG, whatever the path's suffix.

    It shows true locations, so it is for synthetic users, or for the operator's eyes only.
    """
    whole, close = views_of(scene)
    has_region = whole.half_m == max(scene.region.half_extent_m)
    # Without users there is nothing to see in the region.
    views = (whole, close) if len(scene.people_m) or not has_region else (close,)
    with house_style():
        figure = Figure(_SIZE_IN, layout="compressed")
        for axes, view in zip(figure.subplots(1, len(views), squeeze=False).flat, views, strict=True):
            map_axes(axes, scene.from_user(view.corners), "the user")
            draw_land(axes, scene.region, scene.truth)
            draw_users(axes, scene, 3)
            _draw_possible(axes, scene)
            draw_accounts(axes, scene, scene.steps)
            if view is close or not has_region:
                _draw_queries(axes, scene)
                draw_ends(axes, scene)
        left, right = figure.axes[0], figure.axes[-1]
        if left is not right:
            zoom = left.indicate_inset_zoom(right, edgecolor=INK, linewidth=1.5, alpha=1)
            for number, connector in enumerate(zoom.connectors or ()):
                # To the corners on the left.
                connector.set_visible(number < 2)
        left.set_title("The region" if has_region else "All queries, by number")
        right.set_title("All queries, by number" if has_region else "The last stretch")
        figure.suptitle(textwrap.fill(heading(scene), _TITLE_LETTERS), fontsize=17)
        note = f"{title}: {certificate(scene)}. Shows true locations: keep it private."
        add_legend(figure, columns=4, title=textwrap.fill(note, _NOTE_LETTERS))
        save_png(figure, path)


# What the animation of the README draws as well.


def mark(axes: Axes, scene: Scene, points: object, marker: str, color: str, size: float, **style: Any) -> None:
    """Draw points with one marker."""
    options = {"markeredgecolor": "white", "markeredgewidth": 0.8, **style}
    axes.plot(*scene.from_user(points).T, marker, linestyle="none", color=color, markersize=size, **options)


def draw_users(axes: Axes, scene: Scene, size: float) -> None:
    """Draw the users of the service, faintly."""
    if len(scene.people_m):
        what = "other users" + ("" if scene.published is None else ", as published")
        mark(axes, scene, scene.users(_MOST_DOTS), ".", "#777777", size, alpha=0.6, markeredgewidth=0, zorder=2)
        axes.plot([], [], ".", color="#777777", markersize=8, label=what)


def draw_area(axes: Axes, area: shapely.Geometry, alpha: float, **style: Any) -> None:
    """Fill where the target can still be."""
    if rings := [Outline(ring, closed=True) for ring in rings_of(area)]:
        outline = Outline.make_compound_path(*rings)
        axes.add_artist(PathPatch(outline, facecolor=to_rgba(POSSIBLE_COLOR, alpha), edgecolor=POSSIBLE_COLOR, **style))


def draw_circle(axes: Axes, scene: Scene, center: Point, radius_m: float, color: str, **style: Any) -> None:
    """Draw a circle."""
    axes.add_artist(Circle(scene.from_user(center)[0], radius_m, fill=False, edgecolor=color, **style))


def draw_accounts(axes: Axes, scene: Scene, steps: tuple[TraceStep, ...]) -> None:
    """Draw the accounts of the attacker during some queries."""
    accounts = [account for step in steps for account in step.accounts]
    if accounts:
        mark(
            axes,
            scene,
            accounts,
            "^",
            ACCOUNT_COLOR,
            8,
            markeredgecolor=INK,
            label="accounts of the attacker",
            zorder=5,
        )


def draw_ends(axes: Axes, scene: Scene, *, estimate: bool = True) -> None:
    """Draw the user, the published location, and the estimate."""
    draw_circle(axes, scene, scene.truth, scene.tau_m, TRUE_COLOR, linewidth=1.6, linestyle="--", zorder=6)
    if scene.published is not None:
        style = {"arrowstyle": "-|>", "color": PUBLISHED_COLOR, "linewidth": 1.8, "shrinkA": 8, "shrinkB": 8}
        head, tail = scene.from_user([scene.published, scene.truth])
        axes.annotate("", head, tail, arrowprops={**style, "mutation_scale": 16}, zorder=6.5, annotation_clip=True)
        mark(axes, scene, scene.published, "D", PUBLISHED_COLOR, 11, label="published location", zorder=8)
    mark(axes, scene, scene.truth, "*", TRUE_COLOR, 22, label=f"user (circle: {length(scene.tau_m)})", zorder=8)
    if estimate and scene.result.estimate is not None:
        # A cross on a wider white one is seen on anything.
        mark(axes, scene, scene.result.estimate, "x", "white", 12, markeredgecolor="white", markeredgewidth=5, zorder=9)
        mark(axes, scene, scene.result.estimate, "x", INK, 11, markeredgecolor=INK, markeredgewidth=2.4, zorder=9,
             label="estimate of the attacker")  # fmt: skip


def _draw_possible(axes: Axes, scene: Scene) -> None:
    """Draw what was possible after each query, later on top of earlier; circles, and other users located."""
    tracked = [area for area in scene.areas if area is not None]
    for number, area in enumerate(tracked):
        draw_area(axes, area, max(0.1, 1 / len(tracked)), linewidth=0.6, zorder=1 + number / len(tracked))
    if tracked:
        axes.fill([], [], color=POSSIBLE_COLOR, alpha=0.6, label="still possible; darker: later")
    for circle in scene.result.trace.circles:
        draw_circle(axes, scene, circle.centre, circle.radius_m, POSSIBLE_COLOR, linewidth=2.2, zorder=3)
    if scene.result.trace.circles:
        axes.plot([], [], color=POSSIBLE_COLOR, linewidth=2.2, label="circle on which the user is")
    if scene.result.others:
        others = list(scene.result.others.values())
        mark(axes, scene, others, "o", "none", 5, markeredgecolor=INK, label="other users located", zorder=4)


def _draw_queries(axes: Axes, scene: Scene) -> None:
    """Draw where queries were asked, with their numbers."""
    asked: dict[Point, list[int]] = {}
    for number, step in enumerate(scene.steps, start=1):
        asked.setdefault(step.place, []).append(number)
    for place, numbers in asked.items():
        draw_number(axes, scene, place, _ranges(numbers))
    if asked:
        axes.plot([], [], "o", color=INK, markersize=7, label="query, by number; 1: start")


def draw_number(axes: Axes, scene: Scene, place: Point, text: str) -> None:
    """Mark where a query was asked, with its number."""
    mark(axes, scene, place, "o", INK, 7, zorder=7)
    halo, (x, y) = [withStroke(linewidth=3, foreground="white")], scene.from_user(place)[0]
    style: dict[str, Any] = {"fontsize": 11, "fontweight": "bold", "zorder": 6.9, "path_effects": halo}
    axes.annotate(text, (x, y), (5, 5), textcoords="offset points", annotation_clip=True, **style)


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers with runs put together: 1–3, 7."""
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)
