"""A plan as text, its recommendation first, and as a picture."""

from __future__ import annotations

import textwrap
from pathlib import Path

from nearveil.evaluation.plan import NOT_COVERED, Plan
from nearveil.report.style import PALETTE, add_legend, house_style, panels, plain_ticks, plot_estimates, save_png
from nearveil.report.tables import frame_text
from nearveil.report.text_table import TEXT_WIDTH

_EXPOSED = {"found": "Users found within 100 m", "named_sparsest": "Users named in the sparsest tenth"}


def plan_text(plan: Plan) -> str:
    """Return a plan as text."""
    paragraphs = [plan.sentence, " ".join(plan.cautions), _how_measured(plan)]
    paragraphs += [f"Left out: {reason}." for reason in plan.left_out] + [f"{note}." for note in plan.notes]
    first, caution, *about = map(_wrapped, paragraphs)
    table = frame_text(plan.table, width=TEXT_WIDTH)
    parts = [first, f"    {plan.command}", caution, table, *about, str(plan.guarantee), NOT_COVERED]
    return "\n\n".join(filter(None, parts))


def _how_measured(plan: Plan) -> str:
    users = f"{len(plan.dataset.places):,} locations of {plan.dataset.name}"
    return (
        f"Goal: {plan.goal}. Measured on {users}, in {plan.seconds:.0f} s, with 95 % intervals in parentheses or "
        "after ±. The attacker knows the mechanism, its intervals or cells and every address, but not who lives there. "
        "Lists are asked from users' locations."
    )


def _wrapped(text: str) -> str:
    return textwrap.fill(text, TEXT_WIDTH, break_on_hyphens=False, break_long_words=False)


def draw_plan(plan: Plan, path: Path) -> None:
    """Draw both numbers of every setting that was measured, a line for each mechanism, as PNG."""
    best, nearest = plan.rows[0], plan.rows[0].estimates["nearest_m"].value
    label = "nearest to the goal" if plan.recommended is None else "recommended"
    with house_style():
        figure, both = panels(2, columns=2, height=4.8, width=11.0)
        for axes, (name, title) in zip(both, _EXPOSED.items(), strict=True):
            for mechanism in dict.fromkeys(row.contender.label for row in plan.rows):
                rows = [
                    row
                    for row in (*plan.sweep, *plan.rows)
                    if row.contender.label == mechanism and name in row.estimates
                ]
                rows.sort(key=lambda row: row.estimates["listed_m"].value)
                listed, exposed = ([row.estimates[of] for row in rows] for of in ("listed_m", name))
                plot_estimates(axes, listed, exposed, label=mechanism)
            here = best.estimates["listed_m"].value, best.estimates[name].value
            axes.plot(
                *here, "*", color=PALETTE["vermilion"], markeredgecolor="white", markersize=18, zorder=5, label=label
            )
            axes.axvline(nearest, color=PALETTE["grey"], linestyle=":", label="without protection")
            # The search goes as far as it must, which would leave no room for the rest.
            axes.set(xscale="log", xlim=(nearest / 1.2, 4 * here[0]))
            axes.yaxis.set_major_formatter("{x:.0%}")
            axes.set_title(title)
            axes.set_xlabel(f"mean distance of the {plan.k} users listed (m)")
        figure.suptitle(f"Goal: {plan.goal}")
        add_legend(figure, columns=3)
        plain_ticks(figure)
        save_png(figure, path)
