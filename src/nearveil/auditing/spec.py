"""Mechanisms as plain values: a file says exactly what was certified or audited, to be rebuilt."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.registry import MECHANISMS, mechanism_entry
from nearveil.region import Region


def mechanism_to_spec(mechanism: Mechanism) -> dict[str, Any]:
    """Return a mechanism's name and parameters as plain values; what was fitted counts as given.

    The seed is left out: a certificate or an audit speaks of the mechanism, not of one draw.
    """
    if getattr(mechanism, "_noise_factor", 1.0) != 1.0:
        raise UsageError("noise that was rescaled for a test is not what the parameters say, and is not written down")
    kind = type(mechanism)
    if "<locals>" in kind.__qualname__:
        raise UsageError(f"{kind.__name__} is defined in a function and cannot be found again by a file")
    params = {name: value for name, value in mechanism.to_spec_params().items() if name != "seed" and value is not None}
    name = next(
        (name for name, entry in MECHANISMS.items() if entry.mechanism is kind),
        f"{kind.__module__}:{kind.__qualname__}",
    )
    return {"mechanism": name, "params": {each: _plain(value) for each, value in params.items()}}


def mechanism_from_spec(document: dict[str, Any], *, trusted: str | None = None) -> Mechanism:
    """Rebuild the mechanism that `mechanism_to_spec` described.

    Somebody else's class is run only if ``trusted`` names it, not because the document does.
    """
    try:
        name, params = document["mechanism"], dict(document["params"])
        if "region" in params:
            params["region"] = Region(**params["region"])
        entry = MECHANISMS.get(name) if trusted is None else mechanism_entry(trusted)
        if entry is not None and entry.name == name:
            return entry.mechanism.from_spec_params(params)
        if ":" not in name:
            raise KeyError(name)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, UsageError) and trusted is not None:
            raise
        raise DataError("the file does not describe a mechanism of Nearveil, or is damaged; make it again") from None
    shown = "".join(mark for mark in str(name) if mark.isprintable())
    raise UsageError(
        f"the file is about the class {shown}, which is not run because a file says so; if you trust it, name it: "
        "mechanism=FILE.py:CLASS"
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Region):
        return asdict(value)
    if hasattr(value, "to_document"):
        return value.to_document()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    value = value.item() if hasattr(value, "item") else value
    if not isinstance(value, str | int | float | bool | dict | None):
        raise UsageError(f"a parameter that is a {type(value).__name__} cannot be written down; use plain values")
    return value
