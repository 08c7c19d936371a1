"""What the three releases cost in utility, as a picture: recall against epsilon, one panel for each population."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nearveil.evaluation.release_utility import KS, ReleaseRow
from nearveil.report.style import house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette, and a shape for each, to be told apart in grey as well.
_LOOKS = {"paper": ("#555555", "o"), "interval": ("#0072B2", "s"), "metric": ("#D55E00", "^")}
_LINES = {"pic": "--", "private-grid": "-"}


def draw_release_chart(rows: Sequence[ReleaseRow], path: Path) -> None:
    """Draw recall@10 above and recall@50 below; save as PNG."""
    # Heavy, and only needed where a picture is drawn.
    from matplotlib import pyplot as plt  # noqa: PLC0415

    datasets = list(dict.fromkeys(row.dataset for row in rows))
    with house_style():
        figure, grid = plt.subplots(
            len(KS), len(datasets), figsize=(max(8.5, 1.5 + 2.9 * len(datasets)), 6.2), sharex=True, sharey="row",
            squeeze=False, layout="constrained",
        )  # fmt: skip
        for k, line in zip(KS, grid, strict=True):
            for dataset, axes in zip(datasets, line, strict=True):
                _panel(axes, [row for row in rows if row.dataset == dataset], k)
                axes.set_title(dataset if k == KS[0] else "")
            line[0].set_ylabel(f"recall@{k}")
            line[0].set_ylim(0, 1.05 * max(row.recall[k].value for row in rows))
        for axes in grid[-1]:
            axes.set_xlabel("epsilon")
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        figure.suptitle("True neighbours that the published list still has (asked from where people are)")
        figure.savefig(path, format="png")
        plt.close(figure)


def _panel(axes: Axes, rows: Sequence[ReleaseRow], k: int) -> None:
    for method, release in dict.fromkeys((row.method, row.release) for row in rows):
        line = [row for row in rows if (row.method, row.release) == (method, release)]
        colour, shape = _LOOKS[release]
        axes.errorbar(
            [row.epsilon for row in line],
            [row.recall[k].value for row in line],
            yerr=[row.recall[k].half_width or 0.0 for row in line],
            color=colour, marker=shape, linestyle=_LINES[method], markersize=5, capsize=2, label=f"{release}, {method}",
        )  # fmt: skip
    axes.set_xticks(sorted({row.epsilon for row in rows}))
    axes.grid(color="#DDDDDD", linewidth=0.7)
    axes.set_axisbelow(True)
