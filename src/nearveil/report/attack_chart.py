"""Table 1 as a picture: accuracy and questions of every attack, the paper's values beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nearveil.evaluation.attack_experiment import AttackRow
from nearveil.evaluation.paper_table1 import PAPER_TABLE_1
from nearveil.report.style import INK, house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette, and a shape for each, to be told apart in grey as well.
_LOOKS = {
    "brightkite": ("#0072B2", "o"),
    "gowalla": ("#D55E00", "s"),
    "gaussian": ("#009E73", "^"),
    "beta": ("#CC79A7", "v"),
}
_OTHER_LOOK = ("#555555", "o")


def draw_attack_chart(rows: Sequence[AttackRow], path: Path, *, tau_m: float) -> None:
    """Draw one line for each attack and number of accounts: Acc to the left, questions to the right; save as PNG."""
    # Heavy, and only needed where a picture is drawn.
    from matplotlib import pyplot as plt  # noqa: PLC0415

    lines = list(dict.fromkeys((row.attack, row.colluders) for row in rows))
    with house_style():
        figure, (left, right) = plt.subplots(
            1, 2, figsize=(12, 1.6 + 0.62 * len(lines)), sharey=True, layout="constrained"
        )
        for row in rows:
            height = _height(row, rows, lines)
            colour, shape = _LOOKS.get(row.dataset, _OTHER_LOOK)
            _draw_point(left, row.score.acc.value, row.score.acc.half_width, height, colour, shape)
            _draw_point(right, row.score.queries.value, row.score.queries.half_width, height, colour, shape)
            _draw_beside(left, right, row, height)
        left.set_yticks(range(len(lines)), [_label(*line) for line in lines])
        left.invert_yaxis()
        left.set_xlabel(f"Acc: share found within {tau_m:g} m")
        right.set_xlabel("questions per attack")
        left.set_xlim(_least_acc(rows), 1.01)
        right.set_xscale("log")
        right.set_xlim(1, 100)
        right.set_xticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
        right.minorticks_off()
        for axes in (left, right):
            axes.grid(axis="x", color="#DDDDDD", linewidth=0.7)
            axes.set_axisbelow(True)
        figure.legend(handles=_legend(rows), loc="outside lower center", ncols=6, frameon=False)
        ks = ", ".join(str(k) for k in dict.fromkeys(row.k for row in rows))
        figure.suptitle(f"What a ranked list gives away (k = {ks} from top to bottom of each line)")
        figure.savefig(path, format="png")
        plt.close(figure)


def _least_acc(rows: Sequence[AttackRow]) -> float:
    """Left end of the accuracies, with some room; intervals may be cut there."""
    papers = [cell.acc for cell in PAPER_TABLE_1.values()]
    return max(min([*papers, *(row.score.acc.value for row in rows)]) - 0.05, -0.01)


def _height(row: AttackRow, rows: Sequence[AttackRow], lines: Sequence[tuple[str, int]]) -> float:
    """The line of its attack; within it, one level for each k and population."""
    levels = list(dict.fromkeys((other.k, other.dataset) for other in sorted(rows, key=lambda other: other.k)))
    share = (levels.index((row.k, row.dataset)) + 0.5) / len(levels)
    return lines.index((row.attack, row.colluders)) + 0.8 * (share - 0.5)


def _draw_point(axes: Axes, value: float, half_width: float | None, height: float, colour: str, shape: str) -> None:
    if half_width:
        axes.plot([value - half_width, value + half_width], [height, height], "-", color=colour, linewidth=1)
    axes.plot(value, height, shape, color=colour, markersize=4.5)


def _draw_beside(left: Axes, right: Axes, row: AttackRow, height: float) -> None:
    """The paper's accuracy, and the least number of questions for distance bounds alone."""
    paper = PAPER_TABLE_1.get((row.attack, row.dataset, row.k))
    if paper is not None:
        left.plot(paper.acc, height, "D", markerfacecolor="none", markeredgecolor=INK, markersize=4.5)
    if row.score.limit is not None:
        right.plot(row.score.limit, height, "|", color=INK, markersize=6)


def _label(attack: str, colluders: int) -> str:
    accounts = {0: "no accounts", 1: "1 account"}.get(colluders, f"{colluders} accounts")
    return f"{attack}\n{accounts}"


def _legend(rows: Sequence[AttackRow]) -> list[object]:
    from matplotlib.lines import Line2D  # noqa: PLC0415

    handles: list[object] = []
    for dataset in dict.fromkeys(row.dataset for row in rows):
        colour, shape = _LOOKS.get(dataset, _OTHER_LOOK)
        handles.append(Line2D([], [], linestyle="", marker=shape, color=colour, label=dataset))
    paper = Line2D([], [], linestyle="", marker="D", markerfacecolor="none", color=INK, label="the paper's Acc")
    limit = Line2D([], [], linestyle="", marker="|", color=INK, label="least for distance bounds alone")
    return [*handles, paper, limit]
