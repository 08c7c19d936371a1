"""The options that choose a mechanism, the same for every command that takes one, and the mechanism that they mean."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearveil.cli._command import Length, option
from nearveil.cli._options import DEMO_REGION, FILE, chosen_region, optional_region, options_as
from nearveil.cli._output import SETTABLE
from nearveil.errors import NearveilError, UsageError
from nearveil.io.atomic import read_text
from nearveil.lengths import meters
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.planar_laplace import DEFAULT_NOISE_M
from nearveil.mechanisms.registry import MECHANISMS, MechanismEntry, mechanism_entry
from nearveil.region import Region, named_region

if TYPE_CHECKING:
    from nearveil.mechanisms.cells import Cells
    from nearveil.mechanisms.intervals import Intervals

HEADING = "Mechanism"
_STRENGTHS = ("noise_m", "epsilon", "hide_among")
# Parameters that only one mechanism has, and that therefore choose it.
_CHOOSE = {"hide_among": "hide-among", "cells": "hide-among", "intervals": "dprs"}
_NOT_SET = ("region", "seed", "calibration")


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismChoice:
    """The mechanism that the options describe.

    Attributes
    ----------
    name : str, optional
        As in ``--mechanism``.
    parameters : dict
        The parameters given, by the names of the constructor.
    files : dict
        The files with cells or intervals, by their options.
    """

    name: str | None = None
    parameters: dict[str, Any]
    files: dict[str, Path] = field(default_factory=dict)

    @property
    def is_given(self) -> bool:
        """Whether any of the options was given."""
        return self.name is not None or bool(self.parameters)

    @property
    def learned(self) -> Intervals | Cells | None:
        """The intervals or cells given by a file."""
        found: Intervals | Cells | None = next((self.parameters[name] for name in _READERS if name in self.files), None)
        return found

    @property
    def entry(self) -> MechanismEntry:
        """The mechanism named, or else planar Laplace noise, or what the parameters choose."""
        found = next((_CHOOSE[each] for each in self.parameters if each in _CHOOSE), "planar-laplace")
        if self.name is None and found == "planar-laplace" and "epsilon" in self.parameters:
            raise UsageError(
                "--epsilon needs a mechanism, as in --mechanism dprs --epsilon 1; the default noise takes a length, as "
                "in --noise 500m"
            )
        return mechanism_entry(self.name or found)

    def build(
        self, region: Region | str | None, seed: int | None = None, *, for_synthetic_users: bool = False
    ) -> Mechanism:
        """Return the mechanism; refuse parameters that it does not take.

        A mechanism that works everywhere needs no region; the others get that of synthetic users if they are for them.
        """
        entry, params = self.entry, self.parameters
        settable = [name for name in entry.parameters if name not in _NOT_SET]
        context = click.get_current_context(silent=True)
        if context is not None:
            context.meta[SETTABLE] = settable
        self._check(entry, settable)
        box = optional_region(region, self.learned)
        if box is None and entry.mechanism.frame != "degrees":
            box = named_region(DEMO_REGION) if for_synthetic_users else chosen_region(None)
        if "cells" in self.files:
            params = {"hide_among": params["cells"].hide_among, **params}
        try:
            # None for what was not given, so that a sentence can say what a constructor demands.
            return entry.build(region=box, seed=seed, **{**dict.fromkeys(_STRENGTHS), **params})
        except NearveilError:
            raise
        except Exception as error:
            if not params:
                raise
            # No location is known here, so the message of a class cannot reveal one.
            raise UsageError(f"{_name(entry)} does not take these values: {error}") from None

    def _check(self, entry: MechanismEntry, settable: Sequence[str]) -> None:
        for each in self.parameters:
            # SRR has cells of another kind, which are no file.
            if each not in settable or (each in self.files and entry.name != _CHOOSE[each]):
                takes = ", ".join(sorted(map(flag_of, settable))) or "none of these options"
                meant = nearest(each, settable)
                raise UsageError(f"{flag_of(each)} cannot be used with {_name(entry)}{meant}, which takes {takes}")


def _name(entry: MechanismEntry) -> str:
    return entry.name if entry.is_own else entry.label


def flag_of(name: str) -> str:
    """Return the option of a parameter in the command that runs."""
    context = click.get_current_context(silent=True)
    options = {} if context is None else {each.name: each.opts[0] for each in context.command.params}
    return options.get(name, f"--set {name}")


def nearest(name: str, known: Iterable[str]) -> str:
    """Ask whether another name was meant, for an error about a name that is not known."""
    near = difflib.get_close_matches(name, sorted(known), 1)
    return f" (did you mean {near[0]}?)" if near else ""


def setting_value(name: str, text: str) -> Any:
    """Read a value of ``--set``: a number, true, false or text; a length for a parameter in meters."""
    if name.endswith("_m"):
        return meters(text, f"--set {name}")
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return text
    return value if isinstance(value, bool | int | float) else text


def read_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of ``--set`` by name."""
    settings: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not (name and equals and value):
            raise UsageError("--set takes a parameter and its value, such as --set gamma=0.3")
        if name in _NOT_SET or name in settings:
            raise UsageError(
                f"--set {name}: {'given twice' if name in settings else 'this cannot be set'}; leave it out"
            )
        settings[name] = setting_value(name, value.strip())
    return settings


def _read_cells(path: Path) -> Cells:
    from nearveil.mechanisms.cells import load_cells  # noqa: PLC0415 - most commands have none

    return load_cells(path)


def _read_intervals(path: Path) -> Intervals:
    from nearveil.mechanisms.intervals import intervals_from_json  # noqa: PLC0415 - most commands have none

    return intervals_from_json(read_text(path, "intervals"))


_READERS: dict[str, Callable[[Path], Any]] = {"cells": _read_cells, "intervals": _read_intervals}


def _choice(*, mechanism: str | None, settings: Sequence[str], **options: Any) -> MechanismChoice:
    named = read_settings(settings)
    given = {name: value for name, value in options.items() if value is not None}
    if twice := sorted(named.keys() & given.keys()):
        raise UsageError(f"{flag_of(twice[0])} and --set {twice[0]} are the same; leave one out")
    given |= named
    # A value of --set may name a file, too.
    files = {name: Path(str(given[name])) for name in _READERS if name in given}
    learned = {name: _READERS[name](path) for name, path in files.items()}
    return MechanismChoice(name=mechanism, parameters=given | learned, files=files)


set_option = option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Another parameter, such as gamma=0.3; may be repeated.",
    heading=HEADING,
)
hide_among_option = option(
    "--hide-among",
    type=int,
    metavar="N",
    help="hide-among: mean number of users nearer to the true location than the published one, such as 100.",
    heading=HEADING,
)
_mechanism_option = option(
    "--mechanism", metavar="NAME", help=f"{', '.join(MECHANISMS)}, or your own as FILE.py:CLASS.", heading=HEADING
)
_noise_option = option(
    "--noise",
    "noise_m",
    type=Length(),
    help="Mean distance that the noise adds, as 500m, 0.5km or 0.3mi.",
    show_default=f"{DEFAULT_NOISE_M:.0f}m",
    heading=HEADING,
)
mechanism_options = options_as(
    "mechanism",
    (
        _noise_option,
        hide_among_option,
        option("--cells", type=FILE, metavar="FILE", help="hide-among: cells from 'nearveil fit'.", heading=HEADING),
        option("--intervals", type=FILE, metavar="FILE", help="dprs: intervals from 'nearveil fit'.", heading=HEADING),
        option("--epsilon", type=float, metavar="E", help="Privacy loss that the mechanism allows.", heading=HEADING),
        _mechanism_option,
        set_option,
    ),
    _choice,
)
"""Adds the options of a mechanism; the command gets a `MechanismChoice` as ``mechanism``."""
few_mechanism_options = options_as("mechanism", (_mechanism_option, _noise_option, set_option), _choice)
"""The same for a command with many other options: ``--set`` also takes epsilon, hide_among, cells and intervals."""
