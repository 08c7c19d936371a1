"""One look for every picture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

# Okabe and Ito's palette, told apart with any kind of colour vision.
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
def house_style() -> Iterator[None]:
    """Apply the house style to the figures made inside."""
    with mpl.rc_context(_SETTINGS):
        yield
