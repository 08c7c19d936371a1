"""One look for every picture."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO

import matplotlib as mpl
import numpy as np

from nearveil.evaluation.stats import Estimate, Mean, Share
from nearveil.mechanisms.registry import MECHANISMS
from nearveil.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_DOTS_PER_INCH = 150


# Okabe and Ito's palette, which people with any kind of color vision can distinguish.
PALETTE = {
    "blue": "#0072B2", "vermilion": "#D55E00", "green": "#009E73", "purple": "#CC79A7",
    "orange": "#E69F00", "sky": "#56B4E9", "grey": "#777777", "ink": "#222222",
}  # fmt: skip
LIGHT = SimpleNamespace(
    page="#FFFFFF", panel="#FAFAFA", ink=PALETTE["ink"], soft=PALETTE["grey"], grid="#E2E2E2",
    land="#EFEDE6", water="#DCE8F0", shore="#A9B4BA", palette=PALETTE,
)  # fmt: skip
TRUE_COLOR, PUBLISHED_COLOR = PALETTE["blue"], PALETTE["vermilion"]
ACCOUNT_COLOR, POSSIBLE_COLOR = PALETTE["purple"], PALETTE["orange"]
DISC_COLOR, INK = "#999999", PALETTE["ink"]


@contextmanager
def house_style() -> Iterator[None]:
    """Apply the house style to the figures made inside."""
    settings: dict[Any, Any] = {
        **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), LIGHT.ink),
        **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), LIGHT.soft),
        "axes.facecolor": LIGHT.panel,
        "axes.axisbelow": True,
        "grid.color": LIGHT.grid,
        "grid.linewidth": 0.7,
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "figure.titleweight": "bold",
        "legend.frameon": False,
        # A dollar is a dollar.
        "text.parse_math": False,
    }
    with mpl.rc_context(settings):
        yield


Look = tuple[str, str, str]
"""How a series is drawn: its color, its marker and its dashes."""

_OWN: dict[str, Look] = {entry.label: entry.look for entry in MECHANISMS.values() if entry.look is not None}
# 72 that differ: 8 and 9 have no common divisor.
_MARKERS, _DASHES = "os^vPXph<", ("-", "--", "-.", ":")
_SERIES = [(list(PALETTE)[number % 8], _MARKERS[number % 9], _DASHES[number % 4]) for number in range(72)]
_free_looks = cycle(look for look in _SERIES if look not in _OWN.values())


@cache
def look_of(label: str) -> Look:
    """Return the look of a series, the same wherever its label occurs; its color is hexadecimal.

    Examples
    --------
    >>> look_of("DPRS")
    ('#0072B2', 'o', '-')
    """
    color, marker, dashes = _OWN.get(label) or next(_free_looks)
    return PALETTE[color], marker, dashes


def panels(count: int, *, columns: int, height: float = 2.7, width: float = 10.0) -> tuple[Figure, list[Axes]]:
    """Return a figure ``width`` inches wide with panels in rows of so many ``columns``, each ``height`` inches high."""
    # Heavy, and only needed where a picture is drawn.
    from matplotlib.figure import Figure  # noqa: PLC0415

    rows = math.ceil(count / columns)
    figure = Figure((width, height * rows + 0.4), layout="constrained")
    all_axes = [figure.add_subplot(rows, min(columns, count), number + 1) for number in range(count)]
    for axes in all_axes:
        axes.grid()
    return figure, all_axes


def plot_estimates(
    axes: Axes, x: Iterable[float | Estimate], estimates: Iterable[float | Estimate], *, label: str,
    paper: bool = False, **options: Any,
) -> Line2D:  # fmt: skip
    """Plot values with their intervals, along x too where that was measured, in the look of the label.

    The values of a ``paper`` are hollow diamonds in the same color, joined by nothing, and named with "(paper)" in the
    legend. ``options`` are for matplotlib's ``errorbar``, in place of what the look says.
    """
    color, marker, dashes = look_of(label)
    look: dict[str, Any] = {"marker": marker, "linestyle": dashes}
    if paper:
        look = {"marker": "D", "linestyle": "none", "fillstyle": "none"}
    settings: dict[str, Any] = {"color": color, "markersize": 6, "linewidth": 1.5, "elinewidth": 1.0, "capsize": 2.5}
    (across, xerr), (up, yerr) = _intervals(list(x)), _intervals(list(estimates))
    name = f"{label} (paper)" if paper else label
    drawn = axes.errorbar(across, up, xerr=xerr, yerr=yerr, label=name, **settings | look | options)
    line: Line2D = drawn[0]
    return line


def _intervals(estimates: Sequence[float | Estimate]) -> tuple[FloatArray, FloatArray | None]:
    """Return values, and how far each interval reaches below and above: not a number where one has none."""
    values = np.array([one.value if isinstance(one, Mean | Share) else one for one in estimates], dtype=np.float64)
    ends = [[getattr(one, "low", None), getattr(one, "high", None)] for one in estimates]
    reach = np.abs(np.array(ends, dtype=np.float64).T - values)
    return values, reach if np.isfinite(reach).any() else None


def plain_ticks(figure: Figure) -> None:
    """Label logarithmic axes with plain numbers: powers of ten, and 2 and 5 times these where they are few."""
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415

    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) if axis.get_scale() == "log"):
        low, high = sorted(axis.get_view_interval())
        if high < 300 * low and isinstance(axis.get_major_locator(), LogLocator):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:,g}")
        axis.set_minor_formatter(NullFormatter())


def save_png(figure: Figure, path: Path | BinaryIO) -> None:
    """Write a figure; the same figure gives the same bytes."""
    figure.savefig(path, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})


def add_legend(figure: Figure, *, columns: int = 5, title: str | None = None) -> None:
    """Put one legend below all panels, with each label once, and ``title`` above it."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        place: dict[str, Any] = {"loc": "outside lower center", "ncols": min(columns, len(found)), "title": title}
        figure.legend(found.values(), found.keys(), **place)
