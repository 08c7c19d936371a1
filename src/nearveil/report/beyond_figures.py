"""The experiments beyond the paper as pictures: the frontier, services of today, and an attacker over a year."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nearveil.evaluation.studies import services, year
from nearveil.evaluation.studies.frontier import METERS, Curve, curves
from nearveil.report.style import PALETTE, add_legend, panels, plot_estimates

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame


def frontier_figures(runs: DataFrame) -> dict[str, Figure]:
    """Draw what lists cost in meters against what the best attacker gets, and hiding among users beside noise."""
    found = curves(runs)
    datasets = list(dict.fromkeys(one.dataset for one in found))
    figures = {f"frontier-{name}": _frontier([one for one in found if one.dataset == name]) for name in datasets}
    beside = [one for one in found if one.contender.name == METERS or one.contender.swept == "hide_among"]
    if any(one.contender.swept == "hide_among" for one in beside):
        figures["among"] = _among(beside, datasets)
    return figures


def _frontier(found: list[Curve]) -> Figure:
    figure, (all_users, sparsest) = panels(2, columns=2, height=4.2)
    for axes, name in ((all_users, "found"), (sparsest, "named_sparsest")):
        _draw_curves(axes, found, name, "extra_m")
        axes.set(ylabel="meters that users listed are farther away", yscale="log")
    all_users.set_xlabel("users found within 100 m (share)")
    sparsest.set_xlabel("users named in the sparsest tenth (share)")
    add_legend(figure, columns=4)
    return figure


def _among(found: list[Curve], datasets: list[str]) -> Figure:
    figure, all_axes = panels(2 * len(datasets), columns=2, height=3.0)
    sides = [(dataset, name) for dataset in datasets for name in ("named", "named_sparsest")]
    for axes, (dataset, name) in zip(all_axes, sides, strict=True):
        _draw_curves(axes, [one for one in found if one.dataset == dataset], name, "recall")
        whom = "users" if name == "named" else "users of the sparsest tenth"
        axes.set(title=dataset, xlabel=f"{whom} named (share)", ylabel="recall@10", xscale="log")
    add_legend(figure, columns=4)
    return figure


def _draw_curves(axes: Axes, found: list[Curve], x: str, y: str) -> None:
    for one in found:
        across, up = ([point[name] for point in one.points] for name in (x, y))
        plot_estimates(axes, across, up, label=one.contender.label)


def services_figures(runs: DataFrame) -> dict[str, Figure]:
    """Draw for each population, the first by the name of the part, users found and the queries that it takes."""
    found = services.summary(runs)
    names = found["dataset"].unique()
    return {
        "services" if number == 0 else f"services-{name}": _services(found[found["dataset"] == name].reset_index())
        for number, name in enumerate(names)
    }


def _services(rows: DataFrame) -> Figure:
    figure, (shares, queries) = panels(2, columns=2, height=0.42 * len(rows) + 0.6)
    one_user = "adaptive attack, on one user"
    # Dots of the second kind are a little above the line of their service.
    drawn = (
        (shares, "found", one_user, 0.0),
        (shares, "exposed", "best attacker, from what is published", 0.22),
        (queries, "queries", one_user, 0.0),
        (queries, "campaign", "campaign, for each of all users", 0.22),
    )
    for axes, column, label, above in drawn:
        known = rows[rows[column].notna()]
        plot_estimates(axes, known[column], known.index - above, label=label, linestyle="none")
    for axes, names in ((shares, rows["service"]), (queries, [])):
        axes.set_yticks(range(len(rows)), names)
        axes.set_ylim(len(rows) - 0.5, -0.6)
        axes.grid(axis="y", visible=False)
        # Below it, services add noise.
        axes.axhline(int(rows["exposed"].isna().sum()) - 0.5, color=PALETTE["grey"], linewidth=1.0, linestyle=":")
    shares.set(xlim=(-0.03, 1.03), title="Users found within 100 m", xlabel="share of users")
    shares.xaxis.set_major_formatter("{x:.0%}")
    queries.set(xscale="log", title="Queries that it takes", xlabel="queries (logarithmic)")
    add_legend(figure, columns=3)
    return figure


_YEAR_PANELS = {
    (year.AT_HOME, "density"): "Users who stay at home, no address known",
    (year.AT_HOME, "addresses"): "Users who stay at home, addresses known",
    (year.COMMUTES, "addresses"): "Users who commute, addresses known",
    (year.COMMUTES, "home and work"): "Users who commute, home and work known",
}


def year_figures(runs: DataFrame) -> dict[str, Figure]:
    """Draw the share of users found within 100 m against months, with 95 % intervals."""
    found = year.found_by_months(runs[runs.dataset == runs.dataset.iloc[0]])
    figure, all_axes = panels(len(_YEAR_PANELS), columns=2)
    months = sorted(set(found.months))
    for axes, ((users, attacker), title) in zip(all_axes, _YEAR_PANELS.items(), strict=True):
        own = found[(found.users == users) & (found.attacker == attacker)]
        for number, ((service, gps), curve) in enumerate(own.groupby(["service", "gps"], sort=False)):
            # A little to the right of the one before, so that intervals do not cover one another.
            plot_estimates(axes, curve.months * 1.02**number, curve.found, label=f"{service}, {gps} GPS")
        axes.set(title=title, xscale="log", xlabel="months", ylabel="found within 100 m", ylim=(-0.02, 1.02))
        axes.set_xticks(months, [str(number) for number in months])
    add_legend(figure, columns=3)
    return {"year": figure}


FIGURES: dict[str, Callable[[DataFrame], dict[str, Figure]]] = {
    "frontier": frontier_figures,
    "services": services_figures,
    "year": year_figures,
}
