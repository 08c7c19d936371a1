"""The mechanisms by name, Nearveil's own and others': names, labels, strengths, and checks of others' classes.

An entry in `MECHANISMS` adds a mechanism to every command, table and picture. Somebody else's class needs none: by
`mechanism_entry` it is used as ``file.py:Class`` or ``package.module:Class``.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any, Literal

import numpy as np

from nearveil.errors import UsageError
from nearveil.geodesy import wrap_longitude
from nearveil.mechanisms.base import Mechanism
from nearveil.privacy.guarantee import Guarantee
from nearveil.randomness import NumberedRows, stream_key
from nearveil.region import Region
from nearveil.types import FloatArray

Strength = Literal["noise_m", "hide_among", "epsilon"]
"""The constructor's parameter that says how strongly users are hidden."""

_LENGTHS_M = (50.0, 100.0, 200.0, 350.0, 500.0, 800.0, 1500.0)
_USERS_AROUND = (10.0, 20.0, 50.0, 100.0, 200.0, 500.0)
_STRENGTHS: dict[Strength, tuple[float, ...]] = {
    "noise_m": _LENGTHS_M,
    "hide_among": _USERS_AROUND,
    "epsilon": (16.0, 8.0, 4.0, 2.0, 1.0, 0.5),
}
_TO_TRY = {"epsilon": 1.0, "noise_m": 500.0, "hide_among": 100, "region": Region(52.33, 13.08, 52.68, 13.77)}
_USERS = 16


@dataclass(frozen=True, slots=True)
class MechanismEntry:
    """A mechanism before it is built: what commands and files call it, what tables do, and where its class is.

    Ours are imported when they are first used. ``strengths`` are values of `strength` for the frontier and the start
    of a plan, from weak to strong; ``look`` is the color, marker and dashes in pictures.
    """

    name: str
    label: str
    home: str | type[Mechanism]
    strengths: tuple[float, ...] = ()
    look: tuple[str, str, str] | None = None

    @property
    def mechanism(self) -> type[Mechanism]:
        """The class."""
        if not isinstance(self.home, str):
            return self.home
        module, _, name = self.home.partition(":")
        found: type[Mechanism] = getattr(import_module(f"nearveil.mechanisms.{module}"), name)
        return found

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of what the constructor takes."""
        return tuple(inspect.signature(self.mechanism).parameters)

    @property
    def strength(self) -> Strength | None:
        """The parameter that sweeps turn: a length before an epsilon; None where there is neither."""
        return next((name for name in _STRENGTHS if name in self.parameters), None)

    @property
    def is_own(self) -> bool:
        """Whether it is Nearveil's."""
        return self.name in MECHANISMS

    def build(self, *, region: Region | str | None, seed: int | None = None, **given: Any) -> Mechanism:
        """Return the mechanism; what is None is left to the constructor, and what it does not take is left out."""
        takes = inspect.signature(self.mechanism).parameters
        if "region" not in takes:
            raise UsageError("its constructor must take region, as a keyword")
        params = {name: value for name, value in {**given, "region": region}.items() if name in takes}
        for name in [name for name, value in params.items() if value is None]:
            if takes[name].default is not inspect.Parameter.empty:
                del params[name]
            elif name != "region":
                raise UsageError(f"{self.label} has no {name} of its own; give one")
        built = self.mechanism(**params)
        return built if seed is None else built.with_params(seed=seed)


# The ways of DPRS and HideAmong to learn are contenders of their own (`evaluation.contenders`). Of the others, the
# last three are rivals: where little enough is lost, next to nothing is left of a list.
_ENTRIES = (
    MechanismEntry("dprs", "DPRS", "dprs:DPRS", (), ("blue", "o", "-")),
    MechanismEntry(
        "planar-laplace", "planar Laplace", "planar_laplace:PlanarLaplace", _LENGTHS_M, ("purple", ">", "-")
    ),
    MechanismEntry("hide-among", "hide among people", "hide_among:HideAmong", _USERS_AROUND, ("sky", "D", "-")),
    MechanismEntry("srr", "SRR", "srr:SRR", (14.0, 12.0, 10.0, 8.0), ("green", "^", "-.")),
    MechanismEntry("square", "Square", "square:Square", (20.0, 16.0, 12.0), ("orange", "s", "--")),
    MechanismEntry("laplace", "per-axis Laplace", "axis_laplace:AxisLaplace", (45.0, 20.0, 10.0), ("ink", "<", "--")),
)
MECHANISMS = {entry.name: entry for entry in _ENTRIES}
"""Nearveil's own mechanisms, in the order of tables."""


def mechanism_entry(name: str) -> MechanismEntry:
    """Return what is known of a mechanism by its name, or as ``file.py:Class``.

    Somebody else's class is checked first: that it can be built, and draws as it must.
    """
    if name in MECHANISMS:
        return MECHANISMS[name]
    from nearveil.plugins import load_class  # noqa: PLC0415 - for others' classes only

    try:
        found = load_class(name, Mechanism, "mechanism")  # type: ignore[type-abstract]
    except UsageError as error:
        if ":" in name:
            raise
        raise UsageError(f"{error}; Nearveil's own are {', '.join(MECHANISMS)}") from None
    return entry_of_class(found)


@cache
def entry_of_class(mechanism: type[Mechanism]) -> MechanismEntry:
    """Return the entry of a class: ours, or one made for somebody else's, once it has been checked."""
    if own := _own_entry(mechanism):
        return own
    made = MechanismEntry(f"{mechanism.__module__}:{mechanism.__qualname__}", _label(mechanism), mechanism)
    try:
        built = made.build(**_TO_TRY)  # type: ignore[arg-type]
    except Exception as error:
        raise UsageError(f"{mechanism.__name__} cannot be used: {type(error).__name__}: {error}") from None
    check_instance(built)
    return made if made.strength is None else replace(made, strengths=_STRENGTHS[made.strength])


def mechanism_name(mechanism: Mechanism) -> str:
    """Return the name that the command line and files know a mechanism by; of somebody else's, its label."""
    entry = _own_entry(type(mechanism))
    return entry.name if entry else _label(type(mechanism))


def _own_entry(kind: type[Mechanism]) -> MechanismEntry | None:
    home = f"{kind.__module__}:{kind.__qualname__}"
    return next((entry for entry in MECHANISMS.values() if f"nearveil.mechanisms.{entry.home}" == home), None)


def is_own(mechanism: Mechanism) -> bool:
    """Whether a mechanism's class is Nearveil's, and not a subclass of somebody else's."""
    return type(mechanism).__module__.split(".")[0] == "nearveil"


def has_own_fit(mechanism: Mechanism) -> bool:
    """Whether what a mechanism learns, it learns as Nearveil's do: the cost of anybody else's fit is not known."""
    return type(mechanism).fit.__module__.split(".")[0] == "nearveil"


def _label(mechanism: type[Mechanism]) -> str:
    name = getattr(mechanism, "name", None)
    return name if isinstance(name, str) and name else mechanism.__name__


# The least that somebody else's class must do. `nearveil.auditing.conformance` asks for more: that draws follow the
# density, and that the guarantee survives an audit.


def check_instance(mechanism: Mechanism) -> None:
    """Let somebody else's mechanism draw for made-up users; refuse it in a sentence."""
    kind, area = type(mechanism), mechanism.area
    label = _label(kind)
    if any(label in (entry.name, entry.label) for entry in MECHANISMS.values()):
        raise UsageError(f"{kind.__name__} is called {label!r}, as a mechanism of Nearveil; give it another name")
    offsets = np.random.default_rng(1).uniform(-0.25, 0.25, (_USERS, 2)) * (area.height_deg, area.width_deg)
    users = np.array(area.centre) + offsets
    users[:, 1] = wrap_longitude(users[:, 1])
    # What fails here has seen made-up users only, so its error message reveals no real location.
    try:
        wrong = check_draws(mechanism, users, stream_key(1))
        promised: object = mechanism.guarantee
        if wrong is None and not isinstance(promised, Guarantee):
            wrong = "its guarantee is not a Guarantee; return Guarantee.claimed_by_nobody() if nothing is promised"
    except Exception as error:
        wrong = f"it fails with {type(error).__name__}: {error}"
    if wrong is not None:
        raise UsageError(f"{kind.__name__} cannot be used: {wrong}")


def check_draws(mechanism: Mechanism, users: FloatArray, key: bytes) -> str | None:
    """Say what is wrong with how a mechanism draws for made-up users, or return None."""
    x = mechanism.enter(users)
    before = x.copy()

    def drawn(size: int) -> FloatArray:
        parts = [x[start : start + size] for start in range(0, len(x), size)]
        rows = [NumberedRows(key, size * number, len(part)) for number, part in enumerate(parts)]
        return np.vstack([np.asarray(mechanism.draw(part, one)) for part, one in zip(parts, rows, strict=True)])

    whole = drawn(len(x))
    if whole.shape != x.shape:
        return "there is not one published place for each person"
    if not np.isfinite(whole).all():
        return "a published place is not finite"
    if (x != before).any():
        return "draw changes the places that it is given"
    if any((whole != drawn(size)).any() for size in (len(x), 1, 7)):
        return "rows draw different places when drawn again, or in another batch"
    if not mechanism.area.contains(mechanism.perturb_rows(users, NumberedRows(key, 0, len(x)))).all():
        return "a published place lies outside the region"
    return None
