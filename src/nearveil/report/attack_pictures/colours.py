"""Colours of questions: light at first, dark at the end."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np


def shades(questions: int) -> list[str]:
    """A colour for each question; at least two, so that there is one where nothing was asked."""
    along = np.linspace(0.06, 0.94, max(questions, 2))
    return [mpl.colors.to_hex(colour) for colour in mpl.colormaps["viridis_r"](along)]


def tint(colour: str, share: float) -> str:
    """A colour mixed with white."""
    red, green, blue = (1 - share * (1 - part) for part in mpl.colors.to_rgb(colour))
    return mpl.colors.to_hex((red, green, blue))


def ink_on(colour: str) -> str:
    """White or black, whichever can be read on a colour."""
    red, green, blue = mpl.colors.to_rgb(colour)
    return "white" if 0.3 * red + 0.6 * green + 0.1 * blue < 0.55 else "black"
