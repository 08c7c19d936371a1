"""What is checked before it is sent."""

from __future__ import annotations

import math
import re
from urllib.parse import quote

from nearveil.errors import UsageError

_ID = re.compile(r"[A-Za-z0-9_.:@-]{1,128}")


def checked_key(key: str) -> str:
    """Return a key that can stand in a request's head."""
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise UsageError("this is no key of a Nearveil service; keys begin with nvk_ and tokens with nvt_")
    return key


def checked_id(person: str) -> str:
    """Return an id that a service takes."""
    if not _ID.fullmatch(person):
        raise UsageError("an id is 1 to 128 of the characters A-Z a-z 0-9 _ . : @ -")
    return person


def person_path(person: str, rest: str = "") -> str:
    """Return a person's address, with what follows it."""
    # The dots of an id that is nothing but dots would otherwise be taken for steps through folders.
    name = quote(checked_id(person), safe="")
    return f"/v1/people/{name.replace('.', '%2E') if not person.strip('.') else name}{rest}"


def place_body(latitude: float, longitude: float) -> dict[str, float]:
    """Return a place as requests hold it."""
    if not (math.isfinite(latitude) and math.isfinite(longitude)):
        raise UsageError("a place is two numbers, latitude and longitude in degrees")
    return {"latitude": float(latitude), "longitude": float(longitude)}
