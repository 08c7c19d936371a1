"""The attacks by name, Nearveil's own and others'."""

from __future__ import annotations

import hashlib
import inspect
from pathlib import Path

from nearveil.attacks.adaptive import Adaptive
from nearveil.attacks.base import Attack
from nearveil.attacks.gi_lia import GILIA
from nearveil.attacks.unfolding import Unfolding
from nearveil.attacks.zo_lia import ZOLIA
from nearveil.errors import UsageError
from nearveil.plugins import load_class

ATTACKS: dict[str, type[Attack]] = {one.name: one for one in (GILIA, ZOLIA, Adaptive, Unfolding)}
"""Nearveil's own, in the order of tables. A new one joins here, and is then everywhere."""


def attack_class(name: str) -> type[Attack]:
    """Return an attack by its name, or as ``file.py:Class``.

    Examples
    --------
    >>> attack_class("gi-lia").__name__
    'GILIA'
    """
    if name in ATTACKS:
        return ATTACKS[name]
    try:
        found = load_class(name, Attack, "attack")  # type: ignore[type-abstract]
    except UsageError as error:
        if ":" in name:
            raise
        raise UsageError(f"{error}; Nearveil's own are {', '.join(ATTACKS)}") from None
    missing = sorted(getattr(found, "__abstractmethods__", ()))
    if not isinstance(getattr(found, "name", None), str):
        missing.append("name")
    if missing:
        raise UsageError(f"{found.__name__} cannot be used: it does not define {' and '.join(missing)}")
    return found


def attack_reference(attack: str | type[Attack]) -> str:
    """Return the name by which `attack_class` finds an attack again, in another folder and process, too."""
    kind = attack_class(attack) if isinstance(attack, str) else attack
    return kind.name if ATTACKS.get(kind.name) is kind else f"{kind.__module__}:{kind.__qualname__}"


def code_digest(kind: type) -> str:
    """Return the digest of the file of somebody else's class; empty for Nearveil's own, and where there is no file."""
    if kind.__module__.partition(".")[0] == "nearveil":
        return ""
    try:
        return hashlib.sha256(Path(inspect.getfile(kind)).read_bytes()).hexdigest()
    except (OSError, TypeError):
        return ""
