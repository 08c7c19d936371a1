"""Interactive maps: people before and after protection, and an attack question by question.

They are figures of Plotly, which notebooks show as they are and ``write_html`` turns into one file. Land and water are
drawn from the package, so that no map needs tiles or a network.
"""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from nearveil.attacks.base import TraceStep
from nearveil.attacks.oracle import Spot
from nearveil.errors import DataError, UsageError
from nearveil.evaluation.attack import AttackOutcome
from nearveil.geodesy import as_points
from nearveil.region import Region, as_region, region_around
from nearveil.report.land import land_in
from nearveil.report.style import CIRCLE_COLOUR, COLLUDER_COLOUR, LIGHT, PUBLISHED_COLOUR, TRUE_COLOUR
from nearveil.types import FloatArray

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_MOST_DOTS = 5_000
_SIZE_PX = 640
_CLOSEST_KM = 0.5


def protection_map(before: object, after: object, *, region: Region | str | None = None) -> Figure:
    """Return a map of the same people before and after protection, row by row. It shows where people truly are.

    The buttons show either or both; with both, a line joins the two places of a person. Of more than 5,000 people every
    so many are shown.

    Parameters
    ----------
    before, after : array-like of shape (n, 2), or a frame
        Latitude and longitude, the same person in the same row.
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
    gaps = np.full(len(true), np.nan)
    moved = _lines(
        np.column_stack([true[:, 0], published[:, 0], gaps]).ravel(),
        np.column_stack([true[:, 1], published[:, 1], gaps]).ravel(),
        name="moved",
        colour=LIGHT.ink,
        opacity=0.25,
    )
    dots = [_dots(true, "before", TRUE_COLOUR), _dots(published, "after", PUBLISHED_COLOUR)]
    ground = _ground(box)
    shown = {"both": (True, True, True), "before": (False, True, False), "after": (False, False, True)}
    buttons = [
        {"label": label, "method": "restyle", "args": [{"visible": [*(True for _ in ground), *seen]}]}
        for label, seen in shown.items()
    ]
    figure = _figure([*ground, moved, *dots], box, "People before and after protection (true places: keep it private)")
    figure.update_layout(
        updatemenus=[
            {"type": "buttons", "direction": "right", "x": 0, "y": 1.06, "xanchor": "left", "buttons": buttons}
        ]
    )
    return figure


def attack_map(outcome: AttackOutcome) -> Figure:
    """Return a map of an attack with a slider over its questions. It shows where the person truly is, if that is known.

    Each step has where the attacker asked and had its accounts, and what the answers so far leave possible; the last
    one has the estimate.

    Examples
    --------
    >>> import numpy as np
    >>> import nearveil as nv
    >>> people = np.random.default_rng(1).normal([37.75, -122.44], 0.02, (500, 2))
    >>> outcome = nv.attack(nv.simulate(people), target=17)
    >>> len(nv.attack_map(outcome).layout.sliders[0].steps) == outcome.questions
    True
    """
    _require_plotly()
    box, steps = outcome.region, outcome.result.trace.steps
    if not steps:
        raise UsageError("the attack asked nothing, so that there is nothing to show")
    people = (
        np.empty((0, 2)) if outcome.people_m is None else outcome.people_m[:: len(outcome.people_m) // _MOST_DOTS + 1]
    )
    ends = [*_end("person", outcome.truth), *_end("published", outcome.published)]
    still = [*_ground(box), _dots(people / 1000, "people", LIGHT.shore, size=3), *ends]
    moving = [_step_traces(steps, number) for number in range(len(steps))]
    moving[-1] += _end("estimate", outcome.result.estimate)
    # All steps are in the figure, one of them visible: animated frames would begin to play when a page is opened.
    of_step = [number for number, traces in enumerate(moving) for _ in traces]
    drawn = [trace for traces in moving for trace in traces]
    for number, trace in zip(of_step, drawn, strict=True):
        trace.visible = number == 0
    title = f"{outcome.title or 'An attack'} (true places: keep it private)"
    figure = _figure([*still, *drawn], box, title)
    changed = [len(still) + place for place in range(len(drawn))]
    marks = [
        {
            "label": str(number + 1),
            "method": "update",
            "args": [
                {"visible": [number == other for other in of_step]},
                {"annotations": [_caption(steps, number)]},
                changed,
            ],
        }
        for number in range(len(steps))
    ]
    # Near enough to see the last questions apart; whoever wants the whole region zooms out.
    seen = (
        np.array([spot for spot in (outcome.truth, outcome.result.estimate) if spot] + [s.place for s in steps]) / 1000
    )
    middle, half = (seen.min(axis=0) + seen.max(axis=0)) / 2, max(0.6 * np.ptp(seen, axis=0).max(), _CLOSEST_KM)
    figure.update_layout(
        annotations=[_caption(steps, 0)],
        sliders=[{"steps": marks, "currentvalue": {"prefix": "question "}, "pad": {"t": 50}}],
        xaxis_range=[middle[0] - half, middle[0] + half],
        yaxis_range=[middle[1] - half, middle[1] + half],
    )
    return figure


_ENDS = {
    "person": (TRUE_COLOUR, "star"),
    "published": (PUBLISHED_COLOUR, "diamond"),
    "estimate": (LIGHT.ink, "x"),
}


def _end(name: str, spot: Spot | None) -> list[Any]:
    """A mark, where there is something to mark."""
    colour, symbol = _ENDS[name]
    return [] if spot is None else [_dots(np.array([spot]) / 1000, name, colour, symbol=symbol, size=13)]


def _step_traces(steps: tuple[TraceStep, ...], number: int) -> list[Any]:
    """What was known after a question: possible places, the accounts, and where all questions so far were asked."""
    step = steps[number]
    cells = next((each.cells for each in reversed(steps[: number + 1]) if each.cells is not None), np.empty((0, 3)))
    asked = np.array([each.place for each in steps[: number + 1]]) / 1000
    return [
        _boxes(cells / 1000),
        _dots(asked, "asked from", CIRCLE_COLOUR, size=8),
        _dots(_spots(step.colluders), "the attacker's accounts", COLLUDER_COLOUR, symbol="square", size=9),
    ]


def _caption(steps: tuple[TraceStep, ...], number: int) -> dict[str, Any]:
    step = steps[number]
    answer = step.answer or ("not in the list" if step.rank is None else f"number {step.rank} in the list")
    text = f"question {number + 1} of {len(steps)}: the person is {answer}"
    return {"text": text, "showarrow": False, "xref": "paper", "yref": "paper", "x": 0, "y": 1.04, "xanchor": "left"}


def _spots(spots: tuple[Spot, ...]) -> FloatArray:
    return np.array(spots, dtype=np.float64).reshape(-1, 2) / 1000


def _boxes(cells: FloatArray) -> Any:
    """One trace for all cells: corners of each, and a gap after it. Edges of the same colour close the seams."""
    x, y, half = (cells[:, [column]] for column in range(3))
    gap = np.full((len(cells), 1), np.nan)
    around = np.hstack([x - half, x + half, x + half, x - half, x - half, gap])
    along = np.hstack([y - half, y - half, y + half, y + half, y - half, gap])
    boxes = _lines(around.ravel(), along.ravel(), name="possible", colour=TRUE_COLOUR, opacity=0.35, fill="toself")
    return boxes.update(fillcolor=TRUE_COLOUR)


def _dots(places: FloatArray, name: str, colour: str, *, symbol: str = "circle", size: int = 5) -> Any:
    _require_plotly()
    from plotly.graph_objects import Scattergl  # noqa: PLC0415

    # Half as long in a file, and still exact to a centimetre.
    x, y = places.astype(np.float32).T
    marker = {"color": colour, "size": size, "symbol": symbol, "opacity": 0.7}
    return Scattergl(x=x, y=y, mode="markers", name=name, marker=marker)


def _lines(
    x: FloatArray, y: FloatArray, *, name: str | None, colour: str, opacity: float = 1.0, fill: str | None = None
) -> Any:
    _require_plotly()
    from plotly.graph_objects import Scatter  # noqa: PLC0415

    line = {"color": colour, "width": 1}
    x, y = x.astype(np.float32), y.astype(np.float32)
    return Scatter(x=x, y=y, mode="lines", name=name, line=line, opacity=opacity, fill=fill, hoverinfo="skip")


def _ground(region: Region) -> list[Any]:
    rings = [region.to_metres(ring) / 1000 for ring in land_in(region)]
    land = [
        _lines(ring[:, 0], ring[:, 1], name=None, colour=LIGHT.shore, fill="toself").update(
            fillcolor=LIGHT.land, showlegend=False
        )
        for ring in rings
    ]
    east, north = (extent / 1000 for extent in region.half_extent_m)
    around = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]]) * [east, north]
    edge = _lines(around[:, 0], around[:, 1], name=None, colour=LIGHT.ink)
    return [*land, edge.update(showlegend=False)]


def _figure(traces: list[Any], region: Region, title: str) -> Figure:
    from plotly.graph_objects import Figure  # noqa: PLC0415

    east, north = (1.02 * extent / 1000 for extent in region.half_extent_m)
    axis = {"showgrid": False, "zeroline": False, "constrain": "domain"}
    figure = Figure(traces)
    figure.update_layout(
        title=title,
        height=_SIZE_PX,
        plot_bgcolor=LIGHT.water,
        paper_bgcolor=LIGHT.page,
        font={"color": LIGHT.ink},
        dragmode="pan",
        margin={"l": 50, "r": 20, "t": 90, "b": 50},
        xaxis={**axis, "title": "km east", "range": [-east, east]},
        yaxis={**axis, "title": "km north", "range": [-north, north], "scaleanchor": "x"},
    )
    return figure


def _require_plotly() -> None:
    if find_spec("plotly") is None:
        raise UsageError(
            "an interactive map needs plotly, which is not installed; run pip install 'nearveil[notebook]'"
        )
