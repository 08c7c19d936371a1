"""Interactive maps: users before and after protection, and an attack query by query.

They are figures of Plotly, which notebooks show as they are and ``write_html`` turns into one file. Land and water are
drawn from the package, so that no map needs tiles or a network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from nearveil.attacks.base import TraceStep
from nearveil.attacks.oracle import Point
from nearveil.errors import DataError, UsageError
from nearveil.evaluation.attack import AttackOutcome
from nearveil.points import as_points
from nearveil.region import Region, as_region, region_around
from nearveil.report.land import land_in
from nearveil.report.style import ACCOUNT_COLOUR, CIRCLE_COLOUR, LIGHT, PUBLISHED_COLOUR, TRUE_COLOUR
from nearveil.types import FloatArray

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_MOST_DOTS = 5_000
_SIZE_PX = 640
_CLOSEST_KM = 0.5
_ENDS = {
    "person": (TRUE_COLOUR, "star"),
    "published": (PUBLISHED_COLOUR, "diamond"),
    "estimate": (LIGHT.ink, "x"),
}


def protection_map(before: object, after: object, *, region: Region | str | None = None) -> Figure:
    """Return a map of the same users before and after protection, row by row. It shows where people truly are.

    The buttons show either or both; with both, a line joins the two locations of a user. Of more than 5,000 users every
    so many are shown.

    Parameters
    ----------
    before, after : array-like of shape (n, 2), or a frame
        Latitude and longitude, the same user in the same row.
    region : Region or str, optional
        What the map shows; by default a box around both.

    Examples
    --------
    >>> import numpy as np
    >>> import nearveil as nv
    >>> people = np.random.default_rng(1).normal([37.75, -122.44], 0.02, (100, 2))
    >>> figure = nv.protection_map(people, nv.PlanarLaplace().perturb(people))
    >>> [trace.name for trace in figure.data if trace.name]
    ['moved', 'before', 'after']
    """
    places = [as_points(before), as_points(after)]
    box = region_around(np.vstack(places)) if region is None else as_region(region)
    true, published = (box.to_metres(each) / 1000 for each in places)
    if len(true) != len(published):
        raise DataError(f"{len(true):,} places before and {len(published):,} after: give one of each for every person")
    every = math.ceil(len(true) / _MOST_DOTS) or 1
    true, published = true[::every], published[::every]
    moved = _lines(np.stack([true, published], axis=1), name="moved", colour=LIGHT.ink, opacity=0.25)
    dots = [_dots(true, "before", TRUE_COLOUR), _dots(published, "after", PUBLISHED_COLOUR)]
    ground = _ground(box)
    shown = {"both": (True, True, True), "before": (False, True, False), "after": (False, False, True)}
    buttons = [
        {"label": label, "method": "restyle", "args": [{"visible": [*(True for _ in ground), *seen]}]}
        for label, seen in shown.items()
    ]
    menu = {"type": "buttons", "direction": "right", "x": 0, "y": 1.06, "xanchor": "left", "buttons": buttons}
    figure = _figure([*ground, moved, *dots], box, "People before and after protection")
    return figure.update_layout(updatemenus=[menu])


def attack_map(outcome: AttackOutcome) -> Figure:
    """Return a map of an attack with a slider over its queries. It shows where the person truly is, if that is known.

    Each step has where the attacker asked and had its accounts, and what the answers so far leave possible; the last
    one has the estimate.

    Examples
    --------
    >>> import numpy as np
    >>> import nearveil as nv
    >>> people = np.random.default_rng(1).normal([37.75, -122.44], 0.02, (500, 2))
    >>> outcome = nv.attack(nv.simulate(people), target=17)
    >>> len(nv.attack_map(outcome).layout.sliders[0].steps) == outcome.queries
    True
    """
    box, steps, estimate = outcome.region, outcome.result.trace.steps, outcome.result.estimate
    if not steps:
        raise UsageError("the attack asked nothing, so that there is nothing to show")
    people = np.empty((0, 2)) if outcome.people_m is None else outcome.people_m
    crowd = _dots(people[:: len(people) // _MOST_DOTS + 1] / 1000, "people", LIGHT.shore, size=3)
    still = [*_ground(box), crowd, *_end("person", outcome.truth), *_end("published", outcome.published)]
    moving = [_step_traces(steps, number) for number in range(len(steps))]
    moving[-1] += _end("estimate", estimate)
    # All steps are in the figure, one of them visible: animated frames would begin to play when a page is opened.
    of_step = [number for number, traces in enumerate(moving) for _ in traces]
    drawn = [trace for traces in moving for trace in traces]
    for number, trace in zip(of_step, drawn, strict=True):
        trace.visible = number == 0
    changed = list(range(len(still), len(still) + len(drawn)))
    marks = []
    for number in range(len(steps)):
        changes = {"visible": [number == other for other in of_step]}, {"annotations": [_caption(steps, number)]}
        marks.append({"label": str(number + 1), "method": "update", "args": [*changes, changed]})
    # Near enough to see the last queries apart; a reader who wants the whole region zooms out.
    seen = np.array([spot for spot in (outcome.truth, estimate) if spot] + [step.place for step in steps]) / 1000
    middle, half = (seen.min(axis=0) + seen.max(axis=0)) / 2, max(0.6 * np.ptp(seen, axis=0).max(), _CLOSEST_KM)
    return _figure([*still, *drawn], box, outcome.title or "An attack").update_layout(
        annotations=[_caption(steps, 0)],
        sliders=[{"steps": marks, "currentvalue": {"prefix": "question "}, "pad": {"t": 50}}],
        xaxis_range=[middle[0] - half, middle[0] + half],
        yaxis_range=[middle[1] - half, middle[1] + half],
    )


def _end(name: str, spot: Point | None) -> list[Any]:
    """Return a mark, where there is something to mark."""
    colour, symbol = _ENDS[name]
    return [] if spot is None else [_dots(np.array([spot]) / 1000, name, colour, symbol=symbol, size=13)]


def _step_traces(steps: Sequence[TraceStep], number: int) -> list[Any]:
    """Return what was known after a query: possible locations, the accounts, and where all queries were asked."""
    cells = next((each.cells for each in reversed(steps[: number + 1]) if each.cells is not None), np.empty((0, 3)))
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]])
    boxes = (cells[:, None, :2] + corners * cells[:, None, 2:]) / 1000
    accounts = np.array(steps[number].accounts, dtype=np.float64).reshape(-1, 2) / 1000
    # Edges of the same color close the seams.
    possible = _lines(boxes, name="possible", colour=TRUE_COLOUR, opacity=0.35, fill=TRUE_COLOUR)
    asked = _dots(np.array([each.place for each in steps[: number + 1]]) / 1000, "asked from", CIRCLE_COLOUR, size=8)
    return [possible, asked, _dots(accounts, "the attacker's accounts", ACCOUNT_COLOUR, symbol="square", size=9)]


def _caption(steps: Sequence[TraceStep], number: int) -> dict[str, Any]:
    step = steps[number]
    answer = step.answer or ("not in the list" if step.rank is None else f"number {step.rank} in the list")
    text = f"question {number + 1} of {len(steps)}: the person is {answer}"
    return {"text": text, "showarrow": False, "xref": "paper", "yref": "paper", "x": 0, "y": 1.04, "xanchor": "left"}


def _dots(places: FloatArray, name: str, colour: str, *, symbol: str = "circle", size: int = 5) -> Any:
    # Half as long in a file, and still exact to a centimeter.
    x, y = places.astype(np.float32).T
    marker = {"color": colour, "size": size, "symbol": symbol, "opacity": 0.7}
    return _plotly().Scattergl(x=x, y=y, mode="markers", name=name, marker=marker)


def _lines(
    paths: FloatArray, *, name: str | None, colour: str, opacity: float = 1.0, fill: str | None = None
) -> Any:  # fmt: skip
    """Return one trace for paths of equally many points, with a gap after each; without a name not in the legend."""
    gaps = np.full((len(paths), 1, 2), np.nan)
    x, y = np.concatenate([paths, gaps], axis=1).reshape(-1, 2).astype(np.float32).T
    area = {} if fill is None else {"fill": "toself", "fillcolor": fill}
    style = {"line": {"color": colour, "width": 1}, "opacity": opacity, "showlegend": name is not None, **area}
    return _plotly().Scatter(x=x, y=y, mode="lines", name=name, hoverinfo="skip", **style)


def _ground(region: Region) -> list[Any]:
    rings = [region.to_metres(ring)[None] / 1000 for ring in land_in(region)]
    around = np.array([[[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]]]) * np.array(region.half_extent_m) / 1000
    land = [_lines(ring, name=None, colour=LIGHT.shore, fill=LIGHT.land) for ring in rings]
    return [*land, _lines(around, name=None, colour=LIGHT.ink)]


def _figure(traces: list[Any], region: Region, title: str) -> Any:
    east, north = (1.02 * extent / 1000 for extent in region.half_extent_m)
    axis = {"showgrid": False, "zeroline": False, "constrain": "domain"}
    return (
        _plotly()
        .Figure(traces)
        .update_layout(
            title=f"{title} (true places: keep it private)",
            height=_SIZE_PX,
            plot_bgcolor=LIGHT.water,
            paper_bgcolor=LIGHT.page,
            font={"color": LIGHT.ink},
            dragmode="pan",
            margin={"l": 50, "r": 20, "t": 90, "b": 50},
            xaxis={**axis, "title": "km east", "range": [-east, east]},
            yaxis={**axis, "title": "km north", "range": [-north, north], "scaleanchor": "x"},
        )
    )


def _plotly() -> Any:
    if find_spec("plotly") is None:
        raise UsageError(
            "an interactive map needs plotly, which is not installed; run pip install 'nearveil[research]'"
        )
    return import_module("plotly.graph_objects")
