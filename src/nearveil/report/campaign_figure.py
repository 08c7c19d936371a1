"""A campaign as a picture: a map of the users that were located and how well, and how far off the attacker is.

It shows where the service has its users: their true locations unless a mechanism protects them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from nearveil.attacks.campaign import SHARE
from nearveil.evaluation.campaign import CampaignOutcome
from nearveil.report.maps import draw_ground
from nearveil.report.style import INK, PALETTE, add_legend, house_style, panels, plain_ticks, save_png

_NEAR = 0.25
_LEAST_M = 1.0
_CROWD = 3000
_WIDTH_IN = 11.0


def draw_campaign(outcome: CampaignOutcome, path: Path) -> None:
    """Draw the map and the errors side by side as PNG; the same outcome gives the same bytes."""
    half_width_m, half_height_m = outcome.region.half_extent_m
    with house_style():
        height_in = 0.42 * _WIDTH_IN * half_height_m / half_width_m + 1.6
        figure, (plan, curve) = panels(2, columns=2, width=_WIDTH_IN, height=height_in)
        draw_ground(plan, outcome.region)
        plan.grid(visible=False)
        _draw_users(plan, outcome)
        _draw_errors(curve, outcome)
        what = "published locations" if outcome.is_protected else "users"
        figure.suptitle(
            f"{outcome.name}: {outcome.located / outcome.people:.1%} of {outcome.people:,} {what} located within "
            f"{outcome.tau_m:g} m\nby {outcome.result.queries:,} lists of {outcome.k} ids",
            fontsize=13,
        )  # fmt: skip
        add_legend(figure, columns=3)
        plain_ticks(figure)
        save_png(figure, path)


def _draw_users(axes: Axes, outcome: CampaignOutcome) -> None:
    """Draw all users where the service has them, those who are located worst on top."""
    tau_m, errors_m = outcome.tau_m, np.full(outcome.people, np.inf)
    errors_m[outcome.rows] = outcome.errors_m
    groups = [
        (f"within {_NEAR * tau_m:g} m", ".", "sky", errors_m <= _NEAR * tau_m),
        (f"{_NEAR * tau_m:g} to {tau_m:g} m", ".", "blue", (errors_m > _NEAR * tau_m) & (errors_m <= tau_m)),
        (f"farther off than {tau_m:g} m", "^", "vermilion", np.isfinite(errors_m) & (errors_m > tau_m)),
        ("never listed", "x", "ink", np.isinf(errors_m)),
    ]
    small = 2.0 if outcome.people > _CROWD else 4.0
    for label, marker, color, chosen in groups:
        style: dict[str, Any] = {"color": PALETTE[color], "markeredgewidth": 0.8 if marker == "x" else 0}
        size = small if marker == "." else 1.5 * small
        axes.plot(*outcome.served_m[chosen].T, marker, markersize=size, zorder=3, **style)
        axes.plot([], [], marker, markersize=8, label=f"{label} ({int(chosen.sum()):,})", **style)
    axes.set_title("Published locations, by the error" if outcome.is_protected else "Users, by the attacker's error")


def _draw_errors(axes: Axes, outcome: CampaignOutcome) -> None:
    """Draw for each distance the share of all users located within it."""
    curves = [
        ("error" + (", to the published location" if outcome.is_protected else ""), "blue", "-", outcome.errors_m)
    ]
    if outcome.is_protected:
        curves.append(("error, to the true location", "vermilion", "-.", outcome.true_errors_m))
    curves.append((f"radius that the attacker gives ({SHARE:.0%})", "green", "--", outcome.result.radii_m))
    for label, color, dashes, values in curves:
        ordered = np.sort(np.maximum(values, _LEAST_M))
        shares = np.arange(1, len(ordered) + 1) / outcome.people
        axes.plot(ordered, shares, dashes, color=PALETTE[color], linewidth=1.8, label=label)
    axes.axvline(outcome.tau_m, color=INK, linestyle=":", linewidth=1.2, label=f"{outcome.tau_m:g} m: located")
    longest = max([2 * outcome.tau_m, *(float(values.max()) for *_, values in curves if len(values))])
    axes.set(xscale="log", xlim=(_LEAST_M, longest), ylim=(0, 1), title="How far off the attacker is")
    axes.set(xlabel="distance (m)", ylabel="share of all users within that distance")
    axes.yaxis.set_major_formatter("{x:.0%}")
