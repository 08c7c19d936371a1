"""Which ids people can have, in every store alike."""

from __future__ import annotations

from collections.abc import Sequence

from nearveil.errors import DataError

LONGEST_ID = 128


def is_id(person: str) -> bool:
    """Whether a store can know somebody by this id."""
    return 0 < len(person) <= LONGEST_ID and person.isprintable()


def check_ids(people: Sequence[str]) -> None:
    """Refuse ids that are empty, too long, or hold characters that cannot be printed."""
    for row, person in enumerate(people):
        if not is_id(person):
            raise DataError(f"id number {row + 1} must be 1 to {LONGEST_ID} printable characters; nobody was added")
