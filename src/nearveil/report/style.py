"""One look for every picture."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import matplotlib as mpl
import numpy as np

from nearveil.evaluation.stats import Estimate, Mean, Share
from nearveil.mechanisms.registry import MECHANISMS
from nearveil.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

mpl.use("Agg")

_DOTS_PER_INCH = 150


@dataclass(frozen=True, slots=True)
class Theme:
    """Colors of a picture on a light or a dark page."""

    page: str
    panel: str
    ink: str
    soft: str
    grid: str
    land: str
    water: str
    shore: str
    palette: Mapping[str, str]


# Okabe and Ito's palette, which people with any kind of color vision can distinguish. The dark colors are the same
# hues, lighter: each has a contrast of at least 4.5 to the dark panel.
LIGHT = Theme(
    page="#FFFFFF", panel="#FAFAFA", ink="#222222", soft="#777777", grid="#E2E2E2",
    land="#EFEDE6", water="#DCE8F0", shore="#A9B4BA",
    palette={
        "blue": "#0072B2", "vermilion": "#D55E00", "green": "#009E73", "purple": "#CC79A7",
        "orange": "#E69F00", "sky": "#56B4E9", "grey": "#777777", "ink": "#222222",
    },
)  # fmt: skip
DARK = Theme(
    page="#14171C", panel="#1B1F26", ink="#E6E8EB", soft="#8B929C", grid="#2F353E",
    land="#2A2F36", water="#161C26", shore="#4A535E",
    palette={
        "blue": "#4C9BE8", "vermilion": "#F4793B", "green": "#2CC295", "purple": "#E193C2",
        "orange": "#F0B541", "sky": "#93D3F7", "grey": "#A4ABB5", "ink": "#E6E8EB",
    },
)  # fmt: skip
PALETTE = LIGHT.palette
"""Colors by name. A report shows figures in those of `LIGHT`, and replaces them by those of `DARK` on a dark page."""
TRUE_COLOUR, PUBLISHED_COLOUR = PALETTE["blue"], PALETTE["vermilion"]
ACCOUNT_COLOUR, CIRCLE_COLOUR = PALETTE["purple"], PALETTE["orange"]
DISC_COLOUR, INK = "#999999", LIGHT.ink


@contextmanager
def house_style(theme: Theme = LIGHT) -> Iterator[None]:
    """Apply the house style to the figures made inside, in the colors of a theme."""
    words = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), theme.ink)
    lines = dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), theme.soft)
    surfaces = dict.fromkeys(("figure.facecolor", "savefig.facecolor"), theme.page)
    settings: dict[Any, Any] = {
        **words,
        **lines,
        **surfaces,
        "axes.facecolor": theme.panel,
        "grid.color": theme.grid,
        "figure.dpi": 110,
        "savefig.dpi": 110,
        "font.size": 10,
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "axes.linewidth": 0.8,
        # The same data gives the same bytes, words stay words, and a dollar is a dollar.
        "svg.hashsalt": "nearveil",
        "svg.fonttype": "none",
        "text.parse_math": False,
    }
    with mpl.rc_context(settings):
        yield


def disc_handle(label: str, color: str, *, dashes: str = "-") -> Any:
    """Return what stands for an outlined disc in a legend, to be drawn with `disc_handlers`."""
    from matplotlib.patches import Circle  # noqa: PLC0415

    return Circle((0, 0), fill=False, edgecolor=color, linewidth=1.6, linestyle=dashes, label=label)


def disc_handlers() -> dict[type, Any]:
    """Return the ``handler_map`` of a legend that draws discs round; matplotlib's own makes rectangles of them."""
    from matplotlib.legend_handler import HandlerPatch  # noqa: PLC0415
    from matplotlib.patches import Circle  # noqa: PLC0415

    def round_one(*, xdescent: float, ydescent: float, width: float, height: float, **_: Any) -> Circle:
        return Circle((width / 2 - xdescent, height / 2 - ydescent), 0.62 * height)

    return {Circle: HandlerPatch(patch_func=round_one)}


class Look(NamedTuple):
    """How a series is drawn: the name of its color in a theme's palette, its marker and its dashes."""

    color: str
    marker: str
    dashes: str


_COLORS = ("blue", "vermilion", "green", "purple", "orange", "sky", "grey", "ink")
_MARKERS = ("o", "s", "^", "v", "P", "X", "p", "h", "<")
_DASHES = ("-", "--", "-.", ":")
# 72 that differ: 8 and 9 have no common divisor.
_SERIES = tuple(Look(_COLORS[i % 8], _MARKERS[i % 9], _DASHES[i % 4]) for i in range(72))


def _series(*labels: str) -> dict[str, Look]:
    return dict(zip(labels, _SERIES, strict=False))


_KNOWN = {
    # Mechanisms: those of the registry, and what the paper and the frontier call some of them.
    **{entry.label: Look(*entry.look) for entry in MECHANISMS.values() if entry.look is not None},
    "2D Laplace": Look("purple", "v", ":"),
    "DPRS, Gaussian": Look("sky", "P", "--"),
    "DPRS, metric": Look("blue", "P", "--"),
    "DPRS, interval": Look("blue", "o", "-"),
    "DPRS, the paper's": Look("blue", "X", ":"),
    "among, published locations": Look("sky", "D", "-"),
    **_series("adaptive, 1 account", "ZO-LIA", "adaptive, 4 accounts", "GI-LIA"),
    # Readings of Table 3.
    **_series(
        "Nearveil",
        "as printed",
        "kept",
        "kept, noise of scale 1/epsilon",
        "clipped",
        "redrawn",
        "as printed, noise of scale 1/epsilon",
    ),
    "the paper": Look("ink", "D", "-"),
    # Epsilon, from cold to warm as less is hidden.
    "epsilon = 0.5": Look("blue", "o", "-"),
    "epsilon = 1": Look("sky", "s", "--"),
    "epsilon = 3": Look("orange", "^", "-."),
    "epsilon = 5": Look("vermilion", "v", ":"),
    **_series("brightkite", "gowalla", "gaussian", "beta"),
    **_series("RSM", "noise and resample", "Nearveil's sampler"),
}
_free_looks = cycle(look for look in _SERIES if look not in _KNOWN.values())


@cache
def look_of(label: str) -> Look:
    """Return color (as hexadecimal), marker and line style of a series, the same wherever its label occurs.

    Examples
    --------
    >>> look_of("RSM")
    Look(color='#0072B2', marker='o', dashes='-')
    """
    name, marker, dashes = _KNOWN.get(label) or next(_free_looks)
    return Look(PALETTE[name], marker, dashes)


def panels(count: int, *, columns: int, height: float = 2.7, width: float = 10.0) -> tuple[Figure, list[Axes]]:
    """Return a figure ``width`` inches wide with panels in rows of so many ``columns``, each ``height`` inches high."""
    # Heavy, and only needed where a picture is drawn.
    from matplotlib.figure import Figure  # noqa: PLC0415

    rows = math.ceil(count / columns)
    figure = Figure((width, height * rows + 0.4), layout="constrained")
    grid = figure.subplots(rows, min(columns, count), squeeze=False)
    for axes in grid.flat:
        axes.grid(linewidth=0.7)
        axes.set_axisbelow(True)
    for axes in grid.flat[count:]:
        axes.set_visible(False)
    return figure, list(grid.flat[:count])


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
    """Label logarithmic axes with plain numbers, and with more than powers of ten where these are few."""
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415

    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) if axis.get_scale() == "log"):
        low, high = sorted(axis.get_view_interval())
        if sum(low <= tick <= high for tick in axis.get_majorticklocs()) < 2:
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:,g}")
        axis.set_minor_formatter(NullFormatter())


def save_png(figure: Figure, path: Path | BinaryIO) -> None:
    """Write a figure; the same figure gives the same bytes."""
    figure.savefig(path, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})


def add_legend(figure: Figure, *, columns: int = 5) -> None:
    """Put one legend below all panels, with each label once."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        figure.legend(
            found.values(), found.keys(), loc="outside lower center", ncols=min(columns, len(found)), frameon=False
        )
