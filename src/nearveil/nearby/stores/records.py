"""A person's record: everything that a store holds about somebody, as plain values for an export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from nearveil.nearby.stores.base import STEP_M, Draw


def person_record(
    person: str,
    created_s: int,
    token_mark: int,
    *,
    pending: tuple[Draw, int] | None,
    published: tuple[Draw, int] | None,
    charges: Sequence[tuple[int, bytes]],
) -> dict[str, Any]:
    """Write a record; draws come with their epoch, charges as windows and tags."""
    numbers = Counter(window for window, _ in charges)
    return {
        "id": person,
        "created": datetime.fromtimestamp(created_s, UTC).isoformat(),
        "token_mark": token_mark,
        "pending": _waiting_record(pending),
        "published": _draw_record(published),
        "charges": {str(window): numbers[window] for window in sorted(numbers)},
        "tags": [tag.hex() for _, tag in sorted(charges)],
    }


def held_draw(person: str, row: Sequence[Any] | None) -> tuple[Draw, int] | None:
    """Read a draw and its epoch from a row of either table of draws."""
    if row is None:
        return None
    x_steps, y_steps, tag, window, receipt, epoch = row
    draw = Draw(person=person, x_steps=x_steps, y_steps=y_steps, tag=bytes(tag), window=window, receipt=receipt)
    return draw, epoch


def _waiting_record(held: tuple[Draw, int] | None) -> dict[str, Any] | None:
    """That something waits, and not what: a draw that is never published is not charged, so nobody may see it."""
    if held is None:
        return None
    draw, epoch = held
    return {"window": draw.window, "receipt": draw.receipt, "publishes_in_epoch": epoch}


def _draw_record(held: tuple[Draw, int] | None) -> dict[str, Any] | None:
    if held is None:
        return None
    draw, epoch = held
    return {
        "x_m": draw.x_steps * STEP_M,
        "y_m": draw.y_steps * STEP_M,
        "tag": draw.tag.hex(),
        "window": draw.window,
        "receipt": draw.receipt,
        "epoch": epoch,
    }
