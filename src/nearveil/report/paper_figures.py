"""The paper's tables and figures as pictures, from the rows of runs that they are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from nearveil.evaluation import paper_numbers
from nearveil.evaluation.studies import figures, table1, table3
from nearveil.evaluation.studies.protected import NEARVEIL, READINGS, K, estimated
from nearveil.evaluation.study import means
from nearveil.report.style import INK, add_legend, panels, plot_estimates

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TABLE3 = ["dataset", "epsilon", "mechanism", "reading"]
_RECALL = {"recall": "recall, uniform queries", "users_recall": "recall, queries from users"}


def _grid(
    columns: Sequence[str], titles: Mapping[str, str], x: str, **size: Any
) -> tuple[Figure, dict[tuple[str, str], Axes]]:
    """Return a figure with a row of panels for each measure and a column for each data set, named at the edges."""
    figure, axes = panels(len(columns) * len(titles), columns=len(columns), **size)
    places = dict(zip([(row, column) for row in titles for column in columns], axes, strict=True))
    first, last = next(iter(titles)), [*titles][-1]
    for (row, column), own in places.items():
        own.set(title=column if row == first else "", ylabel=titles[row] if column == columns[0] else "")
        own.set_xlabel(x if row == last else "")
        own.tick_params(labelbottom=row == last)
    return figure, places


def _names(runs: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(runs["dataset"]))


def table1_figures(runs: pd.DataFrame) -> dict[str, Figure]:
    """Draw Acc and queries against the length of the list."""
    found = table1.estimates(runs[runs.source != paper_numbers.AUTHORS])
    found = found[found.source != "reference"]
    titles = {"acc": "share found in 100 m", "queries": "queries per attack"}
    figure, places = _grid(_names(runs), titles, "k")
    for (row, dataset), axes in places.items():
        own = found[found.dataset == dataset]
        for attack, line in own.groupby("attack", sort=False):
            plot_estimates(axes, line.k, line[row], label=str(attack))
            table = paper_numbers.table1()
            printed = table[(table.attack == attack) & (table.dataset == dataset)]
            if row == "acc" and len(printed):
                plot_estimates(axes, printed.k, printed.acc, label=str(attack), paper=True)
        axes.set_xticks(table1.KS)
        axes.set_ylim(bottom=0)
    add_legend(figure)
    return {"table1": figure}


def table3_figures(runs: pd.DataFrame) -> dict[str, Figure]:
    """Draw recall of all mechanisms, and what each reading of DPRS gives, against epsilon."""
    runs = runs[runs.reading != paper_numbers.AUTHORS]
    ours = estimated(runs[runs.reading == NEARVEIL], _TABLE3, ["recall"])
    figure, places = _grid(_names(runs), {"recall": "recall, uniform queries"}, "epsilon", height=3.0)
    for (_, dataset), axes in places.items():
        for name, line in ours[ours.dataset == dataset].groupby("mechanism", sort=False):
            plot_estimates(axes, line.epsilon, line.recall, label=str(name))
            _plot_printed(axes, line, "recall")
        axes.set_ylim(bottom=0)
    add_legend(figure)
    return {"table3": figure, "table3-readings": _readings(runs)}


def _readings(runs: pd.DataFrame) -> Figure:
    titles = {"recall": "recall", "ratio_pooled": "ratio, pooled", "acc": "Acc of ZO-LIA", "dist_km": "Dist (km)"}
    shown = [NEARVEIL, *(name for name in READINGS if "order" not in name)]
    found = estimated(runs[(runs.mechanism == "DPRS") & runs.reading.isin(shown)], _TABLE3, list(titles))
    figure, places = _grid(_names(runs), titles, "epsilon", height=2.2)
    for (row, dataset), axes in places.items():
        own = found[found.dataset == dataset]
        for reading, line in own.groupby("reading", sort=False):
            plot_estimates(axes, line.epsilon, line[row], label=str(reading))
        _plot_printed(axes, own[own.reading == NEARVEIL], row, label="the paper", color=INK, marker="D", linestyle="-")
        if row in ("acc", "dist_km"):
            axes.set_ylim(bottom=0)
    add_legend(figure, columns=4)
    return figure


def _plot_printed(axes: Axes, line: pd.DataFrame, column: str, label: str = "", **options: Any) -> None:
    """Plot what the paper prints at the same settings, where it prints something."""
    both = line[_TABLE3[:3]].merge(paper_numbers.table3(), on=_TABLE3[:3])
    for name, own in both.groupby("mechanism", sort=False):
        plot_estimates(axes, own.epsilon, own[column], label=label or str(name), paper=not label, **options)


def _recall_along(name: str, x: str, series: str, x_label: str) -> Callable[[pd.DataFrame], dict[str, Figure]]:
    """Draw recall along a parameter, for uniform queries and for queries from users."""

    def draw(runs: pd.DataFrame) -> dict[str, Figure]:
        own = runs[(runs.reading == NEARVEIL) & ((x == "k") | (runs.k == K))]
        found = means(own, ["dataset", series, x], list(_RECALL))
        figure, places = _grid(_names(own), _RECALL, x_label)
        for (row, dataset), axes in places.items():
            for label, line in found[found.dataset == dataset].groupby(series, sort=False):
                plot_estimates(axes, line[x], line[row], label=_named(label))
            axes.set_xticks(sorted(own[x].unique()))
            # Lines of one mechanism differ little, and would be flat from nought.
            axes.set_ylim(bottom=0 if series == "mechanism" else None)
        add_legend(figure)
        return {name: figure}

    return draw


def _named(label: object) -> str:
    return label if isinstance(label, str) else f"epsilon = {label:g}"


def figure8_figures(runs: pd.DataFrame) -> dict[str, Figure]:
    """Draw the time of sampling against the radius at epsilon = 1, and against epsilon at R = 0.5."""
    found = means(runs, ["noise", "radius", "epsilon", "sampler"], ["ms"])
    noises = list(dict.fromkeys(runs["noise"]))
    figure, axes = panels(2 * len(noises), columns=2)
    ways = (("radius", "epsilon", figures.FIXED_EPSILON), ("epsilon", "radius", figures.FIXED_RADIUS))
    for number, own in enumerate(axes):
        noise, (x, fixed, at) = noises[number // 2], ways[number % 2]
        lines = found[(found.noise == noise) & (found[fixed] == at)].sort_values(x)
        for sampler, line in lines.groupby("sampler", sort=False):
            plot_estimates(own, line[x], line.ms, label=str(sampler))
        own.axhline(figures.PAPER_MOST_MS, color="#777777", linestyle=":", label="the paper: RSM is below")
        own.set_yscale("log")
        own.set(title=f"{noise.capitalize()} noise", xlabel=f"{x} ({fixed} = {at:g})", ylabel="ms for 100 points")
    add_legend(figure)
    return {"figure8": figure}


def figure9_figures(runs: pd.DataFrame) -> dict[str, Figure]:
    """Draw recall and the error of distances against gamma."""
    titles = {"recall": "recall", "mse_km2": "distance MSE (km²)"}
    shown = [(prefix + column, f"{title}, {queries}") for prefix, queries in (("", "uniform"), ("users_", "from users"))
             for column, title in titles.items()]  # fmt: skip
    found = means(runs[runs.reading == NEARVEIL], ["dataset", "gamma"], [column for column, _ in shown])
    figure, axes = panels(len(shown), columns=2)
    for own, (column, title) in zip(axes, shown, strict=True):
        for dataset, line in found.groupby("dataset", sort=False):
            plot_estimates(own, line.gamma, line[column], label=str(dataset))
        own.set(xlabel="gamma", ylabel=title)
    add_legend(figure)
    return {"figure9": figure}


def ablation_figures(runs: pd.DataFrame) -> dict[str, Figure]:
    """Draw how much recall a part of DPRS brings over its replacement, by reading."""
    names = _names(runs)
    epsilon = runs.epsilon.min()
    figure, axes = panels(2, columns=2, height=3.0)
    for own, variant in zip(axes, list(table3.VARIANTS)[1:], strict=True):
        gains = table3.gains(runs[runs.epsilon == epsilon], variant)
        readings = list(dict.fromkeys(gains.reading))
        for number, dataset in enumerate(names):
            line = gains[gains.dataset == dataset]
            at = [readings.index(one) + (number - (len(names) - 1) / 2) * 0.15 for one in line.reading]
            plot_estimates(own, line.recall, at, label=dataset, linestyle="none")
        own.axvline(0.0, color="#777777", linewidth=1)
        own.set_yticks(range(len(readings)), readings if own is axes[0] else [""] * len(readings))
        own.invert_yaxis()
        part = "RSM" if "point" in variant else "private centers"
        own.set(title=f"{part} over {variant}{'s' if 'point' in variant else ''}", xlabel="recall gained")
    add_legend(figure)
    return {"ablation": figure}


FIGURES: dict[str, Callable[[pd.DataFrame], dict[str, Figure]]] = {
    "table1": table1_figures,
    "table3": table3_figures,
    "figure4": _recall_along("figure4", "k", "mechanism", "k"),
    "figure5": _recall_along("figure5", "centers", "epsilon", "number of centers"),
    "figure6": _recall_along("figure6", "centers", "epsilon", "number of centers"),
    "figure7": _recall_along("figure7", "k", "mechanism", "k"),
    "figure8": figure8_figures,
    "figure9": figure9_figures,
    "ablation": ablation_figures,
}
