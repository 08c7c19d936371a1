"""Types of settings: text is parsed, and a value that is not text must have the right type.

Each type says in words what it takes, for the help and for the sentence about a wrong value.
"""

from __future__ import annotations

import ipaddress
import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Strict

from nearveil.errors import UsageError
from nearveil.mechanisms.fit_cells import MOST_HIDE_AMONG
from nearveil.nearby.publishing.keys import keys_from_json
from nearveil.lengths import meters

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_LONGEST = timedelta(days=36_525)
_DURATION = "a duration from 1s to 100 years such as 90s, 15m, 1h or 30d"


class Takes(NamedTuple):
    """Description of the values that a setting takes, for error messages and for the help."""

    text: str
    metavar: str | None = None


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
        raise UsageError(f"{label} takes {_DURATION}")
    return length


def _number_from(kind: type[float]) -> BeforeValidator:
    return BeforeValidator(lambda value: kind(value) if isinstance(value, str) else value)


def word(value: object) -> str:
    """Return a value as one of a few words, however it is written."""
    return str(value).strip().lower()


def _one_line(value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise ValueError("not a line of text")
    return value.strip()


def _file(value: object) -> object:
    return Path(_one_line(value)) if isinstance(value, str) else value


def _keys_as_json(value: str) -> str:
    keys_from_json(value)
    return value


def _length_as_written(value: object) -> str:
    """Check a length; keep how it is written, a plain number as metres."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    written = f"{value}m" if plain else str(value).strip()
    meters(written, "it")
    return written


def _duration_as_written(value: str) -> str:
    duration(value)
    return value.strip()


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def networks(text: str) -> tuple[Network, ...]:
    """Read addresses and networks, separated by commas; ``none`` for none.

    Examples
    --------
    >>> networks("127.0.0.1, 10.0.0.0/8")
    (IPv4Network('127.0.0.1/32'), IPv4Network('10.0.0.0/8'))
    """
    if text.strip().lower() == "none":
        return ()
    return tuple(ipaddress.ip_network(part.strip()) for part in text.split(","))


def _networks_as_written(value: str) -> str:
    networks(value)
    return value.strip()


def _tile_address(value: str) -> str:
    has_parts = all(part in value for part in ("{z}", "{x}", "{y}"))
    if not has_parts or re.fullmatch(r"https?://[^\s\"'<>]+", value.strip()) is None:
        raise ValueError("not an address of tiles")
    return _one_line(value)


def _web_address(value: str) -> str:
    parts = urlsplit(_one_line(value))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not a web address")
    return value.strip()


def _redis_address(value: str) -> str:
    parts = urlsplit(_one_line(value))
    is_there = bool(parts.path) if parts.scheme == "unix" else parts.scheme in ("redis", "rediss") and parts.hostname
    if not is_there or (parts.scheme != "unix" and parts.port == 0):
        raise ValueError("not an address of Redis")
    return value.strip()


Text = Annotated[str, AfterValidator(_one_line), Takes("text in one line")]
RegionName = Annotated[str | None, AfterValidator(_one_line), Takes("text in one line", "REGION")]
Whole = Annotated[int, Strict(), _number_from(int)]
Number = Annotated[float, Strict(), _number_from(float)]
YesNo = Annotated[bool, BeforeValidator(word), Takes("true or false")]
Length = Annotated[
    str | None, BeforeValidator(_length_as_written), Takes("a length greater than 0 such as 500m or 0.5km", "LENGTH")
]
People = Annotated[
    int | None, Strict(), _number_from(int), Takes(f"a whole number from 2 to {MOST_HIDE_AMONG:,}", "NUMBER")
]
Duration = Annotated[str, AfterValidator(_duration_as_written), Takes(_DURATION, "TIME")]
Networks = Annotated[
    str,
    AfterValidator(_networks_as_written),
    Takes("addresses or networks such as 10.0.0.5,10.1.0.0/16, or none", "ADDRESSES"),
]
File = Annotated[Path | None, BeforeValidator(_file), Takes("text in one line", "FILE")]
KeysAsJson = Annotated[str | None, AfterValidator(_keys_as_json), Takes("keys as JSON")]
RedisAddress = Annotated[
    str | None,
    AfterValidator(_redis_address),
    Takes("an address of Redis or Valkey such as redis://cache:6379/0, rediss://… or unix:///run/redis.sock", "URL"),
]
WebAddress = Annotated[
    str | None,
    AfterValidator(_web_address),
    Takes("a web address such as http://127.0.0.1:4318/v1/traces", "URL"),
]
TileAddress = Annotated[
    str | None,
    AfterValidator(_tile_address),
    Takes("an address with {z}, {x} and {y} such as https://tiles/{z}/{x}/{y}.png", "URL"),
]


# Addresses with passwords.


def has_password(value: object) -> bool:
    """Whether a value is an address or a connection string with a password; in doubt it has one.

    Examples
    --------
    >>> has_password("redis://:secret@cache:6379"), has_password("postgresql://ann@db/nearveil")
    (True, False)
    """
    return isinstance(value, str) and masked(value) != value


def masked(address: str) -> str:
    """Return a store's address without its password; in doubt it hides too much.

    Examples
    --------
    >>> masked("postgresql://ann:secret@db/nearveil")
    'postgresql://ann:***@db/nearveil'
    """
    scheme, separator, rest = address.partition("://")
    if separator and "@" in rest:
        login, _, host = rest.rpartition("@")
        user, colon, _ = login.partition(":")
        rest = f"{user}{colon}{'***' if colon else ''}@{host}"
    return re.sub(r"(?i)(pass\w*\s*=\s*)[^&\s]+", r"\1***", scheme + separator + rest)
