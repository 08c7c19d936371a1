"""Looks: the same for a label everywhere, told apart by anybody, and readable on light and dark."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from nearveil.report.style import DARK, LIGHT, Theme


def contrast(one: str, other: str) -> float:
    """As the Web Content Accessibility Guidelines have it."""

    def luminance(colour: str) -> float:
        parts = np.array(to_rgb(colour))
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_ink_can_be_read(theme: Theme) -> None:
    assert min(contrast(theme.ink, ground) for ground in (theme.page, theme.panel, theme.land, theme.water)) > 7
    assert LIGHT.palette.keys() == DARK.palette.keys()
    if theme is DARK:
        assert min(contrast(colour, theme.panel) for colour in theme.palette.values()) > 4.5
