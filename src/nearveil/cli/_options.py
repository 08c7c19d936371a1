"""Options that several commands share, each declared once as a decorator, and the functions that read their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any

import click

from nearveil.cli._command import Function, option
from nearveil.errors import BadRowError, DataError, UsageError
from nearveil.io import people
from nearveil.io.location import ReadOptions
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.intervals import Intervals
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.privacy.ledger import Budget, Ledger
from nearveil.region import Region, parse_region
from nearveil.types import FloatArray

FILE = click.Path(path_type=Path)

_REGION_HELP = "Public region: a name, south,west,north,east in degrees, or a GeoJSON file."
region_option = option(
    "--region",
    metavar="REGION",
    help=_REGION_HELP,
    show_default="that of the file, if it has one",
)
# For commands without --intervals and --cells.
own_region_option = option("--region", metavar="REGION", help=_REGION_HELP)
seed_option = option(
    "--seed",
    type=int,
    metavar="N",
    help="Make the result repeatable, for experiments: a seed protects nobody.",
)
cores_option = option("--cores", type=click.IntRange(min=1), help="Number of processes.", show_default="all cores")
data_dir_option = option(
    "--data-dir",
    type=FILE,
    metavar="FOLDER",
    help="Folder with the check-ins of brightkite and gowalla.",
    show_default="NEARVEIL_DATA_DIR, then the cache folder",
)
json_option = option("--json", is_flag=True, help="Print one JSON object instead of text.")
force_option = option("--force", is_flag=True, help="Replace the output file if it exists.")


def numbers(text: str, option: str) -> list[int]:
    """Read whole numbers such as ``10`` or ``10,30,50``, without repetitions.

    Examples
    --------
    >>> numbers("10,30", "--k")
    [10, 30]
    """
    try:
        return list(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise UsageError(f"{option} takes whole numbers such as 10 or 10,30,50") from None


DEMO_REGION = "san-francisco"
"""Where the users and locations are that commands make up."""


def chosen_region(region: str | None, learned: Intervals | Cells | None = None) -> Region:
    """Return the region of ``--region``, or of the intervals or cells given."""
    found = optional_region(region, learned)
    if found is None:
        raise UsageError(
            "name the public region with --region: a name such as berlin, south,west,north,east in degrees, or a "
            "GeoJSON file"
        )
    return found


def optional_region(region: str | None, learned: Intervals | Cells | None = None) -> Region | None:
    """Return the region of ``--region``, or of the intervals or cells given, or None."""
    if learned is None:
        return None if region is None else parse_region(region)
    if region is not None and not parse_region(region, learned.region.scaling).same_edges(learned.region):
        file = "cells" if isinstance(learned, Cells) else "intervals"
        raise UsageError(f"--region differs from that of the {file} file; leave it out, or fit again")
    return learned.region


def is_same_file(path: str | Path, other: str | Path | None) -> bool:
    """Whether two paths name one file, perhaps by a second name of it."""
    if other is None:
        return False
    first, second = Path(path), Path(other)
    return first.resolve() == second.resolve() or (first.exists() and second.exists() and first.samefile(second))


def locations_in_region(people: people.People, region: Region, *, clip: bool) -> FloatArray:
    """Return people's locations, checked against the region or clipped to it."""
    return region.clip(people.points) if clip else region.check(people.points)


def options_as(
    parameter: str, options: Sequence[Callable[[Function], Function]], build: Callable[..., Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds options to a command, which gets what ``build`` makes of their values."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        before = len(getattr(function, "__click_params__", ()))

        @wraps(function)
        def run(**given: Any) -> Any:
            return function(**{parameter: build(**{name: given.pop(name) for name in names})}, **given)

        declared: Any = run
        for each in reversed(options):
            declared = each(declared)
        names = [each.name for each in declared.__click_params__[before:]]
        return run

    return decorate


# Options for reading a file of people, the same for every command that takes one.


PEOPLE_FILE = "CSV, TSV, GeoJSON or Parquet file of true locations; - for standard input."
_READING = "Reading INPUT"
latitude_option = option("--latitude", metavar="COLUMN", help="Latitude column.", heading=_READING)
longitude_option = option("--longitude", metavar="COLUMN", help="Longitude column.", heading=_READING)
_READING_OPTIONS = (
    latitude_option,
    longitude_option,
    option(
        "--location",
        metavar="COLUMN",
        help="Column with both: 'POINT (lon lat)' or 'lat, lon'.",
        heading=_READING,
    ),
    option(
        "--columns",
        metavar="NAME,NAME,…",
        help="Names of all columns, for a text file without them.",
        heading=_READING,
    ),
    option(
        "--crs",
        metavar="EPSG:N",
        help="Reference system of the coordinates.",
        show_default="WGS84 degrees",
        heading=_READING,
    ),
    option(
        "--encoding",
        metavar="NAME",
        help="Encoding of a text file, such as latin-1.",
        show_default="utf-8",
        heading=_READING,
    ),
)
_RELEASE_OPTIONS = (
    *_READING_OPTIONS,
    option(
        "--skip-bad",
        type=FILE,
        metavar="FILE",
        help="Write rows that cannot be used, with true locations, to this file.",
        heading=_READING,
    ),
    option("--clip", is_flag=True, help="Move users outside the region to its edge.", heading=_READING),
)


def _read_options(*, columns: str | None, **given: Any) -> ReadOptions:
    return ReadOptions(columns=_names(columns), **given)


def _names(columns: str | None) -> tuple[str, ...]:
    names = () if columns is None else tuple(name.strip() for name in columns.split(","))
    if "" in names or len(set(names)) < len(names):
        raise UsageError("--columns takes a different name for each column, such as id,latitude,longitude")
    return names


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for reading a file; the command gets a `ReadOptions` as ``reading``."""
    return options_as("reading", _READING_OPTIONS, _read_options)(command)


def _release_read_options(*, columns: str | None, **given: Any) -> people.ReadOptions:
    return people.ReadOptions(columns=_names(columns), **given)


def release_reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for reading people to publish; the command gets a `ReadOptions` as ``reading``."""

    @wraps(command)
    def naming_the_way_out(*, reading: people.ReadOptions, **given: Any) -> Any:
        try:
            return command(reading=reading, **given)
        except BadRowError as error:
            if reading.skip_bad is not None:
                raise
            raise DataError(f"{error}, or leave such rows out with --skip-bad FILE") from None

    return options_as("reading", _RELEASE_OPTIONS, _release_read_options)(naming_the_way_out)


person_option = option(
    "--person", metavar="COLUMN", help="Column with the id of the user; one row per user is allowed."
)
per_row_option = option("--per-row", is_flag=True, help="Allow several rows per user; their privacy losses add up.")


# Options that charge a release to a ledger of privacy budgets.


ledger_option = option(
    "--ledger",
    type=FILE,
    metavar="FILE",
    help="Ledger of privacy budgets, charged before publication. Needs --person and --budget.",
)
budget_option = option(
    "--budget",
    multiple=True,
    metavar="BUDGET",
    help="Privacy budget of each user, such as metric:0.02/30d or central:4,1e-5/365d; may be repeated.",
)

_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}
_NUMBER = r"([0-9.]+(?:[eE][-+]?[0-9]+)?)"
_BUDGET = re.compile(rf"(\w+):{_NUMBER}(?:,{_NUMBER})?/(\d{{1,6}})([dhm])")
# The finite precision of the noise adds a small delta to every release.
_LEAST_DELTA = 1e-9


def budget_from_text(text: str) -> Budget:
    """Read a budget.

    Examples
    --------
    >>> print(budget_from_text("metric:0.02/30d"))
    metric: epsilon 0.02 with delta 1e-09 per meter in any 30 days
    """
    match = _BUDGET.fullmatch(text.strip())
    if match is None or match[1] not in list(PrivacyDefinition):
        raise UsageError(
            f"--budget takes a privacy definition ({', '.join(PrivacyDefinition)}), an epsilon and a time, such as "
            "metric:0.02/30d or central:4,1e-5/365d"
        )
    try:
        epsilon, delta = float(match[2]), float(match[3] or _LEAST_DELTA)
    except ValueError:
        raise UsageError("--budget needs numbers for epsilon and delta, as in metric:0.02/30d") from None
    window = int(match[4]) * _UNITS[match[5]]
    return Budget(definition=PrivacyDefinition(match[1]), epsilon=epsilon, delta=delta, window=window)


def open_ledger(path: Path | None, budgets: Sequence[str], read: people.ReadOptions, seed: int | None) -> Ledger | None:
    """Open the ledger that a release or a fit is charged to, if one is named."""
    if path is None:
        if budgets:
            raise UsageError("--budget needs a ledger; add --ledger FILE")
        return None
    if seed is not None:
        raise UsageError(
            "a release with --seed is not charged, because it protects nobody; leave --seed or --ledger out"
        )
    if read.person is None or read.per_row:
        raise UsageError(
            "--ledger charges people: name the column of their ids with --person, and keep one row per person"
        )
    if not budgets and not path.exists():
        raise UsageError("a new --ledger needs at least one --budget, such as metric:0.02/30d")
    return Ledger(path, [budget_from_text(text) for text in budgets])
