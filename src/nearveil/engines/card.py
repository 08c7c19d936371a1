"""The guarantee of a release as its people should read it, whichever engine made it."""

from __future__ import annotations

from nearveil.mechanisms.base import Mechanism
from nearveil.privacy.guarantee import Guarantee

FITTED_HERE = (
    "The intervals were fitted on the people of this file, so what holds for them is the statement that begins with "
    "'Together'. With intervals made from other data (--intervals) the first statement is theirs."
)
ROWS_COMPOSE = (
    "People may have several rows, and a person's rows compose: each is a release of its own, and their losses add up. "
    "Rows at one place average out, so that place is protected less with every row."
)


def card_of(mechanism: Mechanism, *, several_rows: bool, fitted_here: bool, clipped: int) -> Guarantee:
    """Return what a release promises, with what its people must know besides.

    Parameters
    ----------
    mechanism : Mechanism
        With its intervals, if it has any.
    several_rows : bool
        Whether a person may have several rows.
    fitted_here : bool
        Whether the intervals are from the people released.
    clipped : int
        How many rows were moved to the edge of the region first.
    """
    guarantee = mechanism.guarantee
    if several_rows:
        guarantee = guarantee.counted_per_row().with_note(ROWS_COMPOSE)
    if fitted_here:
        guarantee = guarantee.with_note(FITTED_HERE)
    if clipped:
        guarantee = guarantee.with_note(
            f"{clipped:,} rows were outside the region and moved to its edge first; only the place on the edge is "
            "protected, and that they were outside may show."
        )
    return guarantee
