"""Figure 9: recall and distance error against gamma, the radius as a share of the distance to the next centre."""

from __future__ import annotations

from nearveil.evaluation.cells import UtilityCell
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.experiments.scope import Results, Scope, mean_of, overlap
from nearveil.evaluation.results import Chart, Column, ExperimentResult, Panel, Series, Table, Value, exact
from nearveil.evaluation.stats import Mean
from nearveil.evaluation.utility import QUERY_TEXT, REGION_TEXT

NAME = "figure9"
TITLE = "Figure 9: how large the intervals should be"

GAMMAS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
QUICK_GAMMAS = (0.2, 0.5, 0.8)
EPSILON, K = 1.0, 10
PAPER_BEST = 0.5
_TITLES = {"uniform": "uniform queries", "users": "queries from users"}
_MEASURES = {
    "recall, uniform": f"uniform recall@{K}",
    "distance MSE (km²), uniform": f"uniform distance mse@{K}",
    "recall, users": f"users recall@{K}",
    "distance MSE (km²), users": f"users distance mse@{K}",
}


def cells(scope: Scope) -> list[UtilityCell]:
    """Every gamma."""
    return [cell for dataset in scope.datasets for gamma in _gammas(scope) for cell in _cells(scope, dataset, gamma)]


def outcome(scope: Scope, results: Results) -> ExperimentResult:
    """Draw recall and distance error against gamma."""
    found = {
        (dataset, gamma, name): _mean(results, _cells(scope, dataset, gamma), measure)
        for dataset in scope.datasets
        for gamma in _gammas(scope)
        for name, measure in _MEASURES.items()
    }
    columns = (Column("dataset"), Column("gamma", form="g"), *(Column(name) for name in _MEASURES))
    rows: tuple[tuple[Value, ...], ...] = tuple(
        (dataset, gamma, *(found[dataset, gamma, name] for name in _MEASURES))
        for dataset in scope.datasets
        for gamma in _gammas(scope)
    )
    protocol = (
        f"DPRS at epsilon = {EPSILON:g}, k = {K}, 800 centres; {QUERY_TEXT['uniform']}, and {QUERY_TEXT['users']}, "
        f"{scope.queries:,} each; {REGION_TEXT['paper']}; {scope.description}. Distance MSE: over the true {K} "
        "nearest, the mean square of how much nearer or farther they seem to be."
    )
    table = Table(NAME, "Recall and distance error against gamma.", columns, rows, protocol)
    question = "The paper: gamma = 0.5 is best, with the highest recall and the lowest distance error."
    return ExperimentResult(NAME, TITLE, question, (table,), (_chart(scope, found),), _remarks(scope, found))


def _gammas(scope: Scope) -> tuple[float, ...]:
    return QUICK_GAMMAS if scope.quick else GAMMAS


def _cells(scope: Scope, dataset: str, gamma: float) -> list[UtilityCell]:
    defence = Defence(label="DPRS", mechanism="dprs", epsilon=EPSILON, gamma=gamma)
    return [
        UtilityCell(dataset=dataset, seed=scope.seed, run=run, defence=defence, queries=scope.queries)
        for run in scope.each_run()
    ]


def _mean(results: Results, cells: list[UtilityCell], measure: str) -> Mean:
    mean = mean_of(results, cells, measure)
    if "mse" not in measure:
        return mean
    return Mean(mean.value / 1e6, None if mean.half_width is None else mean.half_width / 1e6)


def _chart(scope: Scope, found: dict[tuple[str, float, str], Mean]) -> Chart:
    x = tuple(exact(gamma) for gamma in _gammas(scope))
    panels = tuple(
        Panel(
            _TITLES[name.partition(", ")[2]],
            "gamma, radius over the distance to the next centre",
            name.partition(",")[0].replace("recall", f"recall@{K}"),
            tuple(
                Series(dataset, x, tuple(found[dataset, gamma, name] for gamma in _gammas(scope)))
                for dataset in scope.datasets
            ),
        )
        for name in _MEASURES
    )
    description = "Recall and distance error against gamma, for uniform queries and for queries from users."
    return Chart(NAME, "How large the intervals should be", panels, 2, description)


def _remarks(scope: Scope, found: dict[tuple[str, float, str], Mean]) -> tuple[str, ...]:
    remarks = []
    for name in _MEASURES:
        choose = max if "recall" in name else min
        best = {
            dataset: choose(_gammas(scope), key=lambda gamma: found[dataset, gamma, name].value)
            for dataset in scope.datasets
        }
        gammas = ", ".join(f"{gamma:g} on {dataset}" for dataset, gamma in best.items())
        as_good = sum(
            overlap(found[dataset, PAPER_BEST, name], found[dataset, best[dataset], name]) for dataset in best
        )
        word = "Highest" if "recall" in name else "Lowest"
        remarks.append(
            f"{word} {name} at gamma = {gammas}; the 95 % interval of the paper's 0.5 meets that of the best in "
            f"{as_good} of {len(best)}."
        )
    remarks.append("A smaller gamma moves people less; what that costs in privacy the paper does not ask.")
    remarks.append("The paper draws this figure and prints no numbers for it.")
    return tuple(remarks)
