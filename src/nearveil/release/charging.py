"""Charging the privacy loss of a release to the ledger, before anything is published."""

from __future__ import annotations

import secrets
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime

import pyarrow as pa

from nearveil.errors import DataError, UsageError
from nearveil.io.people import People, ReadOptions
from nearveil.mechanisms.base import Learned, Mechanism
from nearveil.privacy.ledger import Fit, Ledger, Release
from nearveil.privacy.ledger.events import Event


def check_charged(read: ReadOptions, seed: int | None) -> None:
    """Refuse what cannot be charged: people without ids, and noise from a seed, which protects nobody."""
    if read.person is None or read.per_row:
        raise UsageError("a ledger charges people: name the column that tells them apart (person), one row each")
    if seed is not None:
        raise UsageError("noise from a seed protects nobody, and is not charged; leave the seed or the ledger out")


def charge_release(ledger: Ledger, mechanism: Mechanism, ids: Iterable[object], *, fitted_here: bool) -> None:
    """Put the release on record, and the fit if what was learned is from the same people, or refuse both."""
    if not mechanism.guarantee.is_promised:
        raise UsageError("this mechanism promises nothing, so that there is no loss to charge; leave the ledger out")
    who, when, draw_id = account_names(ids), datetime.now(UTC), secrets.token_hex(16)
    events: list[Event] = [Release.under(mechanism.guarantee, who=who, when=when, draw_id=f"release/{draw_id}")]
    learned = mechanism.learned
    if fitted_here and learned is not None:
        fitted = learned.guarantee(getattr(mechanism, "delta", 0.0))
        events.append(Fit.under(fitted, who=who, when=when, draw_id=f"fit/{draw_id}"))
    ledger.record_all(events)


def charge_fit(ledger: Ledger, learned: Learned, delta: float, ids: Iterable[object]) -> None:
    """Put the fit of these intervals or cells on record, or refuse it."""
    cost, draw_id = learned.guarantee(delta), f"fit/{secrets.token_hex(16)}"
    ledger.record(Fit.under(cost, who=account_names(ids), when=datetime.now(UTC), draw_id=draw_id))


def checked_ids(people: People, person: str) -> list[object]:
    """Return people's ids; refuse those of a type that could give a person two accounts."""
    ids = people.carried.column(person)
    if not (pa.types.is_integer(ids.type) or pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type)):
        raise DataError(
            f"the ids in {person!r} are neither whole numbers nor text, so a person could have two accounts; write "
            "them as either"
        )
    return list(ids.to_pylist())


def account_names(ids: Iterable[object]) -> tuple[str, ...]:
    """Return the names of people's accounts: the same person has the same whatever the file's format and the engine."""
    given = list(ids)
    names = tuple(unicodedata.normalize("NFC", str(person)).strip() for person in given)
    if len(set(names)) < len(set(given)):
        raise DataError(
            "some ids differ only in blanks around them or in how accents are written, and would share an account; "
            "write each person's id in one way"
        )
    return names
