"""What settings may hold: one reader for each kind of value, and one sentence for whatever does not fit."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from nearveil.cli._options import metres
from nearveil.errors import UsageError
from nearveil.nearby.publishing.keys import keys_from_json

Reader = Callable[[object, str], Any]
"""Takes what somebody wrote and what to call the setting in an error; returns the value."""

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_LONGEST = timedelta(days=36_525)
_YES_NO = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def duration(text: str, label: str = "a duration") -> timedelta:
    """Read a duration: ``90s``, ``15m``, ``1h`` or ``30d``.

    Examples
    --------
    >>> duration("90s")
    datetime.timedelta(seconds=90)
    """
    # A hundred years are ten digits of seconds; eight digits of days still fit into a timedelta.
    match = re.fullmatch(r"([0-9]{1,10})(s)|([0-9]{1,8})([mhd])", text.strip())
    amount, unit = (match[1] or match[3], match[2] or match[4]) if match else ("0", "s")
    length = timedelta(**{_UNITS[unit]: int(amount)})
    if not timedelta() < length <= _LONGEST:
        raise UsageError(f"{label} takes a duration from 1s to 100 years such as 90s, 15m, 1h or 30d")
    return length


def text(value: object, label: str) -> str:
    """Read text without control characters."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise UsageError(f"{label} takes text in one line")
    return value.strip()


def path(value: object, label: str) -> Path:
    """Read the path of a file."""
    return value if isinstance(value, Path) else Path(text(value, label))


def text_of_keys(value: object, _label: str) -> str:
    """Read keys as JSON; the error says what to do and shows nothing."""
    keys_from_json(str(value))
    return str(value)


def yes_no(value: object, label: str) -> bool:
    """Read true or false."""
    found = value if isinstance(value, bool) else _YES_NO.get(str(value).strip().lower())
    if found is None:
        raise UsageError(f"{label} takes true or false")
    return found


def duration_as_written(value: object, label: str) -> str:
    """Check a duration; keep how it is written."""
    written = value.strip() if isinstance(value, str) else ""
    duration(written, label)
    return written


def length_as_written(value: object, label: str) -> str:
    """Check a length; keep how it is written, a plain number as metres."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    written = f"{value}m" if plain else str(value).strip()
    metres(written, label)
    return written


def whole(least: int, most: int) -> Reader:
    """Return a reader of whole numbers."""

    def read(value: object, label: str) -> int:
        written = value.strip() if isinstance(value, str) else value
        if isinstance(written, str) and re.fullmatch(r"[0-9]{1,18}", written):
            written = int(written)
        if isinstance(written, bool) or not isinstance(written, int) or not least <= written <= most:
            raise UsageError(f"{label} takes a whole number from {least:,} to {most:,}")
        return written

    return read


def number(least: float, most: float) -> Reader:
    """Return a reader of numbers."""

    def read(value: object, label: str) -> float:
        try:
            found = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            found = math.nan
        if not least <= found <= most:
            raise UsageError(f"{label} takes a number from {least:,g} to {most:,g}")
        return found

    return read


def one_of(choices: type[StrEnum] | tuple[str, ...]) -> Reader:
    """Return a reader of one of a few words."""
    words = [str(choice) for choice in choices]

    def read(value: object, label: str) -> str:
        written = str(value).strip().lower()
        if written not in words:
            raise UsageError(f"{label} takes one of: {', '.join(words)}")
        return written if isinstance(choices, tuple) else choices(written)

    return read


def tile_address(value: object, label: str) -> str:
    """Read the address of map tiles."""
    written = text(value, label)
    if re.fullmatch(r"https?://[^\s\"'<>]+", written) is None or any(
        part not in written for part in ("{z}", "{x}", "{y}")
    ):
        raise UsageError(
            f"{label} takes an address with {{z}}, {{x}} and {{y}} such as https://tiles/{{z}}/{{x}}/{{y}}.png"
        )
    return written


def masked(address: str) -> str:
    """Return a store's address without its password: rather too much is hidden than too little.

    Examples
    --------
    >>> masked("postgresql://ann:secret@db/nearveil")
    'postgresql://ann:***@db/nearveil'
    """
    scheme, separator, rest = address.partition("://")
    if separator and "@" in rest:
        login, _, place = rest.rpartition("@")
        user, colon, _ = login.partition(":")
        rest = f"{user}{colon}{'***' if colon else ''}@{place}"
    return re.sub(r"(?i)(pass\w*\s*=\s*)[^&\s]+", r"\1***", scheme + separator + rest)
