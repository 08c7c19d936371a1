"""Looks: the same for a label everywhere, told apart by anybody, and readable on light and dark."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from nearveil.evaluation.stats import Estimate, Mean, Share
from nearveil.report.style import (
    DARK,
    LIGHT,
    Theme,
    add_legend,
    house_style,
    look_of,
    panels,
    plain_ticks,
    plot_estimates,
)


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


def test_series_are_told_apart_and_keep_their_look() -> None:
    labels = ["DPRS", "SRR", *(f"mine {number}" for number in range(30))]
    looks = [look_of(label) for label in labels]
    assert len(set(looks)) == len(looks)
    assert [look_of(label) for label in reversed(labels)] == looks[::-1]


def test_estimates_are_drawn_with_their_intervals_and_the_papers_values_as_hollow_diamonds() -> None:
    with house_style(LIGHT):
        figure, axes = panels(3, columns=2)
        estimates: list[float | Estimate] = [Mean(0.5, 0.1), Share(0.95, 0.9, 0.98), Mean(0.7, None)]
        plot_estimates(axes[0], [1, 2, 3], estimates, label="mine")
        plot_estimates(axes[0], [1, 2], [0.4, 0.6], label="mine", paper=True)
        add_legend(figure)
    assert len(axes) == 3
    (bars,) = axes[0].containers[0].lines[2]  # type: ignore[attr-defined]
    ends = [segment[:, 1].tolist() for segment in bars.get_segments()]
    assert np.allclose(ends, [[0.4, 0.6], [0.9, 0.98], [0.7, 0.7]])
    ours, papers = axes[0].containers[0].lines[0], axes[0].containers[1].lines[0]  # type: ignore[attr-defined]
    assert ours.get_color() == papers.get_color()
    assert (papers.get_marker(), papers.get_fillstyle(), papers.get_linestyle()) == ("D", "none", "None")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["mine", "mine (paper)"]


@pytest.mark.parametrize(("limits", "labels"), [((0.5, 2_000), ["1", "10", "100", "1,000"]), ((3, 9), list("3456789"))])
def test_logarithmic_axes_have_plain_numbers(limits: tuple[float, float], labels: list[str]) -> None:
    with house_style(LIGHT):
        figure, [axes] = panels(1, columns=1)
        axes.set(xscale="log", xlim=limits)
        plain_ticks(figure)
        figure.draw_without_rendering()
    low, high = limits
    ticks = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    assert [text.get_text() for tick, text in ticks if low <= tick <= high] == labels
    assert not any(text.get_text() for text in axes.get_xticklabels(minor=True))
