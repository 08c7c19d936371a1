"""Looks: the same for a label everywhere, told apart by anybody, and readable on light and dark."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from nearveil.report.style import DARK, LIGHT, Theme, looks_of


def test_a_label_looks_the_same_everywhere() -> None:
    alone, among = looks_of(["SRR"]), looks_of(["new", "DPRS", "SRR", "newer"])
    assert alone["SRR"] == among["SRR"]
    assert list(among) == ["new", "DPRS", "SRR", "newer"]
    assert looks_of(["new", "DPRS", "SRR", "newer"]) == among
    many = looks_of([f"label {number}" for number in range(40)])
    assert len(set(many.values())) == 40


@pytest.mark.parametrize(
    "family",
    [
        ["DPRS", "DPRS, Gaussian", "SRR", "Square", "2D Laplace", "per-axis Laplace", "planar Laplace"],
        [
            "metric, private grid", "metric, private k-means", "interval, private grid", "interval, private k-means",
            "interval, Gaussian, private grid", "paper, private k-means", "paper, Gaussian, private k-means",
            "paper, public random centres", "planar Laplace", "per-axis Laplace", "SRR", "Square",
        ],
        ["GI-LIA", "ZO-LIA", "adaptive, 1 account", "adaptive, 4 accounts", "unfolding"],
        ["epsilon = 0.5", "epsilon = 1", "epsilon = 3", "epsilon = 5"],
        ["brightkite", "gowalla", "gaussian", "beta"],
        ["RSM", "noise and resample", "Nearveil's sampler"],
    ],
)  # fmt: skip
def test_those_who_meet_differ_in_shape_and_not_in_colour_only(family: list[str]) -> None:
    looks = looks_of(family).values()
    assert len({(look.marker, look.dashes) for look in looks}) == len(family)
    assert len({(look.colour, look.marker) for look in looks}) == len(family)


@pytest.mark.parametrize("release", ["metric", "interval", "paper"])
def test_a_line_style_means_the_same_centres_for_every_release(release: str) -> None:
    looks = looks_of([f"{release}, private grid", f"{release}, private k-means"])
    assert [look.dashes for look in looks.values()] == ["-", "--"]
    centres = looks_of(["private grid (ours)", "private k-means (the paper)"])
    assert [look.dashes for look in centres.values()] == ["-", "--"]


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
