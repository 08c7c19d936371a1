"""A plan as text, its recommendation first, and as a picture."""

from __future__ import annotations

import textwrap
from pathlib import Path

from nearveil.evaluation.plan import Plan
from nearveil.evaluation.stats import Share
from nearveil.report.style import add_legend, house_style, panels, plot_estimates
from nearveil.report.text_table import TEXT_WIDTH, text_table

_WITHIN = (
    "Its guarantee holds within an interval only, and the interval of each user is disclosed; no mechanism whose "
    "guarantee holds between all locations meets the goal."
)
_CHANCE = "That it meets the goal may be chance: ask for more than you need."


def plan_text(plan: Plan) -> str:
    """Return a plan as text."""
    best, planning = plan.rows[0], plan.users.guarantee
    cautions = [] if best.contender.between_all_places or plan.recommended is None else [_WITHIN]
    cautions += [_CHANCE] if plan.verdict(best).endswith("(may be chance)") else []
    parts = [
        _wrapped(plan.sentence),
        f"    {plan.command}",
        *([_wrapped(" ".join(cautions))] if cautions else []),
        text_table(*plan.table(), width=TEXT_WIDTH),
        _wrapped(_how_measured(plan)),
        *(_wrapped(f"Left out: {reason}.") for reason in plan.left_out),
        *(_wrapped(f"{note}.") for note in plan.notes),
        *_months(plan),
        str(plan.guarantee),
        *([str(planning)] if planning else []),
        _wrapped(plan.coverage),
    ]
    return "\n\n".join(parts)


def _how_measured(plan: Plan) -> str:
    return (
        f"Goal: {plan.goal}. Measured on {plan.users.description}, in {plan.seconds:.0f} s, with 95 % intervals. The "
        "attacker knows the mechanism, its intervals or cells and every address, but not who lives there. Lists are "
        "asked from users' locations. Loss: privacy loss of the users of the file, the cost of fitting on them included."
    )


def _months(plan: Plan) -> list[str]:
    """What a service with this protection gives away; nothing where it was not measured."""
    if not plan.months:
        return []
    about = (
        f"What a service ('nearveil serve') with {plan.rows[0].name} gives away over months: of "
        f"{plan.months[0].people:,} of these users who stay at home and report every hour, with every twentieth fix "
        "150 m off, to an attacker who knows every address and combines all that is published. Longer was not measured."
    )
    headers = ["months", "found within 100 m", "named", "attacker's error (m)", "points a month"]
    rows = [
        [str(one.months), _share(one.found), _share(one.named), f"{one.error_m.value:,.0f}", f"{one.points.value:.1f}"]
        for one in plan.months
    ]
    return [_wrapped(about), text_table(headers, rows)]


def _share(share: Share) -> str:
    return f"{share.value:.2f} ({share.low:.2f}–{share.high:.2f})"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, TEXT_WIDTH, break_on_hyphens=False, break_long_words=False)


def draw_plan(plan: Plan, path: Path) -> None:
    """Draw both numbers of every setting that was measured, a line for each mechanism, as PNG."""
    with house_style():
        figure, (axes,) = panels(1, columns=1, height=5.2, width=9.0)
        for label in dict.fromkeys(row.contender.label for row in plan.rows):
            rows = [row for row in (*plan.sweep, *plan.rows) if row.contender.label == label]
            rows.sort(key=lambda row: row.estimates["listed_m"].value)
            listed, found = ([row.estimates[name] for row in rows] for name in ("listed_m", "found"))
            plot_estimates(axes, listed, found, label=label)
        best = plan.rows[0]
        label = "nearest to the goal" if plan.recommended is None else "recommended"
        ends = [best.estimates["listed_m"].value], [best.estimates["found"].value]
        axes.plot(*ends, "*", color="#D55E00", markeredgecolor="white", markersize=20, zorder=5, label=label)
        axes.axvline(best.estimates["nearest_m"].value, color="#777777", linestyle=":", label="without protection")
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.xaxis.set_minor_formatter("{x:,.0f}")
        axes.yaxis.set_major_formatter("{x:.0%}")
        axes.set_title(f"Goal: {plan.goal}")
        axes.set_xlabel(f"the {plan.goal.k} users listed are on average this far away (m): farther left costs less")
        axes.set_ylabel("users whom the best attacker finds within 100 m")
        add_legend(figure, columns=3)
        figure.savefig(path, format="png")
