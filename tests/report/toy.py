"""A part that takes no time, in place of those of the paper."""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from nearveil.evaluation.stats import Mean, Share
from nearveil.evaluation.study import Part, means
from nearveil.io.datasets import Dataset
from nearveil.report.style import add_legend, panels, plot_estimates

EVIL = '</script><script>alert(1)</script> & "<b>"'
MEASURED: list[tuple[str, int]] = []
"""What was measured in this process, by population and run."""


def measure(dataset: Dataset, *, epsilon: float, seed: int, run: int) -> dict[str, Any]:
    MEASURED.append((dataset.name, run))
    return {"recall": 0.4 + 0.01 * run + 0.02 * epsilon + 1e-6 * seed, "users": len(dataset.places)}


def tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {"toy": means(runs, ["dataset", "epsilon"], ["recall"])}


def figures(runs: pd.DataFrame) -> dict[str, Figure]:
    figure, [axes] = panels(1, columns=1)
    found = tables(runs)["toy"]
    plot_estimates(axes, found.epsilon, found.recall, label="beta")
    axes.set(xlabel="epsilon", ylabel="recall", title=EVIL)
    add_legend(figure)
    return {"toy": figure}


TOY = Part("toy", "A toy", lambda scope: scope.grid(epsilon=scope.epsilons), measure, tables)
WIDE = pd.DataFrame(
    {
        "data set": ["brightkite"] * 3 + ["gowalla"] * 3,
        "mechanism": ["DPRS", "2D Laplace", "<b>SRR"] * 2,
        **{f"share found, protocol {number}": [Share(0.948, 0.912, 0.971)] * 6 for number in range(4)},
        **{f"recall, protocol {number}": [Mean(0.4711, 0.0123)] * 6 for number in range(5)},
        **{f"Dist (km), paper {number}": [0.583] * 6 for number in range(4)},
    }
)
_VERDICTS = ("reproduced", "reproduced under reading: as printed", "not reproduced under any reading we tried",
             "disproved", "not measured here")  # fmt: skip
VERDICTS = pd.DataFrame(
    {"claim": one, "paper": "0.464", "ours": Mean(0.471, 0.012), "reading": "", "verdict": one} for one in _VERDICTS
)
