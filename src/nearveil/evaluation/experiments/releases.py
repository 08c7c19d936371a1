"""The three releases of DPRS at equal intervals and epsilon: what soundness costs."""

from __future__ import annotations

from nearveil.evaluation.cells import RELEASE_KS, RELEASES, ReleaseCell
from nearveil.evaluation.experiments.scope import Results, Scope, mean_of
from nearveil.evaluation.results import Chart, Column, ExperimentResult, Panel, Series, Table, Value, exact
from nearveil.evaluation.utility import QUERY_TEXT, REGION_TEXT
from nearveil.mechanisms.dprs import ReleaseName
from nearveil.mechanisms.fitting import FitMethod

NAME = "releases"
TITLE = "The three releases of DPRS at equal intervals"

METHODS: tuple[FitMethod, ...] = ("pic", "private-grid")
METHOD_LABELS: dict[FitMethod, str] = {"pic": "private k-means", "private-grid": "private grid"}


def cells(scope: Scope) -> list[ReleaseCell]:
    """Every population, kind of intervals and epsilon."""
    return [cell for line in _lines(scope).values() for cell in line]


def outcome(scope: Scope, results: Results) -> ExperimentResult:
    """Put the releases side by side."""
    names = [f"{release} recall@{k}" for k in RELEASE_KS for release in RELEASES]
    found = {
        (*key, name): mean_of(results, line, name)
        for key, line in _lines(scope).items()
        for name in (*names, "metric noise_m")
    }
    columns = (
        Column("dataset"), Column("intervals"), Column("epsilon", form="g"),
        *(Column(f"{release}, k = {k}", f"recall@{k}") for k in RELEASE_KS for release in RELEASES),
        Column("metric noise (m)", "", ",.0f"),
    )  # fmt: skip
    rows: tuple[tuple[Value, ...], ...] = tuple(
        (dataset, METHOD_LABELS[method], epsilon, *(found[dataset, method, epsilon, name] for name in names),
         found[dataset, method, epsilon, "metric noise_m"].value)
        for dataset, method, epsilon in _lines(scope)
    )  # fmt: skip
    protocol = (
        f"{QUERY_TEXT['users'].capitalize()}, {scope.queries:,}; {REGION_TEXT['isotropic']}; {scope.description}. 800 "
        "intervals, the same for the three releases of a run, found with half of epsilon; the other half is for the "
        "release. metric: the noise whose loss across the median disc is that half."
    )
    table = Table(NAME, "Recall of the three releases.", columns, rows, protocol)
    remarks = (
        f"At equal intervals and budget the sound release 'interval' changes recall@10 against the paper's by "
        f"{_gains_text(interval_gains(scope, results))}: its noise is scaled to the disc, not to the whole region.",
        "'metric' promises more, a loss that holds across borders. With the noise that it gets here, it changes "
        f"recall@10 against the paper's by {_gains_text(release_gains(scope, results, 'metric'))}.",
    )
    question = "Does a release whose guarantee is true cost utility?"
    lines = list(_lines(scope))
    panels = tuple(
        Panel(
            dataset, "epsilon", f"recall@{k}, users",
            tuple(
                Series(f"{release}, {METHOD_LABELS[method]}", tuple(exact(e) for e in _epsilons(scope)),
                       tuple(found[dataset, method, e, f"{release} recall@{k}"] for e in _epsilons(scope)))
                for method in METHODS for release in RELEASES
            ),
        )
        for k in RELEASE_KS for dataset in dict.fromkeys(dataset for dataset, _, _ in lines)
    )  # fmt: skip
    description = "Recall at 10 and at 50 of the three releases against epsilon, with both kinds of intervals."
    chart = Chart(NAME, "True neighbours that the published list still has", panels, len(scope.datasets), description)
    return ExperimentResult(NAME, TITLE, question, (table,), (chart,), remarks)


def interval_gains(scope: Scope, results: Results) -> dict[float, list[float]]:
    """What the release interval keeps over the paper's; see `release_gains`."""
    return release_gains(scope, results, "interval")


def release_gains(scope: Scope, results: Results, release: ReleaseName) -> dict[float, list[float]]:
    """Recall@10 of a release over that of the paper's, less one, at equal intervals and budget; by epsilon."""
    found: dict[float, list[float]] = {}
    for (_, _, epsilon), line in _lines(scope).items():
        paper, own = (mean_of(results, line, f"{name} recall@10").value for name in ("paper", release))
        found.setdefault(epsilon, []).append(own / paper - 1 if paper > 0 else 0.0)
    return found


def _gains_text(gains: dict[float, list[float]]) -> str:
    return ", ".join(
        f"{100 * min(line):+.0f} to {100 * max(line):+.0f} % at epsilon = {epsilon:g}"
        for epsilon, line in gains.items()
    )


def _epsilons(scope: Scope) -> tuple[float, ...]:
    """At less than 1 intervals of private k-means are all noise."""
    return tuple(epsilon for epsilon in scope.epsilons if epsilon >= 1)


def _lines(scope: Scope) -> dict[tuple[str, FitMethod, float], list[ReleaseCell]]:
    return {
        (dataset, method, epsilon): [
            ReleaseCell(
                dataset=dataset, seed=scope.seed, run=run, method=method, epsilon=epsilon, queries=scope.queries
            )
            for run in scope.each_run()
        ]
        for dataset in scope.datasets
        for method in METHODS
        for epsilon in _epsilons(scope)
    }
