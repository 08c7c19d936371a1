"""What ``nearveil protect`` says of a release: the card, and a few figures, for people and for machines."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from nearveil.cli._options import Wish
from nearveil.cli.release_order import Released
from nearveil.evaluation.utility import Displacement
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.privacy.guarantee import Guarantee, Notion
from nearveil.release.card import card_of

# The mean of fewer says much of each of them.
_FEWEST_FOR_A_MEAN = 1000


def summary_of(released: Released, wish: Wish) -> dict[str, Any]:
    """Return the figures and the card of a release."""
    mechanism = released.mechanism
    guarantee = card_of(
        mechanism,
        several_rows=released.several_rows,
        fitted_here=released.fitted_here,
        clip=released.clip,
        keeps_order=released.keeps_order,
    )
    dprs = mechanism if isinstance(mechanism, DPRS) else None
    metric = guarantee.notion is Notion.METRIC
    return {
        "rows": released.rows,
        **file_metadata(mechanism, wish),
        "epsilon": _epsilon(mechanism),
        # The paper's epsilon is no guarantee, and who was fitted on loses more.
        "epsilon_holds": not (
            (dprs and dprs.chosen_release == "paper") or _may_be_fitted_on(released) or _is_more_lost(released)
        ),
        "holds_for_these_people": _what_holds(guarantee, released),
        "epsilon_per_km": 1000 * guarantee.epsilon if metric else None,
        "delta": dprs.delta if dprs and dprs.chosen_release == "paper" else guarantee.delta,
        "region": str(mechanism.resolved_region),
        "order": "kept" if released.keeps_order else "random",
        # Nobody has told whose places are in an intervals file.
        "fitted_on_these_people": None
        if _may_be_fitted_on(released) and not released.fitted_here
        else released.fitted_here,
        "guarantee": guarantee,
    }


def file_metadata(mechanism: Mechanism, wish: Wish) -> dict[str, Any]:
    """Return what a published file says of itself; the guarantee goes to whoever ran the command."""
    release = mechanism.chosen_release if isinstance(mechanism, DPRS) else None
    return {"mechanism": wish.chosen.value, "release": release, "seeded": _is_seeded(mechanism)}


def as_document(summary: dict[str, Any]) -> dict[str, Any]:
    """Return a release for machines, to travel with the file: nothing in it was computed from true places."""
    guarantee: Guarantee = summary["guarantee"]
    return {**summary, "guarantee": guarantee.to_dict()}


def as_text(summary: dict[str, Any], displacement: Displacement | None, output: str, seconds: float) -> str:
    """Return a release for people."""
    how = summary["mechanism"] + (f", release {summary['release']}" if summary["release"] else "")
    rows = f"{summary['rows']:,} row" + ("" if summary["rows"] == 1 else "s")
    lines = [str(summary["guarantee"]), f"{rows} written to {output} in {seconds:.1f} s ({how})."]
    if displacement and summary["rows"] >= _FEWEST_FOR_A_MEAN:
        about_m = float(f"{displacement.mean_m:.2g}")
        lines.append(f"Moved by about {about_m:,.0f} m on average (from true places; do not publish).")
    return "\n".join(lines)


def figures_from_true_places(released: Released, seconds: float) -> dict[str, Any]:
    """Return what was computed from true places, for whoever may see these."""
    return {
        "about": (
            "Figures computed from true places without noise, for the operator alone. Do not publish them, and do not "
            "pass them on with the protected file or its guarantee."
        ),
        "rows": released.rows,
        "clipped": released.clipped,
        "displacement_m": _metres(released.displacement) if released.displacement else None,
        "seconds": round(seconds, 3),
    }


def _metres(displacement: Displacement) -> dict[str, float]:
    return {name.removesuffix("_m"): round(value, 2) for name, value in asdict(displacement).items()}


def _may_be_fitted_on(released: Released) -> bool:
    """Whether the intervals were learned from people, these or unknown ones."""
    mechanism = released.mechanism
    return isinstance(mechanism, DPRS) and bool(mechanism.current_intervals.answers)


def _is_more_lost(released: Released) -> bool:
    """Whether more is lost than a statement about one place of a person can say."""
    # A seed undoes the noise, rows of one person add up, and the order of rows is not covered.
    return released.mechanism.seed is not None or released.several_rows or released.keeps_order


def _what_holds(guarantee: Guarantee, released: Released) -> dict[str, Any] | None:
    """The statement that is true of the people in this very file, in numbers; none where no number says it all.

    Intervals from a file may have been fitted on the same people, so that the fit counts.
    """
    if _is_more_lost(released):
        return None
    statement = guarantee.also[1] if _may_be_fitted_on(released) else guarantee
    fields = ("notion", "epsilon", "offset", "unit", "delta")
    return {name: value for name, value in statement.to_dict().items() if name in fields}


def _epsilon(mechanism: Mechanism) -> float | None:
    """The epsilon asked for; none where the loss is per distance."""
    if isinstance(mechanism, DPRS):
        return None if mechanism.chosen_release == "metric" else mechanism.chosen_epsilon
    return getattr(mechanism, "epsilon", None)


def _is_seeded(mechanism: Mechanism) -> bool:
    # Intervals that are still to be fitted are seeded if the mechanism is.
    intervals = mechanism.intervals if isinstance(mechanism, DPRS) else None
    return mechanism.seed is not None or (intervals is not None and intervals.seeded)
