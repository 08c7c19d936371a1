"""One look for every picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl

from nearveil.mechanisms.registry import MECHANISMS

mpl.use("Agg")

# Okabe and Ito's palette, which people with any kind of colour vision can distinguish.
TRUE_COLOUR = "#0072B2"
PUBLISHED_COLOUR = "#D55E00"
DISC_COLOUR = "#999999"
COLLUDER_COLOUR = "#CC79A7"
CIRCLE_COLOUR = "#E69F00"
INK = "#222222"

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
    """Apply the house style to the figures made inside, in the colours of a theme if one is given."""
    with mpl.rc_context(_SETTINGS if theme is None else _SETTINGS | theme.settings):
        yield


def disc_handle(label: str, colour: str, *, dashes: str = "-") -> Any:
    """Return what stands for an outlined disc in a legend, to be drawn with `disc_handlers`."""
    from matplotlib.patches import Circle  # noqa: PLC0415

    return Circle((0, 0), fill=False, edgecolor=colour, linewidth=1.6, linestyle=dashes, label=label)


def disc_handlers() -> dict[type, Any]:
    """Return the ``handler_map`` of a legend that draws discs round; matplotlib's own makes rectangles of them."""
    from matplotlib.legend_handler import HandlerPatch  # noqa: PLC0415
    from matplotlib.patches import Circle  # noqa: PLC0415

    def round_one(*, xdescent: float, ydescent: float, width: float, height: float, **_: Any) -> Circle:
        return Circle((width / 2 - xdescent, height / 2 - ydescent), 0.62 * height)

    return {Circle: HandlerPatch(patch_func=round_one)}


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of a picture on a light or a dark page."""

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
            "svg.fonttype": "path",
            # A dollar is a dollar.
            "text.parse_math": False,
        }


# The dark colours are the same hues, lighter: each has a contrast of at least 4.5 to the dark panel.
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


@dataclass(frozen=True, slots=True)
class Look:
    """How a series is drawn: the name of its colour in a theme's palette, its marker and its dashes."""

    colour: str
    marker: str
    dashes: str


# What is the reader's own has the strongest contrast of all, on light and on dark.
OWN_LOOKS = (Look("ink", "D", "-"), Look("ink", "X", "--"), Look("ink", "P", "-."), Look("ink", "p", ":"))
_KNOWN = {
    # Mechanisms: those of the registry, and what the paper and figures call some of them.
    **{entry.label: Look(*entry.look) for entry in MECHANISMS.values() if entry.look is not None},
    "DPRS, Laplace": Look("blue", "o", "-"),
    "DPRS, Gaussian": Look("sky", "P", "--"),
    "2D Laplace": Look("purple", "v", ":"),
    # Releases and their centres: a solid line is the private grid, dashes are private k-means, dots public centres.
    "metric, private grid": Look("vermilion", "^", "-"),
    "metric, private k-means": Look("vermilion", "v", "--"),
    "interval, private grid": Look("blue", "s", "-"),
    "interval, Gaussian, private grid": Look("sky", "P", "-."),
    "interval, private k-means": Look("blue", "p", "--"),
    "paper, private k-means": Look("grey", "o", "--"),
    "paper, Gaussian, private k-means": Look("grey", "h", "-."),
    "interval, private grid, by centres": Look("green", "D", "-."),
    "paper, private grid": Look("grey", "D", "-"),
    "paper, public random centres": Look("ink", "X", ":"),
    # Hide among people, by where the cells are from.
    "among, PrivTree": Look("orange", "D", "--"),
    "among, published places": Look("sky", "D", "-"),
    "among, public data": Look("sky", "P", "-."),
    # Centres.
    "private k-means (the paper)": Look("grey", "o", "--"),
    "public random centres": Look("vermilion", "X", ":"),
    "private grid (ours)": Look("blue", "s", "-"),
    # Claims.
    "claimed": Look("ink", "", ":"),
    "the paper: RSM below": Look("ink", "", ":"),
    "paper, shown": Look("vermilion", "o", "-"),
    "interval, shown": Look("blue", "s", "--"),
    # Benchmarks.
    "time in proportion": Look("ink", "", ":"),
    # Plans.
    "the goal": Look("ink", "", "--"),
    "recommended": Look("vermilion", "*", ""),
    "nearest to the goal": Look("vermilion", "*", ""),
    # Attacks.
    "GI-LIA": Look("orange", "o", "--"),
    "ZO-LIA": Look("vermilion", "s", "-."),
    "adaptive, 1 account": Look("sky", "v", "-"),
    "adaptive, 4 accounts": Look("blue", "^", "-"),
    "unfolding": Look("green", "P", ":"),
    "adaptive attack, on one person": Look("vermilion", "o", ""),
    "Bayes attacker, from what is published": Look("blue", "D", ""),
    "campaign, for each of all people": Look("ink", "s", ""),
    # Epsilon, from cold to warm as less is hidden.
    "epsilon = 0.5": Look("blue", "o", "-"),
    "epsilon = 1": Look("sky", "s", "--"),
    "epsilon = 3": Look("orange", "^", "-."),
    "epsilon = 5": Look("vermilion", "v", ":"),
    # Populations.
    "brightkite": Look("blue", "o", "-"),
    "gowalla": Look("vermilion", "s", "--"),
    "gaussian": Look("green", "^", "-."),
    "beta": Look("purple", "v", ":"),
    # Samplers.
    "RSM": Look("blue", "o", "-"),
    "noise and resample": Look("vermilion", "s", "--"),
    "Nearveil's sampler": Look("green", "^", "-."),
}  # fmt: skip
_COLOURS = ("blue", "vermilion", "green", "purple", "orange", "sky", "grey", "ink")
_MARKERS = ("o", "s", "^", "v", "P", "X", "p", "h", "<")
_DASHES = ("-", "--", "-.", ":")
_SPARE = tuple(Look(_COLOURS[i % 8], _MARKERS[i % 9], _DASHES[i % 4]) for i in range(72))


def looks_of(labels: Iterable[str]) -> dict[str, Look]:
    """Return a look for each label: its own for a known one, else the first that is free.

    Examples
    --------
    >>> looks_of(["RSM", "mine"])["mine"]
    Look(colour='vermilion', marker='s', dashes='--')
    """
    names = list(dict.fromkeys(labels))
    looks = {name: _KNOWN[name] for name in names if name in _KNOWN}
    taken = {look.colour for look in looks.values()}
    # First unused colours, then any combination that differs.
    spare = [look for look in _SPARE if look.colour not in taken] + list(_SPARE)
    for name in names:
        if name not in looks:
            looks[name] = next((look for look in spare if look not in looks.values()), _SPARE[0])
    return {name: looks[name] for name in names}
