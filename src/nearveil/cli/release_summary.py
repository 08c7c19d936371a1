"""What ``nearveil protect`` says of a release: the card, and a few figures, for people and for machines."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from nearveil.cli.mechanism_choice import Wish
from nearveil.cli.release_order import Released
from nearveil.engines.card import card_of
from nearveil.evaluation.displacement import Displacement
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.privacy.guarantee import Guarantee, Notion


def summary_of(released: Released, wish: Wish) -> dict[str, Any]:
    """Return the figures and the card of a release."""
    mechanism = released.mechanism
    guarantee = card_of(
        mechanism,
        several_rows=released.several_rows,
        fitted_here=released.fitted_here,
        clipped=released.clipped,
    )
    dprs = mechanism if isinstance(mechanism, DPRS) else None
    metric = guarantee.notion is Notion.METRIC
    return {
        "rows": released.rows,
        **file_metadata(mechanism, wish),
        "epsilon": _epsilon(mechanism),
        # The paper's epsilon is no guarantee, a seed undoes the noise, and who was fitted on loses more.
        "epsilon_holds": not (
            (dprs and dprs.release == "paper")
            or mechanism.seed is not None
            or released.several_rows
            or released.fitted_here
        ),
        "holds_for_these_people": _what_holds(guarantee, mechanism, fitted_here=released.fitted_here),
        "epsilon_per_km": 1000 * guarantee.epsilon if metric else None,
        "delta": dprs.delta if dprs and dprs.release == "paper" else guarantee.delta,
        "region": str(mechanism.resolved_region),
        "clipped": released.clipped,
        "fitted_on_these_people": released.fitted_here,
        "guarantee": guarantee,
    }


def file_metadata(mechanism: Mechanism, wish: Wish) -> dict[str, Any]:
    """Return what a published file says of itself; the guarantee goes to whoever ran the command."""
    release = mechanism.release if isinstance(mechanism, DPRS) else None
    return {"mechanism": wish.chosen.value, "release": release, "seeded": _is_seeded(mechanism)}


def as_document(summary: dict[str, Any], displacement: Displacement | None, seconds: float) -> dict[str, Any]:
    """Return a release for machines."""
    guarantee: Guarantee = summary["guarantee"]
    moved = asdict(displacement) if displacement else None
    return {
        **summary,
        "seconds": round(seconds, 3),
        "displacement_m": moved and {name.removesuffix("_m"): round(value, 2) for name, value in moved.items()},
        "guarantee": guarantee.to_dict(),
    }


def as_text(summary: dict[str, Any], displacement: Displacement | None, output: str, seconds: float) -> str:
    """Return a release for people."""
    how = summary["mechanism"] + (f", release {summary['release']}" if summary["release"] else "")
    lines = [str(summary["guarantee"]), f"{summary['rows']:,} rows written to {output} in {seconds:.1f} s ({how})."]
    if displacement:
        lines.append(
            f"Moved by {displacement.mean_m:,.0f} m on average; half of them by less than {displacement.p50_m:,.0f} m, "
            f"95 % by less than {displacement.p95_m:,.0f} m (from true places: for your eyes)."
        )
    return "\n".join(lines)


def _what_holds(guarantee: Guarantee, mechanism: Mechanism, *, fitted_here: bool) -> dict[str, Any] | None:
    """The statement that is true of the people in this very file, in numbers; none where a seed was used."""
    if mechanism.seed is not None:
        return None
    statement = guarantee.also[1] if fitted_here else guarantee
    fields = ("notion", "epsilon", "offset", "unit", "delta")
    return {name: value for name, value in statement.to_dict().items() if name in fields}


def _epsilon(mechanism: Mechanism) -> float | None:
    """The epsilon asked for; none where the loss is per distance."""
    if isinstance(mechanism, DPRS):
        return None if mechanism.release == "metric" else mechanism.chosen_epsilon
    return getattr(mechanism, "epsilon", None)


def _is_seeded(mechanism: Mechanism) -> bool:
    # Intervals that are still to be fitted are seeded if the mechanism is.
    intervals = mechanism.intervals if isinstance(mechanism, DPRS) else None
    return mechanism.seed is not None or (intervals is not None and intervals.seeded)
