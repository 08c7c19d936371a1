"""The mechanisms by name, Nearveil's own and others': name, label, options, colours and costs.

A mechanism of ours has an entry in `MECHANISMS` and is then in ``protect``, ``attack``, ``audit``, ``certify``,
``plan``, the frontier and the report. Somebody else's class needs no entry: `mechanism_entry` makes one for
``file.py:Class``, ``package.module:Class`` and the entry points ``nearveil.mechanisms``.

At the end, mechanisms as plain values: a file can say exactly what was certified or audited, to be rebuilt.
"""

from __future__ import annotations

import inspect
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np

from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.axis_laplace import AxisLaplace
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.cells import Calibration, Cells, cells_from_document
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.mechanisms.intervals import Intervals, intervals_from_document
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.mechanisms.square import Square
from nearveil.mechanisms.srr import SRR
from nearveil.plugins import load_class, reference
from nearveil.privacy.guarantee import Guarantee
from nearveil.randomness import NumberedRows, stream_key
from nearveil.region import Region
from nearveil.types import FloatArray

ENTRY_POINTS = "nearveil.mechanisms"

Strength = Literal["noise_m", "hide_among", "epsilon"]
"""The constructor's parameter that says how strongly people are hidden."""

_STRENGTHS: tuple[Strength, ...] = ("noise_m", "hide_among", "epsilon")
_LENGTHS_M = (50.0, 100.0, 200.0, 350.0, 500.0, 800.0, 1500.0)
_PEOPLE_TO_HIDE_AMONG = (10.0, 20.0, 50.0, 100.0, 200.0, 500.0)
_EPSILONS = (16.0, 8.0, 4.0, 2.0, 1.0, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismEntry:
    """Description of a mechanism before it is built.

    Attributes
    ----------
    name : str
        What the command line and files call it; for somebody else's class ``module:Class``.
    label : str
        What tables and pictures call it.
    mechanism : type
        The class. Its constructor says which options it takes: ``epsilon``, ``noise_m``.
    strengths : tuple of float
        Values of `strength` for the frontier and for the start of a plan, from weak protection to strong.
    in_plans : bool
        Whether a plan tries it unasked.
    seconds_per_guess : float
        About how long the best attacker takes to guess one person, for progress bars.
    look : tuple of str, optional
        Colour, marker and dashes in pictures (`nearveil.report.style`); a free one if not given.
    """

    name: str
    label: str
    mechanism: type[Mechanism]
    strengths: tuple[float, ...] = ()
    in_plans: bool = True
    seconds_per_guess: float = 0.004
    look: tuple[str, str, str] | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of what the constructor takes."""
        return tuple(inspect.signature(self.mechanism).parameters)

    @property
    def strength(self) -> Strength | None:
        """The parameter that sweeps turn: a length before an epsilon; None where there is neither."""
        return next((name for name in _STRENGTHS if name in self.parameters), None)

    @property
    def has_density(self) -> bool:
        """Whether the class has a density; without one, attackers sample the mechanism."""
        return self.mechanism.log_density is not Mechanism.log_density

    @property
    def is_own(self) -> bool:
        """Whether it is Nearveil's."""
        return self.name in MECHANISMS

    def build(self, *, region: Region | str, seed: int | None = None, **given: Any) -> Mechanism:
        """Return the mechanism; what is None is left to the constructor, and what it does not take is left out."""
        takes = inspect.signature(self.mechanism).parameters
        params = {name: value for name, value in given.items() if value is not None and name in takes}
        for name in given.keys() & takes.keys() - params.keys():
            if takes[name].default is inspect.Parameter.empty:
                raise UsageError(f"{self.label} has no {name} of its own; give one")
        built = self.mechanism(**params, region=region)  # type: ignore[call-arg]
        return built if seed is None else built.with_params(seed=seed)


MECHANISMS: dict[str, MechanismEntry] = {
    entry.name: entry
    for entry in (
        MechanismEntry(
            name="dprs",
            label="DPRS",
            mechanism=DPRS,
            # Its releases, fits and centres are families of their own: `evaluation.families`.
            in_plans=False,
            seconds_per_guess=0.006,
            look=("blue", "o", "-"),
        ),
        MechanismEntry(
            name="planar-laplace",
            label="planar Laplace",
            mechanism=PlanarLaplace,
            strengths=_LENGTHS_M,
            look=("purple", ">", "-"),
        ),
        MechanismEntry(
            name="hide-among",
            label="hide among people",
            mechanism=HideAmong,
            strengths=_PEOPLE_TO_HIDE_AMONG,
            # Where its cells are from makes families of their own, as with DPRS.
            in_plans=False,
            look=("sky", "D", "-"),
        ),
        # The others are rivals: where little enough is lost, next to nothing is left of a list.
        MechanismEntry(
            name="srr",
            label="SRR",
            mechanism=SRR,
            strengths=(20.0, 14.0, 12.0, 11.0, 10.0, 9.0, 8.0, 6.0),
            in_plans=False,
            look=("green", "^", "-."),
        ),
        MechanismEntry(
            name="square",
            label="Square",
            mechanism=Square,
            strengths=(25.0, 20.0, 18.0, 16.0, 14.0, 12.0, 10.0, 6.0),
            in_plans=False,
            look=("orange", "s", "--"),
        ),
        MechanismEntry(
            name="laplace",
            label="per-axis Laplace",
            mechanism=AxisLaplace,
            strengths=(45.0, 20.0, 10.0),
            in_plans=False,
            # A density per axis, with its edges, takes longest.
            seconds_per_guess=0.02,
            look=("ink", "<", "--"),
        ),
    )
}
"""Nearveil's own mechanisms, in the order of tables. An entry here adds a mechanism everywhere."""


def mechanism_entry(name: str) -> MechanismEntry:
    """Return what is known of a mechanism by its name, as ``file.py:Class``, or as another package's entry point.

    Somebody else's class is checked first: that it can be built, and draws as it must.

    Examples
    --------
    >>> mechanism_entry("planar-laplace").strength
    'noise_m'
    """
    if name in MECHANISMS:
        return MECHANISMS[name]
    try:
        found = load_class(name, Mechanism, group=ENTRY_POINTS, kind="mechanism")  # type: ignore[type-abstract]
    except UsageError as error:
        if ":" in name:
            raise
        raise UsageError(f"{error}; Nearveil's own are {', '.join(MECHANISMS)}") from None
    return entry_of_class(found)


@cache
def entry_of_class(mechanism: type[Mechanism]) -> MechanismEntry:
    """Return the entry of a class: ours, or one made for somebody else's, once it has been checked."""
    for entry in MECHANISMS.values():
        if entry.mechanism is mechanism:
            return entry
    _check_class(mechanism)
    made = MechanismEntry(name=reference(mechanism), label=_label(mechanism), mechanism=mechanism)
    strengths = {
        "noise_m": _LENGTHS_M,
        "hide_among": _PEOPLE_TO_HIDE_AMONG,
        "epsilon": _EPSILONS,
        None: (),
    }[made.strength]
    return replace(made, strengths=strengths, seconds_per_guess=0.02 if made.has_density else 0.1)


def mechanism_name(mechanism: Mechanism) -> str:
    """Return the name that the command line and files know a mechanism by; of somebody else's, its label."""
    for name, entry in MECHANISMS.items():
        if entry.mechanism is type(mechanism):
            return name
    return _label(type(mechanism))


def _label(mechanism: type[Mechanism]) -> str:
    name = getattr(mechanism, "name", None)
    return name if isinstance(name, str) and name else mechanism.__name__


def check_label(mechanism: type[Mechanism]) -> None:
    """Refuse somebody else's class that is called as one of Nearveil's."""
    label = _label(mechanism)
    if any(label in (entry.name, entry.label) for entry in MECHANISMS.values() if entry.mechanism is not mechanism):
        raise UsageError(f"{mechanism.__name__} is called {label!r}, as a mechanism of Nearveil; give it another name")


def is_own(mechanism: Mechanism) -> bool:
    """Whether a mechanism's class is Nearveil's, and not a subclass of somebody else's."""
    return type(mechanism).__module__.split(".")[0] == "nearveil"


def has_own_fit(mechanism: Mechanism) -> bool:
    """Whether what a mechanism learns, it learns as Nearveil's do: the cost of anybody else's fit is not known."""
    return type(mechanism).fit.__module__.split(".")[0] == "nearveil"


# The least that a class must do. `nearveil.audit.conformance` asks for more: that draws follow the density, and that
# the guarantee survives an audit.


_PEOPLE = 16
_PARAMETERS = {"epsilon": 1.0, "noise_m": 500.0, "hide_among": 100}


def check_draws(mechanism: Mechanism, people: FloatArray, key: bytes) -> str | None:
    """Say what is wrong with how a mechanism draws for made-up people, or return None."""
    x = mechanism.enter(people)
    before = x.copy()

    def drawn(size: int) -> FloatArray:
        parts = [(x[start : start + size], start) for start in range(0, len(x), size)]
        return np.vstack(
            [np.asarray(mechanism.draw(part, NumberedRows(key, start, len(part)))) for part, start in parts]
        )

    whole = np.asarray(mechanism.draw(x, NumberedRows(key, 0, len(x))))
    if whole.shape != x.shape:
        return "there is not one published place for each person"
    if not np.isfinite(whole).all():
        return "a published place is not finite"
    if (x != before).any():
        return "draw changes the places that it is given"
    if any((whole != drawn(size)).any() for size in (len(x), 1, 7)):
        return "rows draw different places when drawn again, or in another batch"
    if not mechanism.resolved_region.contains(mechanism.perturb_rows(people, NumberedRows(key, 0, len(x)))).all():
        return "a published place lies outside the region"
    return None


def check_instance(mechanism: Mechanism) -> None:
    """Let somebody else's mechanism draw for made-up people; refuse it in a sentence."""
    check_label(type(mechanism))
    region = mechanism.resolved_region
    half = np.array(region.half_extent_m) / 2
    people = region.from_metres(np.random.default_rng(1).uniform(-half, half, size=(_PEOPLE, 2)))
    # What fails here has seen made-up people only, so its error message reveals no real location.
    try:
        wrong = check_draws(mechanism, people, stream_key(1))
    except Exception as error:
        wrong = f"it fails with {type(error).__name__}: {error}"
    if wrong is not None:
        raise UsageError(f"{type(mechanism).__name__} cannot be used: {wrong}")


def _check_class(mechanism: type[Mechanism]) -> None:
    """Build somebody else's class and let it draw for people who are made up; refuse it in a sentence."""
    name = mechanism.__name__
    check_label(mechanism)
    missing = sorted(getattr(mechanism, "__abstractmethods__", ()))
    if missing:
        raise UsageError(f"{name} cannot be used: it does not define {' and '.join(missing)}")
    parameters = inspect.signature(mechanism).parameters
    if "region" not in parameters:
        raise UsageError(f"{name} cannot be used: its constructor must take region, as a keyword")
    needed = [
        one.name
        for one in parameters.values()
        if one.default is one.empty
        and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
        and one.name not in ("region", "seed", *_PARAMETERS)
    ]
    if needed:
        raise UsageError(f"{name} cannot be used: its constructor needs {' and '.join(needed)}; give a default")
    region = Region(37.5, -122.6, 37.9, -122.2)
    middle = np.random.default_rng(1).uniform((37.6, -122.5), (37.8, -122.3), size=(_PEOPLE, 2))
    # What fails here has seen made-up people only, so its error message reveals no real location.
    try:
        given = {one: value for one, value in _PARAMETERS.items() if one in parameters}
        built = mechanism(**given, region=region).with_params()  # type: ignore[call-arg]
        wrong = check_draws(built, middle, stream_key(1))
        promised: object = built.guarantee
    except Exception as error:
        raise UsageError(f"{name} cannot be used: it fails with {type(error).__name__}: {error}") from None
    if wrong is None and not isinstance(promised, Guarantee):
        wrong = "its guarantee is not a Guarantee; return Guarantee.claimed_by_nobody() if nothing is promised"
    if wrong is not None:
        raise UsageError(f"{name} cannot be used: {wrong}")


# Mechanisms as plain values.


def mechanism_to_spec(mechanism: Mechanism) -> dict[str, Any]:
    """Return a mechanism's name and parameters as plain values; intervals that were fitted count as given.

    The seed is left out: a certificate or an audit speaks of the mechanism, not of one draw.
    """
    if getattr(mechanism, "_noise_factor", 1.0) != 1.0:
        raise UsageError("noise that was rescaled for a test is not what the parameters say, and is not written down")
    params = {name: value for name, value in mechanism.get_params().items() if name != "seed" and value is not None}
    params["region"] = mechanism.resolved_region
    if isinstance(mechanism, DPRS):
        params["release"] = mechanism.chosen_release
        params["intervals"] = mechanism.current_intervals
        params.pop("least_radius_m", None)
    if isinstance(mechanism, HideAmong):
        # Weights come out of an iteration, which another machine may round differently.
        params |= {"cells": mechanism.current_cells, "calibration": mechanism.channel.calibration}
    if "<locals>" in type(mechanism).__qualname__:
        raise UsageError(f"{type(mechanism).__name__} is defined in a function and cannot be found again by a file")
    plain = {name: _plain(value) for name, value in params.items()}
    kind = type(mechanism)
    name = next((name for name, entry in MECHANISMS.items() if entry.mechanism is kind), reference(kind))
    return {"mechanism": name, "params": plain}


def mechanism_from_spec(document: dict[str, Any], *, trusted: str | None = None) -> Mechanism:
    """Rebuild the mechanism that `mechanism_to_spec` described.

    Parameters
    ----------
    document : dict
        What was written down.
    trusted : str, optional
        Somebody else's class that may be run; one that only the document names is not.
    """
    try:
        name, params = document["mechanism"], dict(document["params"])
        params["region"] = Region(**params["region"])
        if "intervals" in params:
            params["intervals"] = intervals_from_document(params["intervals"])
        if name == "hide-among":
            params["cells"] = cells_from_document(params["cells"])
            params["calibration"] = Calibration.from_document(params["calibration"])
        elif "cells" in params:
            params["cells"] = [(int(column), int(row)) for column, row in params["cells"]]
        entry = MECHANISMS.get(name) if trusted is None else mechanism_entry(trusted)
        if entry is not None and entry.name == name:
            return entry.mechanism(**params)
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
    if isinstance(value, Intervals | Cells | Calibration):
        return value.to_document()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    value = value.item() if hasattr(value, "item") else value
    if not isinstance(value, str | int | float | bool | dict | None):
        raise UsageError(f"a parameter that is a {type(value).__name__} cannot be written down; use plain values")
    return value
