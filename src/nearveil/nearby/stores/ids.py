"""Which ids people can have, in every store alike."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from nearveil.errors import DataError

LONGEST_ID = 128
_MARK_BITS = 63


def is_id(person: str) -> bool:
    """Whether a store can know somebody by this id."""
    return 0 < len(person) <= LONGEST_ID and person.isprintable()


def check_ids(people: Sequence[str]) -> None:
    """Refuse ids that are empty, too long, or hold characters that cannot be printed."""
    for row, person in enumerate(people):
        if not is_id(person):
            raise DataError(f"id number {row + 1} must be 1 to {LONGEST_ID} printable characters; nobody was added")


def new_token_mark() -> int:
    """Return a number that no other call returns: tokens of whoever is erased do not fit whoever comes after them."""
    return secrets.randbits(_MARK_BITS)
