"""What a release guarantees: the mechanism's guarantee, counted in what it counts, and what users must know besides."""

from __future__ import annotations

from dataclasses import replace

from nearveil.errors import UsageError
from nearveil.mechanisms.base import Mechanism, is_mechanism
from nearveil.mechanisms.registry import check_instance, has_own_fit, is_own
from nearveil.privacy.guarantee import SEEDED_NOTE, Counted, Guarantee

MOVED_TOGETHER = (
    "a user's locations and the same locations moved together, like a rigid figure, at a loss of epsilon times the "
    "farthest move for each place"
)
ONE_GRID = (
    "All places of a user share one secret grid. Where some move and others stay, up to 0.71 comes on top of epsilon "
    "times the distance for each place, near the grid's poles up to 0.87."
)
ROWS_ADD_UP = (
    "Counted per row: the losses of a user's rows add up, and rows at one location average out. If a user may have "
    "several rows, name the column of users."
)
FITTED_HERE = "The {0} were fitted on the users published here: 'Together' holds for them."
AS_STATED = "Where the {0} come from, and what that cost, is taken as stated. It cannot be checked here."
NOT_OURS = (
    "The author of {} states this. The class passed our conformance suite, and nobody here has proved its guarantee."
)
LEFT_OUT = (
    "Rows that cannot be used, such as those outside the region, are left out. Anyone who knows that a user is in the "
    "input and missing here learns that the row was such a one."
)
KEPT_ORDER = (
    "The order of the rows is kept, and no guarantee covers it. Where it follows locations or times, a row's neighbors "
    "tell where the row is, however large the noise. By default rows are in a secret random order."
)


def check_mechanism(mechanism: object) -> Mechanism:
    """Return a mechanism; refuse what cannot be released, or would carry a guarantee that is not true."""
    if not is_mechanism(mechanism):
        raise UsageError("mechanism must be a Mechanism, such as PlanarLaplace(500) or HideAmong(cells=...)")
    if is_own(mechanism):
        return mechanism
    name = type(mechanism).__name__
    if not has_own_fit(mechanism):
        raise UsageError(
            f"{name} learns from users in its fit, which only DPRS and HideAmong may in a release; give what it "
            "learned to its constructor"
        )
    check_instance(mechanism)
    from nearveil.auditing.conformance import failure_of  # noqa: PLC0415 - loads the auditor, for others' classes only

    failure = failure_of(mechanism) if mechanism.guarantee.is_promised else None
    if failure is not None:
        raise UsageError(
            f"{name} fails the conformance suite, so its guarantee would not be true ({failure}); fix it, or let it "
            "return Guarantee.claimed_by_nobody()"
        )
    return mechanism


def places_guarantee(mechanism: Mechanism, most: int) -> Guarantee:
    """Return what holds for users with up to ``most`` places, whose locations `Mechanism.perturb_users` published.

    With a grid, `nearveil.veil` has the proofs: the first for one place, the second and the third for several.
    """
    found = mechanism.guarantee.counted_per_place(most)
    if mechanism.places != "grid" or most == 1:
        return found
    return replace(found, neighbors=MOVED_TOGETHER, notes=(ONE_GRID, *found.notes), certificate=None)


def release_guarantee(
    mechanism: Mechanism, counted: Counted, *, most_places: int, fitted_here: bool, skips_rows: bool, keeps_order: bool
) -> Guarantee:
    """Return what a release guarantees. Nothing here depends on a true location, but for what is published anyway.

    Parameters
    ----------
    mechanism : Mechanism
        With its intervals or cells, if it has any.
    counted : Counted
        What the guarantee counts: users with one row each, places of users, or rows.
    most_places : int
        How many places the user with the most has; what is published shows it.
    fitted_here : bool
        Whether the intervals or cells are from the users released.
    skips_rows, keeps_order : bool
        Whether rows that cannot be used are left out, and whether rows are in the order of the input.
    """
    guarantee = mechanism.guarantee
    if counted is Counted.ROWS:
        guarantee = guarantee.counted_per_row()
    elif counted is Counted.PLACES:
        guarantee = places_guarantee(mechanism, most_places)
    conditions = {
        # The guarantee of somebody else's class may not mention seeds.
        SEEDED_NOTE: mechanism.seed is not None and SEEDED_NOTE not in guarantee.notes,
        KEPT_ORDER: keeps_order,
        ROWS_ADD_UP: counted is Counted.ROWS,
        FITTED_HERE.format(mechanism.learns): fitted_here,
        LEFT_OUT: skips_rows,
        AS_STATED.format(mechanism.learns): mechanism.learned is not None and not fitted_here,
        NOT_OURS.format(type(mechanism).__name__): not is_own(mechanism) and guarantee.is_promised,
    }
    notes = [*(note for note, is_so in conditions.items() if is_so), *guarantee.notes]
    # A short summary has room for the first ones, and nothing matters more than that a seed protects nobody.
    return replace(guarantee, notes=tuple(sorted(notes, key=lambda note: note != SEEDED_NOTE)))
