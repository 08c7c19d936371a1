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

from nearveil.evaluation.stats import Estimate, Mean, Share
from nearveil.mechanisms.registry import MECHANISMS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

mpl.use("Agg")

# Okabe and Ito's palette, which people with any kind of color vision can distinguish.
TRUE_COLOUR = "#0072B2"
PUBLISHED_COLOUR = "#D55E00"
DISC_COLOUR = "#999999"
COLLUDER_COLOUR = "#CC79A7"
CIRCLE_COLOUR = "#E69F00"
INK = "#222222"

_DOTS_PER_INCH = 150
_SETTINGS: dict[Any, Any] = {
    "figure.dpi": 110,
    "savefig.dpi": 110,
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.edgecolor": "#777777",
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "text.color": INK,
    "figure.facecolor": "white",
    "axes.facecolor": "#FAFAFA",
}


@contextmanager
def house_style(theme: Theme | None = None) -> Iterator[None]:
    """Apply the house style to the figures made inside, in the colors of a theme if one is given."""
    with mpl.rc_context(_SETTINGS if theme is None else _SETTINGS | theme.settings):
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

    @property
    def settings(self) -> dict[Any, Any]:
        """For matplotlib; the same data gives the same bytes."""
        words = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), self.ink)
        lines = dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), self.soft)
        surfaces = {"figure.facecolor": self.page, "savefig.facecolor": self.page, "axes.facecolor": self.panel}
        return {
            **words,
            **lines,
            **surfaces,
            "grid.color": self.grid,
            "svg.hashsalt": "nearveil",
            "svg.fonttype": "none",
            # A dollar is a dollar.
            "text.parse_math": False,
        }


# The dark colors are the same hues, lighter: each has a contrast of at least 4.5 to the dark panel.
LIGHT = Theme(
    page="#FFFFFF", panel="#FAFAFA", ink=INK, soft="#777777", grid="#E2E2E2",
    land="#EFEDE6", water="#DCE8F0", shore="#A9B4BA",
    palette={
        "blue": TRUE_COLOUR, "vermilion": PUBLISHED_COLOUR, "green": "#009E73", "purple": COLLUDER_COLOUR,
        "orange": CIRCLE_COLOUR, "sky": "#56B4E9", "grey": "#777777", "ink": INK,
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


class Look(NamedTuple):
    """How a series is drawn: the name of its color in a theme's palette, its marker and its dashes."""

    color: str
    marker: str
    dashes: str


_KNOWN = {
    # Mechanisms: those of the registry, and what the paper calls some of them.
    **{entry.label: Look(*entry.look) for entry in MECHANISMS.values() if entry.look is not None},
    "DPRS, Gaussian": Look("sky", "P", "--"),
    "2D Laplace": Look("purple", "v", ":"),
    # Releases of DPRS have a color, and ways to hide among users have one each.
    "DPRS, metric": Look("blue", "P", "--"),
    "DPRS, interval": Look("blue", "o", "-"),
    "DPRS, the paper's": Look("blue", "X", ":"),
    "among, published locations": Look("sky", "D", "-"),
    "GI-LIA": Look("orange", "o", "--"),
    "ZO-LIA": Look("vermilion", "s", "-."),
    "adaptive, 1 account": Look("blue", "D", "-"),
    "adaptive, 4 accounts": Look("green", "P", ":"),
    # Readings of Table 3.
    "the paper": Look("ink", "D", "-"),
    "Nearveil: redrawn": Look("blue", "o", "-"),
    "redrawn": Look("sky", "s", "--"),
    "kept": Look("green", "^", "-."),
    "clipped": Look("orange", "v", ":"),
    "as printed": Look("vermilion", "P", "--"),
    "kept, noise of scale 1/epsilon": Look("purple", "X", "-."),
    # Epsilon, from cold to warm as less is hidden.
    "epsilon = 0.5": Look("blue", "o", "-"),
    "epsilon = 1": Look("sky", "s", "--"),
    "epsilon = 3": Look("orange", "^", "-."),
    "epsilon = 5": Look("vermilion", "v", ":"),
    "brightkite": Look("blue", "o", "-"),
    "gowalla": Look("vermilion", "s", "--"),
    "gaussian": Look("green", "^", "-."),
    "beta": Look("purple", "v", ":"),
    "RSM": Look("blue", "o", "-"),
    "noise and resample": Look("vermilion", "s", "--"),
    "Nearveil's sampler": Look("green", "^", "-."),
    "recommended": Look("vermilion", "*", ""),
}
_COLORS = ("blue", "vermilion", "green", "purple", "orange", "sky", "grey", "ink")
_MARKERS = ("o", "s", "^", "v", "P", "X", "p", "h", "<")
_DASHES = ("-", "--", "-.", ":")
# 72 that differ: 8 and 9 have no common divisor.
_SPARE = tuple(Look(_COLORS[i % 8], _MARKERS[i % 9], _DASHES[i % 4]) for i in range(72))
_free_looks = cycle(look for look in _SPARE if look not in _KNOWN.values())


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
    axes: Axes,
    x: Iterable[float | Estimate],
    estimates: Iterable[float | Estimate],
    *,
    label: str,
    paper: bool = False,
    **options: Any,
) -> Line2D:
    """Plot values with their intervals, along x too where that was measured, in the look of the label.

    Parameters
    ----------
    paper : bool
        Whether these are the paper's values: hollow diamonds in the same color, joined by nothing, and named with
        "(paper)" in the legend.
    **options
        For matplotlib's ``errorbar``, in place of what the look says.
    """
    color, marker, dashes = look_of(label)
    horizontal, vertical = list(x), list(estimates)
    look = {"marker": "D", "linestyle": "none", "fillstyle": "none"} if paper else {
        "marker": marker or "none", "linestyle": dashes or "none"
    }  # fmt: skip
    settings: dict[str, Any] = (
        {"color": color, "markersize": 6, "linewidth": 1.5, "elinewidth": 1.0, "capsize": 2.5} | look | options
    )
    drawn = axes.errorbar(
        [_value(one) for one in horizontal],
        [_value(one) for one in vertical],
        xerr=_intervals(horizontal),
        yerr=_intervals(vertical),
        label=f"{label} (paper)" if paper else label,
        **settings,
    )
    line: Line2D = drawn[0]
    return line


def _value(one: float | Estimate) -> float:
    return one.value if isinstance(one, Mean | Share) else float(one)


def _intervals(estimates: Sequence[float | Estimate]) -> tuple[list[float], list[float]] | None:
    """Return how far each interval reaches below and above; nought where a value has none."""
    if all(getattr(one, "low", None) is None for one in estimates):
        return None
    pairs = [(_value(one), getattr(one, "low", None), getattr(one, "high", None)) for one in estimates]
    below = [0.0 if low is None else value - low for value, low, _ in pairs]
    above = [0.0 if high is None else high - value for value, _, high in pairs]
    return below, above


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
