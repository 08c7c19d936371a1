"""Services of today as dots: users found within 100 m, and the queries that it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pandas as pd

from nearveil.evaluation.studies.services import summary
from nearveil.report.style import add_legend, panels, plot_estimates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What is drawn in each panel: the column, its label, and how far its dots are above the line of their service.
_SHARES = (("found", "adaptive attack, on one user", 0.0), ("exposed", "best attacker, from what is published", 0.22))
_QUERIES = (("queries", "adaptive attack, on one user", 0.0), ("campaign", "campaign, for each of all users", 0.22))
_AGAINST_NOISE = 0.5


def services_figures(runs: pd.DataFrame) -> dict[str, Figure]:
    """Return a figure for each population, the first by the name of the part."""
    found = summary(runs)
    names = found["dataset"].unique()
    return {
        "services" if number == 0 else f"services-{name}": _figure(found[found["dataset"] == name].reset_index())
        for number, name in enumerate(names)
    }


def _figure(rows: pd.DataFrame) -> Figure:
    figure, (shares, queries) = panels(2, columns=2, height=0.42 * len(rows) + 0.6)
    for axes, columns in ((shares, _SHARES), (queries, _QUERIES)):
        for column, label, above in columns:
            known = rows[rows[column].notna()]
            plot_estimates(axes, known[column], known.index - above, label=label, linestyle="none")
        axes.set_ylim(len(rows) - 0.5, -0.6)
        axes.grid(axis="y", visible=False)
        bare = int(rows["exposed"].isna().sum())
        axes.axhline(bare - _AGAINST_NOISE, color="#777777", linewidth=1.0, linestyle=":")
    shares.set_yticks(range(len(rows)), rows["service"])
    shares.set_xlim(-0.03, 1.03)
    shares.xaxis.set_major_formatter("{x:.0%}")
    shares.set_title("Users found within 100 m")
    shares.set_xlabel("share of users")
    queries.set_yticks(range(len(rows)), [])
    queries.set_xscale("log")
    queries.xaxis.set_major_formatter("{x:g}")
    queries.set_title("Queries that it takes")
    queries.set_xlabel("queries (logarithmic)")
    add_legend(figure, columns=3)
    return figure


FIGURES: dict[str, Callable[[pd.DataFrame], dict[str, Figure]]] = {"services": services_figures}
