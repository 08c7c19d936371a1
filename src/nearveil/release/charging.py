"""Charging the privacy loss of a release to the ledger, before anything is published."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pyarrow as pa

from nearveil.errors import DataError, NearveilError, UsageError
from nearveil.io.people import People, ReadOptions
from nearveil.mechanisms.base import FitRefusedError, Mechanism
from nearveil.privacy.guarantee import Guarantee
from nearveil.privacy.ledger import Ledger

Result = TypeVar("Result")


def check_charged(read: ReadOptions, seed: int | None) -> None:
    """Refuse what cannot be charged: people without ids, and noise from a seed, which protects nobody."""
    if read.person is None or read.per_row:
        raise UsageError("a ledger charges people: name the column that tells them apart (person), one row each")
    if seed is not None:
        raise UsageError("noise from a seed protects nobody, and is not charged; leave the seed or the ledger out")


def charge_release(ledger: Ledger, mechanism: Mechanism, ids: Iterable[object], *, fitted_here: bool) -> None:
    """Put the release on record, and the fit if what was learned is from the same people, or refuse both.

    Where the cost of the release follows from what was learned, its refusal tells something of that, and the fit is on
    record first.
    """
    users, learned, guarantees = [str(user) for user in ids], mechanism.learned, [mechanism.guarantee]
    if fitted_here and learned is not None:
        guarantees.insert(0, learned.guarantee(_delta(mechanism)))
    if not mechanism.cost_follows_fit:
        ledger.charge(guarantees, users)
        return
    budgets = ledger.budgets
    for guarantee in guarantees:
        if guarantee.definition not in budgets:
            raise UsageError(
                f"the ledger has no budget for the {guarantee.definition} privacy definition; add one first"
            )
    for guarantee in guarantees:
        ledger.charge([guarantee], users)


def charge_fit(ledger: Ledger, cost: Guarantee, ids: Iterable[object]) -> None:
    """Put a fit at this cost on record, or refuse it."""
    ledger.charge([cost], [str(user) for user in ids])


def with_refusals_charged(
    fit: Callable[[], Result], ledger: Ledger | None, mechanism: Mechanism, ids: Iterable[object]
) -> Result:
    """Run a fit and what may be refused because of it. Charge a refusal before it is told, if people were looked at.

    Such a refusal tells something of them, as the intervals or cells would. One that comes before is not charged.
    """
    before = mechanism.fitted
    try:
        return fit()
    except NearveilError as error:
        refusal = error
    # Not in the handler: if the fit cannot be afforded, the error that says so does not carry the refusal along.
    fitted = mechanism.fitted
    if ledger is not None:
        if isinstance(refusal, FitRefusedError):
            charge_fit(ledger, refusal.cost, ids)
        elif fitted is not None and fitted is not before:
            charge_fit(ledger, fitted.guarantee(_delta(mechanism)), ids)
    raise refusal


def _delta(mechanism: Mechanism) -> float:
    return float(getattr(mechanism, "delta", 0.0))


def checked_ids(people: People, person: str) -> list[object]:
    """Return people's ids; refuse those of a type that could give a person two accounts."""
    ids = people.carried.column(person)
    if not (pa.types.is_integer(ids.type) or pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type)):
        raise DataError(
            f"the ids in {person!r} are neither whole numbers nor text, so a person could have two accounts; write "
            "them as either"
        )
    return list(ids.to_pylist())
