"""Looks: the same for a label everywhere, and estimates with their intervals."""

import numpy as np

from nearveil.evaluation.stats import Estimate, Mean, Share
from nearveil.report.style import add_legend, house_style, look_of, panels, plot_estimates


def test_series_are_told_apart_and_keep_their_look() -> None:
    labels = ["DPRS", "SRR", *(f"mine {number}" for number in range(30))]
    looks = [look_of(label) for label in labels]
    assert len(set(looks)) == len(looks)
    assert [look_of(label) for label in reversed(labels)] == looks[::-1]


def test_estimates_are_drawn_with_their_intervals_and_the_papers_values_as_hollow_diamonds() -> None:
    with house_style():
        figure, axes = panels(3, columns=2)
        estimates: list[float | Estimate] = [Mean(0.5, 0.1), Share(0.95, 0.9, 0.98), Mean(0.7, None)]
        plot_estimates(axes[0], [1, 2, 3], estimates, label="mine")
        plot_estimates(axes[0], [1, 2], [0.4, 0.6], label="mine", paper=True)
        add_legend(figure)
    assert len(axes) == 3
    ours, papers = (container.lines for container in axes[0].containers)  # type: ignore[attr-defined]
    ends = [segment[:, 1].tolist() for segment in ours[2][0].get_segments() if len(segment)]
    assert np.allclose(ends, [[0.4, 0.6], [0.9, 0.98]])
    assert ours[0].get_color() == papers[0].get_color()
    assert (papers[0].get_marker(), papers[0].get_fillstyle(), papers[0].get_linestyle()) == ("D", "none", "None")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["mine", "mine (paper)"]
