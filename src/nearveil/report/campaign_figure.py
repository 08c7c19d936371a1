"""A campaign as a picture: a map of who was located and how well, and how far off the attacker is.

It shows where the service has people, which are true places unless a mechanism protects them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nearveil.attacks.campaign import SHARE
from nearveil.evaluation.campaign import CampaignOutcome
from nearveil.report.charts import Handle, draw_legend, draw_title, panel_grid, panel_width_in, plain_number, save
from nearveil.report.maps import draw_ground
from nearveil.report.style import LIGHT, Theme, house_style
from nearveil.types import BoolArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NEAR = 0.25
_LEAST_M = 1.0
_CROWD = 3000


def draw_campaign(outcome: CampaignOutcome, path: Path) -> None:
    """Draw the map and the errors side by side as PNG; the same outcome gives the same bytes."""
    theme, width_in = LIGHT, panel_width_in(2)
    half_width_m, half_height_m = outcome.region.half_extent_m
    with house_style(theme):
        figure, grid = panel_grid(2, 2, width_in, width_in * half_height_m / half_width_m + 0.15)
        plan, curve = grid.flat
        draw_ground(plan, outcome.region, theme)
        handles = _draw_people(plan, outcome, theme)
        published = "published " if outcome.is_protected else ""
        plan.set_title(f"{published}people, by how far off the attacker is".capitalize())
        handles |= _draw_errors(curve, outcome, theme)
        draw_title(figure, _title(outcome))
        draw_legend(figure, handles, handle_length=1.6)
        save(figure, path, "png")


def _title(outcome: CampaignOutcome) -> str:
    share = outcome.located / outcome.people
    what = "published places" if outcome.is_protected else "people"
    return (
        f"{outcome.name}: {share:.1%} of {outcome.people:,} {what} located within {outcome.tau_m:g} m by "
        f"{outcome.result.questions:,} lists of {outcome.k} ids"
    )


def _draw_people(axes: Axes, outcome: CampaignOutcome, theme: Theme) -> dict[str, Handle]:
    """Draw everybody where the service has them, those who are located worst on top."""
    errors_m = np.full(outcome.people, np.inf)
    errors_m[outcome.rows] = outcome.errors_m
    seen = np.isfinite(errors_m)
    tau_m = outcome.tau_m
    groups: list[tuple[str, str, str, BoolArray]] = [
        (f"within {_NEAR * tau_m:g} m", ".", "sky", errors_m <= _NEAR * tau_m),
        (f"{_NEAR * tau_m:g} to {tau_m:g} m", ".", "blue", (errors_m > _NEAR * tau_m) & (errors_m <= tau_m)),
        (f"farther off than {tau_m:g} m", "^", "vermilion", seen & (errors_m > tau_m)),
        ("never listed", "x", "ink", ~seen),
    ]
    places_km = outcome.served_m / 1000
    size = 2.0 if outcome.people > _CROWD else 4.0
    handles: dict[str, Handle] = {}
    for label, marker, colour, chosen in groups:
        size_here = size if marker == "." else 1.5 * size
        axes.plot(
            *places_km[chosen].T, marker, color=theme.palette[colour], markersize=size_here, linestyle="none",
            markeredgewidth=0.8 if marker == "x" else 0, zorder=3,
        )  # fmt: skip
        named = f"{label} ({int(chosen.sum()):,})"
        handles[named] = axes.plot([], [], marker, color=theme.palette[colour], markersize=8, linestyle="none")[0]
    return handles


def _draw_errors(axes: Axes, outcome: CampaignOutcome, theme: Theme) -> dict[str, Handle]:
    """Draw for each distance the share of all people whom the attacker has within it."""
    curves = [("error" + (", to the published place" if outcome.is_protected else ""), "blue", "-", outcome.errors_m)]
    if outcome.is_protected:
        curves.append(("error, to the true place", "vermilion", "-.", outcome.true_errors_m))
    curves.append((f"radius that the attacker gives ({SHARE:.0%})", "green", "--", outcome.result.radii_m))
    handles: dict[str, Handle] = {}
    longest = max([2 * outcome.tau_m, *(float(values.max()) for _, _, _, values in curves if len(values))])
    for label, colour, dashes, values in curves:
        ordered = np.sort(np.maximum(values, _LEAST_M))
        shares = np.arange(1, len(ordered) + 1) / outcome.people
        handles[label] = axes.plot(ordered, 100 * shares, dashes, color=theme.palette[colour], linewidth=1.8)[0]
    tau_label = f"{outcome.tau_m:g} m: located"
    handles[tau_label] = axes.axvline(outcome.tau_m, color=theme.ink, linestyle=":", linewidth=1.2)
    axes.set(
        xscale="log", xlim=(_LEAST_M, longest), ylim=(0, 100), xlabel="distance (m)",
        ylabel="people within that distance (% of all)",
    )  # fmt: skip
    axes.xaxis.set_major_formatter(lambda value, _: plain_number(value))
    axes.grid(color=theme.grid, linewidth=0.8)
    axes.set_title("How far off the attacker is")
    return handles
