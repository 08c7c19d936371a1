"""The guarantee card of a release, with the conditions that its readers must know."""

from __future__ import annotations

from dataclasses import replace

from nearveil.mechanisms.base import SEEDED_NOTE, Mechanism
from nearveil.privacy.guarantee import Guarantee

FITTED_HERE = (
    "The intervals were fitted on the people of this file: 'Together' holds for them. With intervals made from other "
    "data (--intervals) the first statement holds."
)
ROWS_COMPOSE = (
    "Counted per row: a person's rows compose, and their losses add up. Rows at one place average out, so that place "
    "is protected less with every row."
)


CLIPPED = "Places outside the region are moved to its edge, and that may show. Only the place on the edge is protected."
KEPT_ORDER = (
    "The order of the rows is kept (--keep-order) and not covered. Where it follows places or times, a person's "
    "neighbours in the file tell where the person is, however large the noise: somebody who knows the places of those "
    "neighbours knows it within metres. Without --keep-order rows are in a secret random order."
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
    guarantee = mechanism.guarantee.counted_per_row() if several_rows else mechanism.guarantee
    # The guarantee of a third-party class may not mention seeds.
    seeded = mechanism.seed is not None and SEEDED_NOTE not in guarantee.notes
    said = {
        SEEDED_NOTE: seeded,
        KEPT_ORDER: keeps_order,
        ROWS_COMPOSE: several_rows,
        FITTED_HERE: fitted_here,
        CLIPPED: clip,
    }
    notes = [*(note for note, is_so in said.items() if is_so), *guarantee.notes]
    # A short card has room for the first ones, and nothing matters more than that a seed protects nobody.
    return replace(guarantee, notes=tuple(sorted(notes, key=lambda note: note != SEEDED_NOTE)))
