"""The guarantee of a release as its people should read it, whichever engine made it."""

from __future__ import annotations

from nearveil.mechanisms.base import SEEDED_NOTE, Mechanism
from nearveil.privacy.guarantee import Guarantee

FITTED_HERE = (
    "The intervals were fitted on the people of this file, so what holds for them is the statement that begins with "
    "'Together'. With intervals made from other data (--intervals) the first statement is theirs."
)
ROWS_COMPOSE = (
    "People may have several rows, and a person's rows compose: each is a release of its own, and their losses add up. "
    "Rows at one place average out, so that place is protected less with every row."
)


CLIPPED = (
    "Places outside the region are moved to its edge first. Only the place on the edge is protected, and that somebody "
    "was outside may show."
)
KEPT_ORDER = (
    "The rows are in the order of the input (--keep-order), and this guarantee does not cover the order. Where it "
    "follows places or times, a person's neighbours in the file tell where the person is, however large the noise; "
    "whoever knows the places of those neighbours knows it within metres. Without --keep-order rows are in a secret "
    "random order."
)


def card_of(
    mechanism: Mechanism, *, several_rows: bool, fitted_here: bool, clip: bool, keeps_order: bool = False
) -> Guarantee:
    """Return what a release promises, with what its people must know besides.

    Nothing here depends on a true place: that rows may be clipped is said where that is allowed, not where it happened.

    Parameters
    ----------
    mechanism : Mechanism
        With its intervals, if it has any.
    several_rows : bool
        Whether a person may have several rows.
    fitted_here : bool
        Whether the intervals are from the people released.
    clip : bool
        Whether people outside the region are moved to its edge.
    keeps_order : bool
        Whether the rows are in the order of the input.
    """
    guarantee = mechanism.guarantee
    # Somebody else's guarantee need not know of seeds.
    if mechanism.seed is not None and SEEDED_NOTE not in guarantee.notes:
        guarantee = guarantee.with_note(SEEDED_NOTE)
    if several_rows:
        guarantee = guarantee.counted_per_row().with_note(ROWS_COMPOSE)
    if fitted_here:
        guarantee = guarantee.with_note(FITTED_HERE)
    if clip:
        guarantee = guarantee.with_note(CLIPPED)
    if keeps_order:
        guarantee = guarantee.with_note(KEPT_ORDER)
    return guarantee
