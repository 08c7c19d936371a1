"""One attack as a player, query by query: a web page in one file that loads nothing, or a figure for a notebook."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import shapely

from nearveil.attacks.oracle import Point
from nearveil.errors import UsageError
from nearveil.evaluation.attack import AttackOutcome
from nearveil.report.attack_scene import Frame, Scene, certificate, frames_of, heading, length, scene_of
from nearveil.report.interactive_map import area, ground, lines, map_figure, marks
from nearveil.report.page import filled
from nearveil.report.style import ACCOUNT_COLOR, INK, POSSIBLE_COLOR, PUBLISHED_COLOR, TRUE_COLOR
from nearveil.types import FloatArray

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_MOST_DOTS = 4_000
_NOTEBOOK_LETTERS = 90


def attack_map(outcome: AttackOutcome) -> Figure:
    """Return a map of an attack with a slider over its queries. It shows true locations.

    Each step has where the attacker asked and had its accounts, what the answers so far leave possible, and a sentence;
    the last one has the estimate.

    Examples
    --------
    >>> import numpy as np
    >>> import nearveil as nv
    >>> points = np.random.default_rng(1).normal([37.75, -122.44], 0.02, (500, 2))
    >>> outcome = nv.attack(nv.simulate(points), target=17)
    >>> len(nv.attack_map(outcome).frames) == outcome.result.queries + 1
    True
    """
    if not outcome.result.trace.steps:
        raise UsageError("the attack asked nothing, so that there is nothing to show")
    scene = scene_of(outcome)
    figure, frames = _figure(scene), frames_of(scene)
    place = {"font_size": 13, "yref": "container", "y": 0.985, "yanchor": "top"}
    titles = [{"text": "<br>".join(textwrap.wrap(frame.text, _NOTEBOOK_LETTERS)), **place} for frame in frames]
    for frame, title in zip(figure.frames, titles, strict=True):
        frame.layout.title = title
    return figure.update_layout(title=titles[0], margin_t=140, height=800)


def write_player(scene: Scene, path: Path, *, title: str) -> None:
    """Write the page. Its source holds true locations as numbers."""
    figure, texts = _figure(scene), [frame.text for frame in frames_of(scene)]
    options: dict[str, Any] = {"full_html": False, "include_plotlyjs": True, "auto_play": False, "div_id": "attack"}
    config = {"responsive": True, "displaylogo": False, "scrollZoom": True}
    figure.update_layout(height=None, autosize=True)
    markup = figure.to_html(config=config, post_script=str(filled("player.js")), **options)
    summary = f"{title} · {certificate(scene)}"
    page = filled("player.html", title=heading(scene), summary=summary, texts=texts, markup=markup)
    path.write_text(page, encoding="utf-8")


def _figure(scene: Scene) -> Any:
    """Return the figure: what stays, what a query changes, and the frames of the changes."""
    from plotly.graph_objects import Frame as PlotlyFrame  # noqa: PLC0415

    frames = frames_of(scene)
    changes = [_changes(scene, frame) for frame in frames]
    users = "other users" + ("" if scene.published is None else ", as published")
    dots = marks(scene.from_user(scene.users(_MOST_DOTS)), users, "#777777", size=4, opacity=0.6)
    below, ends = [*ground(scene.region, scene.truth), dots], _ends(scene)
    *first, estimate = changes[0]
    traces = [*below, *first, *ends, estimate]
    figure = map_figure(traces, scene.from_user(frames[0].view.corners), "the user")
    changed = [*range(len(below), len(below) + len(first)), len(traces) - 1]
    figure.frames = [
        PlotlyFrame(name=str(number), data=data, traces=changed, layout=_window(scene, frame))
        for number, (frame, data) in enumerate(zip(frames, changes, strict=True))
    ]
    names = [*(str(frame.number) for frame in frames[:-1]), "result"]
    at_once = {"mode": "immediate", "transition": {"duration": 0}, "frame": {"duration": 0}}
    steps = [
        {"label": name, "method": "animate", "args": [[str(number)], at_once]} for number, name in enumerate(names)
    ]
    slider = {"steps": steps, "currentvalue": {"visible": False}, "x": 0, "len": 1, "y": -0.1}
    legend = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "itemclick": False, "itemdoubleclick": False}
    return figure.update_layout(sliders=[slider], legend=legend, margin_b=130)


def _window(scene: Scene, frame: Frame) -> dict[str, Any]:
    (west, south), (east, north) = scene.from_user(frame.view.corners).tolist()
    return {"xaxis": {"range": [west, east]}, "yaxis": {"range": [south, north]}}


def _ends(scene: Scene) -> list[Any]:
    """Return the user, the circle within which an estimate counts as found, and the published location."""
    around = _circle(scene, scene.truth, scene.tau_m)
    found: list[Any] = [
        lines([around], f"within {length(scene.tau_m)} of the user", TRUE_COLOR, line_dash="dash"),
        marks(scene.from_user(scene.truth), "user, true location", TRUE_COLOR, symbol="star", size=20),
    ]
    if scene.published is not None:
        both = scene.from_user([scene.truth, scene.published])
        found.insert(0, lines([both], "", PUBLISHED_COLOR, line_width=2, showlegend=False))
        found.append(marks(both[1], "published location", PUBLISHED_COLOR, symbol="diamond", size=15))
    return found


def _changes(scene: Scene, frame: Frame) -> list[Any]:
    """Return what a query changes, as equally many traces each time; those without points are not in the legend."""
    step, asked = frame.step, [step.place for step in scene.steps[: frame.number]]
    accounts = [] if step is None else list(step.accounts)
    around = [] if step is None else [_circle(scene, step.place, math.dist(step.place, each)) for each in accounts]
    circles = [_circle(scene, circle.centre, circle.radius_m) for circle in scene.circles_after(frame.number)]
    located = [] if step is not None else list(scene.result.others.values())
    estimate = [] if step is not None or scene.result.estimate is None else [scene.result.estimate]
    at = scene.from_user(asked)
    text = ["" if step is None or number < frame.number else str(number) for number in range(1, len(asked) + 1)]
    queries = marks(
        at, "queries", INK, size=10, textposition="top right", textfont={"size": 17, "weight": "bold", "shadow": "auto"}
    )
    return [
        area(_possible(scene, frame), "still possible", POSSIBLE_COLOR, opacity=0.45, line_width=1),
        lines(circles, "circle on which the user is", POSSIBLE_COLOR, line_width=3, showlegend=bool(circles)),
        lines(around, "as far as an account", ACCOUNT_COLOR, line_dash="dot", showlegend=bool(around)),
        marks(scene.from_user(located), "other users located", "#56B4E9", size=7, showlegend=bool(located)),
        marks(scene.from_user(accounts), "accounts of the attacker", ACCOUNT_COLOR, symbol="triangle-up", size=13),
        queries.update(mode="markers+text", text=text),
        marks(
            scene.from_user(estimate), "estimate of the attacker", INK, symbol="x", size=15, showlegend=bool(estimate)
        ),
    ]


def _possible(scene: Scene, frame: Frame) -> shapely.Geometry:
    """Return where the target can still be: the area that the attack tracks, or between two distances."""
    if frame.number and (tracked := scene.areas[frame.number - 1]) is not None:
        return tracked
    if frame.step is None or frame.ring_m is None or frame.ring_m[0] >= frame.ring_m[1]:
        return shapely.Polygon()
    low_m, high_m = frame.ring_m[0], min(frame.ring_m[1], 4 * frame.view.half_m)
    middle = shapely.Point(scene.from_user(frame.step.place)[0])
    return middle.buffer(max(low_m, high_m), 32) - middle.buffer(low_m, 32)


def _circle(scene: Scene, center: Point, radius_m: float) -> FloatArray:
    circle: FloatArray = shapely.get_coordinates(shapely.Point(scene.from_user(center)[0]).buffer(radius_m, 32))
    return circle
