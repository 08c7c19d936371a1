"""A part that takes no time, in place of those of the paper."""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from nearveil.evaluation.stats import Mean, Share
from nearveil.evaluation.study import Part, Scope, means
from nearveil.io.datasets import Dataset
from nearveil.report.style import add_legend, panels, plot_estimates

EVIL = '</script><script>alert(1)</script> & "<b>"'
MEASURED: list[tuple[str, int]] = []
"""What was measured in this process, by population and run."""


def measure(dataset: Dataset, *, epsilon: float, seed: int, run: int) -> dict[str, Any]:
    MEASURED.append((dataset.name, run))
    return {"recall": 0.4 + 0.01 * run + 0.02 * epsilon + 1e-6 * seed, "users": len(dataset.places)}


def grid(scope: Scope) -> list[dict[str, Any]]:
    return scope.grid(epsilon=scope.epsilons)


def tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {"toy": means(runs, ["dataset", "epsilon"], ["recall"])}


def figures(runs: pd.DataFrame) -> dict[str, Figure]:
    figure, [axes] = panels(1, columns=1)
    found = tables(runs)["toy"]
    for name, own in found.groupby("dataset"):
        plot_estimates(axes, own.epsilon, own.recall, label=str(name))
    axes.set(xlabel="epsilon", ylabel="recall", title=EVIL)
    add_legend(figure)
    return {"toy": figure}


TOY = Part("toy", "A toy", grid, measure, tables, lambda runs: {"users": len(runs)})

WIDE = pd.DataFrame(
    [
        {
            "data set": data,
            "mechanism": mechanism,
            "epsilon": epsilon,
            **{f"share found, protocol {number}": Share(0.948, 0.912, 0.971) for number in range(4)},
            **{f"recall, protocol {number}": Mean(0.4711, 0.0123) for number in range(5)},
            **{f"Dist (km), paper {number}": 0.583 for number in range(3)},
        }
        for data in ("brightkite", "gowalla")
        for mechanism in ("DPRS", "2D Laplace", "<b>SRR")
        for epsilon in (0.5, 5.0)
    ]
)
VERDICTS = pd.DataFrame(
    {"claim": name, "paper": "0.464", "ours": Mean(0.471, 0.012), "reading": "", "verdict": name}
    for name in ("reproduced", "reproduced under reading: as printed", "not reproduced under any reading we tried",
                 "disproved", "not measured here")
)  # fmt: skip
