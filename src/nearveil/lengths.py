"""Lengths as text: ``500m``, ``0.5km``, ``0.3mi``."""

from __future__ import annotations

import math
import re

from nearveil.errors import UsageError

_METERS_IN = {"": 1.0, "m": 1.0, "km": 1000.0, "mi": 1609.344}


def meters(length: float | str, name: str) -> float:
    """Return a length in meters: a number as it is, and text, which errors call ``name``, as it is read."""
    if not isinstance(length, str):
        return length
    match = re.fullmatch(r"\s*([0-9.]+(?:e[-+]?[0-9]+)?)\s*(m|km|mi|)\s*", length, re.IGNORECASE)
    try:
        number = float(match[1]) * _METERS_IN[match[2].lower()] if match else 0.0
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise UsageError(f"{name} takes a length greater than 0, such as 500m, 0.5km or 0.3mi")
    return number
