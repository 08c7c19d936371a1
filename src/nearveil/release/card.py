"""The guarantee card of a release, with the conditions that its readers must know."""

from __future__ import annotations

from dataclasses import replace

from nearveil.errors import UsageError
from nearveil.mechanisms.base import Mechanism, is_mechanism
from nearveil.mechanisms.registry import check_instance, has_own_fit, is_own
from nearveil.privacy.guarantee import SEEDED_NOTE, Guarantee

FITTED_HERE = (
    "The {0} were fitted on the people of this file: 'Together' holds for them. With {0} made from other data "
    "(--{0}) the first statement holds."
)
ROWS_COMPOSE = (
    "Counted per row: a person's rows compose, and their losses add up. Rows at one place average out, so that place "
    "is protected less with every row."
)


AS_STATED = "Where the {0} are from, and what that cost, is taken as stated. It cannot be checked here."
NOT_OURS = (
    "The author of {} states this. Nearveil has tested the class (nearveil.audit.conformance), and nobody here has "
    "proved it."
)
CLIPPED = "Places outside the region are moved to its edge, and that may show. Only the place on the edge is protected."
LEFT_OUT = (
    "Rows that cannot be used, such as those outside the region, are left out, and that may show: of "
    "somebody who is known to be in the input and is missing here, it says that the row was such a one."
)
KEPT_ORDER = (
    "The order of the rows is kept and not covered. Where it follows places or times, a person's "
    "neighbors in the file tell where the person is, however large the noise: somebody who knows the places of those "
    "neighbors knows it within metres. By default rows are in a secret random order."
)


def check_mechanism(mechanism: Mechanism) -> None:
    """Refuse what cannot be released, or would carry a guarantee that is not true."""
    if not is_mechanism(mechanism):
        raise UsageError("mechanism must be a Mechanism, such as PlanarLaplace() or DPRS()")
    if is_own(mechanism):
        return
    name = type(mechanism).__name__
    if not has_own_fit(mechanism):
        raise UsageError(
            f"{name} learns from people in its fit, which only DPRS and HideAmong may in a release; give what it "
            "learned to its constructor"
        )
    check_instance(mechanism)
    from nearveil.audit.conformance import failure_of  # noqa: PLC0415 - loads the auditor, for others' classes only

    failure = failure_of(mechanism) if mechanism.guarantee.is_promised else None
    if failure is not None:
        raise UsageError(
            f"{name} fails the conformance suite, so its guarantee would not be true ({failure}); mend it, or let it "
            "return Guarantee.claimed_by_nobody()"
        )


def card_of(
    mechanism: Mechanism,
    *,
    several_rows: bool,
    fitted_here: bool,
    clip: bool,
    skip_bad: bool = False,
    keeps_order: bool = False,
) -> Guarantee:
    """Return what a release promises, with what its people must know besides.

    Nothing here depends on a true place: that rows may be clipped is said where that is allowed, not where it happened.

    Parameters
    ----------
    mechanism : Mechanism
        With its intervals or cells, if it has any.
    several_rows : bool
        Whether a person may have several rows.
    fitted_here : bool
        Whether the intervals or cells are from the people released.
    clip : bool
        Whether people outside the region are moved to its edge.
    skip_bad : bool
        Whether rows that cannot be used are left out.
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
        FITTED_HERE.format(mechanism.learns): fitted_here,
        CLIPPED: clip,
        LEFT_OUT: skip_bad,
        AS_STATED.format(mechanism.learns): mechanism.learned is not None and not fitted_here,
        NOT_OURS.format(type(mechanism).__name__): not is_own(mechanism) and guarantee.is_promised,
    }
    notes = [*(note for note, is_so in said.items() if is_so), *guarantee.notes]
    # A short card has room for the first ones, and nothing matters more than that a seed protects nobody.
    return replace(guarantee, notes=tuple(sorted(notes, key=lambda note: note != SEEDED_NOTE)))
