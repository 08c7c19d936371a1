"""The options that choose a mechanism, the same for every command that takes one, and the mechanism that they mean."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from nearveil.cli._command import Length, option
from nearveil.cli._options import DEMO_REGION, FILE, chosen_region, options_as
from nearveil.cli._output import SETTABLE
from nearveil.errors import NearveilError, UsageError
from nearveil.io.atomic import read_text
from nearveil.lengths import meters
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.cells import Cells, load_cells
from nearveil.mechanisms.intervals import Intervals, intervals_from_json
from nearveil.mechanisms.planar_laplace import DEFAULT_NOISE_M, LARGEST_NOISE_M, noise_m_from_epsilon_per_km
from nearveil.mechanisms.registry import MECHANISMS, MechanismEntry, mechanism_entry
from nearveil.region import Region, named_region

_HEADING = "Mechanism"
# Without --mechanism, the first of these that takes all parameters given.
_BY_PARAMETERS = ("planar-laplace", "dprs", "hide-among")
# Parameters that have an option of their own, under its name.
_OPTIONS = {
    "noise_m": "--noise",
    "epsilon": "--epsilon",
    "hide_among": "--hide-among",
    "cells": "--cells",
    "intervals": "--intervals",
}
_STRENGTHS = ("noise_m", "epsilon", "hide_among")
_NOT_SET = ("region", "seed", "calibration")
# Files are for one mechanism each, and replace the parameters of its fit.
_FITTED = {
    "intervals": ("dprs", ("centres", "rounds", "gamma", "fit_method", "population", "fit_epsilon")),
    "cells": ("hide-among", ("fit_epsilon", "least_cell_m", "largest_cell_m")),
}
# Another unit for noise_m.
_PER_KM = "epsilon_per_km"


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismChoice:
    """The mechanism that the options describe; None where an option was not given.

    Attributes
    ----------
    name : str, optional
        As in ``--mechanism``.
    settings : dict
        The parameters of ``--set``, as text.
    """

    name: str | None = None
    noise_m: float | None = None
    epsilon: float | None = None
    hide_among: int | None = None
    cells: Cells | None = None
    intervals: Intervals | None = None
    settings: dict[str, str]
    cells_file: Path | None = None
    intervals_file: Path | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters given, by the names of the constructor."""
        own = {name: value for name in _OPTIONS if (value := getattr(self, name)) is not None}
        return {**own, **{name: setting_value(name, text) for name, text in self.settings.items()}}

    @property
    def is_given(self) -> bool:
        """Whether any of the options was given."""
        return self.name is not None or bool(self.parameters)

    @property
    def learned(self) -> Intervals | Cells | None:
        """The intervals or cells given by a file."""
        return self.intervals if self.intervals is not None else self.cells

    @property
    def input_files(self) -> dict[str, Path | None]:
        """The files that these options name, by what messages call them."""
        return {"the --intervals file": self.intervals_file, "the --cells file": self.cells_file}

    @property
    def chosen(self) -> str:
        """The mechanism named, or else the first of our mechanisms that takes all parameters given."""
        if self.name is not None:
            return self.name
        given = set(self.parameters)
        for name in _BY_PARAMETERS:
            if given <= _settable(MECHANISMS[name]) | (set(_OPTIONS) & set(MECHANISMS[name].parameters)):
                return name
        known = {each for name in _BY_PARAMETERS for each in _settable(MECHANISMS[name])}
        strange = [name for name in self.settings if name not in known]
        if strange:
            raise UsageError(
                f"{strange[0]} is not a parameter of {' or '.join(_BY_PARAMETERS)}{nearest(strange[0], known)}; name "
                "the mechanism that has it with --mechanism"
            )
        raise UsageError(f"no mechanism takes {' and '.join(map(flag_of, given))}; leave one out")

    def build(self, region: Region | None, seed: int | None = None, *, for_made_up_users: bool = False) -> Mechanism:
        """Return the mechanism; refuse parameters that it does not take.

        Without a region, one that works everywhere does; for made-up users the others work where those are.
        """
        try:
            entry = mechanism_entry(self.chosen)
        except UsageError as error:
            if self.name is None:
                raise
            raise UsageError(f"--mechanism: {error}") from None
        context = click.get_current_context(silent=True)
        if context is not None:
            context.meta[SETTABLE] = _settable(entry)
        params = self.parameters
        self._check(entry, params)
        if region is None and entry.mechanism.frame != "degrees":
            region = named_region(DEMO_REGION) if for_made_up_users else chosen_region(None)
        if self.noise_m is not None and region is not None:
            _check_width(self.noise_m, region)
        if _PER_KM in params and "noise_m" in params:
            raise UsageError(f"--noise and --set {_PER_KM} set the same parameter; give one of them")
        if _PER_KM in params and "noise_m" in entry.parameters:
            params["noise_m"] = noise_m_from_epsilon_per_km(params.pop(_PER_KM))
        if self.cells is not None:
            params.setdefault("hide_among", self.cells.hide_among)
        try:
            # None for what was not given, so that a sentence can say what a constructor demands.
            return entry.build(region=region, seed=seed, **{**dict.fromkeys(_STRENGTHS), **params})
        except NearveilError:
            raise
        except Exception as error:
            if not self.settings:
                raise
            # No location is known here, so the message of a class cannot reveal one.
            raise UsageError(f"{_name(entry)} does not take these values of --set: {error}") from None

    def _check(self, entry: MechanismEntry, params: dict[str, Any]) -> None:
        name, settable = _name(entry), _settable(entry)
        for each in self.settings:
            if each not in settable:
                takes = ", ".join(sorted(settable)) or "none"
                raise UsageError(f"{name} has no parameter {each}{nearest(each, settable)}; --set takes {takes}")
        for each in params.keys() - self.settings.keys():
            if each not in entry.parameters or _FITTED.get(each, (name,))[0] != name:
                raise UsageError(f"{flag_of(each)} cannot be used with {name}, which takes {_taken(entry)}")
        for file, (_, of_fit) in _FITTED.items():
            useless = [each for each in of_fit if each in params and file in params]
            if useless:
                raise UsageError(
                    f"{flag_of(useless[0])} is for a fit, and the {flag_of(file)} file was made already; leave it out"
                )


def _check_width(noise_m: float, region: Region) -> None:
    """Refuse a length beyond the region, which is likely a slip."""
    side_m = 2 * max(region.half_extent_m)
    # Beyond the largest noise there is, the constructor says so.
    if side_m < noise_m <= LARGEST_NOISE_M:
        raise UsageError(
            f"--noise is more than the region is wide ({side_m / 1000:,.0f} km): nearly everybody would be published "
            "at its edge; give less, or choose a larger region"
        )


def setting_value(name: str, text: str) -> Any:
    """Read a value of ``--set``: a number, true, false or text; a length for a parameter in meters."""
    if name.endswith("_m"):
        return meters(text, f"--set {name}")
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return text
    return value if isinstance(value, bool | int | float) else text


def _settable(entry: MechanismEntry) -> set[str]:
    """Return the names of the parameters that ``--set`` takes."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = {name for name, each in inspect.signature(entry.mechanism).parameters.items() if each.kind not in kinds}
    return named - {*_NOT_SET, *_own_options()} | ({_PER_KM} if "noise_m" in named else set())


def _own_options() -> dict[str, str]:
    """Return the parameters that have an option of their own in the command that runs."""
    context = click.get_current_context(silent=True)
    if context is None:
        return _OPTIONS
    names = {each.name for each in context.command.params}
    return {name: flag for name, flag in _OPTIONS.items() if name in names}


def _name(entry: MechanismEntry) -> str:
    return entry.name if entry.is_own else entry.label


def flag_of(name: str) -> str:
    """Return the option of a parameter."""
    if name == "mechanism":
        return "--mechanism"
    return _own_options().get(name, f"--set {name}")


def _taken(entry: MechanismEntry) -> str:
    name = _name(entry)
    options = [
        flag
        for each, flag in _own_options().items()
        if each in entry.parameters and _FITTED.get(each, (name,))[0] == name
    ]
    return ", ".join([*options, *(f"--set {each}" for each in sorted(_settable(entry)))]) or "none of these options"


def nearest(name: str, known: set[str]) -> str:
    """Ask whether another name was meant, for an error about a name that is not known."""
    near = difflib.get_close_matches(name, sorted(known), 1)
    return f" (did you mean {near[0]}?)" if near else ""


def read_settings(texts: Sequence[str]) -> dict[str, str]:
    """Return the parameters of ``--set`` by name."""
    named: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not (name and equals and value):
            raise UsageError("--set takes a parameter and its value, such as --set gamma=0.3")
        if name in named:
            raise UsageError(f"--set {name} is given twice; leave one out")
        if name in _own_options():
            raise UsageError(f"{name} has an option of its own; use {_OPTIONS[name]}")
        if name in _NOT_SET:
            raise UsageError(f"{name} cannot be set with --set")
        named[name] = value.strip()
    return named


def _choice(
    *,
    mechanism: str | None,
    settings: Sequence[str],
    cells: Path | None = None,
    intervals: Path | None = None,
    **given: Any,
) -> MechanismChoice:
    named = read_settings(settings)
    # In commands that have no options for these files, --set names them.
    cells = Path(named.pop("cells")) if "cells" in named else cells
    intervals = Path(named.pop("intervals")) if "intervals" in named else intervals
    return MechanismChoice(
        name=mechanism,
        settings=named,
        cells=None if cells is None else load_cells(cells),
        cells_file=cells,
        intervals=None if intervals is None else intervals_from_json(read_text(intervals, "intervals")),
        intervals_file=intervals,
        **given,
    )


set_option = option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Another parameter of the mechanism, such as gamma=0.3; may be repeated.",
    heading=_HEADING,
)
hide_among_option = option(
    "--hide-among",
    type=int,
    metavar="N",
    help="hide-among: mean number of users nearer to the true location than the published one; half of all users have "
    "fewer than about N/2 others nearer.",
    show_default="that of --cells, or 100",
    heading=_HEADING,
)
_mechanism_option = option(
    "--mechanism",
    metavar="NAME",
    help=f"{', '.join(MECHANISMS)}, or your own as FILE.py:CLASS or module:CLASS.",
    show_default="planar-laplace, or as the parameters say",
    heading=_HEADING,
)
_noise_option = option(
    "--noise",
    "noise_m",
    type=Length(),
    help="Mean distance that the noise adds, such as 1.5km.",
    show_default=f"{DEFAULT_NOISE_M:.0f}m",
    heading=_HEADING,
)
mechanism_options = options_as(
    "mechanism",
    (
        _mechanism_option,
        _noise_option,
        option(
            "--epsilon",
            type=float,
            metavar="E",
            help="Privacy parameter; without --mechanism, that of dprs.",
            heading=_HEADING,
        ),
        hide_among_option,
        option(
            "--cells",
            type=FILE,
            metavar="FILE",
            help="hide-among: cells file from 'nearveil fit --hide-among'.",
            heading=_HEADING,
        ),
        option(
            "--intervals",
            type=FILE,
            metavar="FILE",
            help="dprs: intervals file from 'nearveil fit'.",
            heading=_HEADING,
        ),
        set_option,
    ),
    _choice,
)
"""Adds the options of a mechanism; the command gets a `MechanismChoice` as ``mechanism``."""
few_mechanism_options = options_as("mechanism", (_mechanism_option, _noise_option, set_option), _choice)
"""The same for a command with many other options: ``--set`` also takes epsilon, hide_among, cells and intervals."""
