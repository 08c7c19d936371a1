"""Options that several commands share, each declared once as a decorator, and the functions that read their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearveil.cli._command import Function, option
from nearveil.errors import UsageError
from nearveil.region import Region, as_region

if TYPE_CHECKING:
    from nearveil.io.location import ReadOptions
    from nearveil.mechanisms.base import Learned
    from nearveil.privacy.ledger import Budget, Ledger

FILE = click.Path(path_type=Path)

region_option = option(
    "--region",
    metavar="REGION",
    help="Public region, where one is needed: a name such as berlin, south,west,north,east, or a GeoJSON file.",
)
seed_option = option(
    "--seed", type=int, metavar="N", help="Make the result repeatable, for experiments; it then protects nobody."
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


DEMO_REGION = "san-francisco"
"""Where the users and locations are that commands make up."""


def chosen_region(region: Region | str | None, learned: Learned | None = None) -> Region:
    """Return the region of ``--region``, or of the intervals or cells given."""
    found = optional_region(region, learned)
    if found is None:
        raise UsageError(
            "name the public region with --region: a name such as berlin, south,west,north,east in degrees, or a "
            "GeoJSON file"
        )
    return found


def optional_region(region: Region | str | None, learned: Learned | None = None) -> Region | None:
    """Return the region of ``--region``, or of the intervals or cells given, or None."""
    if learned is None:
        return None if region is None else as_region(region)
    if region is not None and not as_region(region).same_edges(learned.region):
        raise UsageError("--region is not the region of the file of intervals or cells; leave it out, or fit again")
    return learned.region


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


# How a file of users is read, the same for every command that takes one.


PEOPLE_FILE = "File of true locations, such as CSV, GeoJSON or Parquet; - for standard input."
_READING = "Reading INPUT"


def _reading(flag: str, metavar: str, text: str, default: str | None = None) -> Callable[[Function], Function]:
    return option(flag, metavar=metavar, help=text, show_default=default, heading=_READING)


latitude_option = _reading("--latitude", "COLUMN", "Latitude column.")
longitude_option = _reading("--longitude", "COLUMN", "Longitude column.")
crs_option = _reading("--crs", "EPSG:N", "Reference system.", "WGS84 degrees")


def _read_options(*, columns: str | None, **given: Any) -> ReadOptions:
    from nearveil.io.location import ReadOptions  # noqa: PLC0415 - many commands read no file

    names = () if columns is None else tuple(name.strip() for name in columns.split(","))
    if "" in names or len(set(names)) < len(names):
        raise UsageError("--columns takes a different name for each column, such as id,latitude,longitude")
    return ReadOptions(columns=names, **given)


reading_options = options_as(
    "reading",
    (
        latitude_option,
        longitude_option,
        _reading("--location", "COLUMN", "Column with both, as WKT, WKB or 'lat, lon'."),
        _reading("--columns", "NAME,NAME,…", "Names of all columns, if the file has none."),
        crs_option,
        _reading("--delimiter", "CHARACTER", "What separates the values, such as ;"),
        _reading("--encoding", "NAME", "Encoding of the text, such as latin-1.", "utf-8"),
    ),
    _read_options,
)
"""Adds the options for reading a file of users; the command gets a `ReadOptions` as ``reading``."""

USERS = "Users and columns"
"""The heading of options on whose rows these are and what else is published."""
user_option = option(
    "--user", metavar="COLUMN", help="Column with the ids of users; protect publishes it.", heading=USERS
)
skip_bad_option = option(
    "--skip-bad", is_flag=True, help="Leave out rows that cannot be used, and print their numbers."
)
ledger_option = option(
    "--ledger",
    type=FILE,
    metavar="FILE",
    help="Ledger of privacy budgets that is charged first. Needs --user.",
    heading=USERS,
)
budget_option = option(
    "--budget",
    multiple=True,
    metavar="BUDGET",
    help="Budget of each user, kept in the ledger: metric:0.02/30d, central:4,1e-5; may be repeated.",
    heading=USERS,
)

_NUMBER = r"([0-9.]+(?:[eE][-+]?[0-9]+)?)"
_BUDGET = re.compile(rf"(\w+):{_NUMBER}(?:,{_NUMBER})?(?:/(\d{{1,5}})d)?")
# The finite precision of the noise adds a small delta to every place: at most 8e-10, on Spark.
_USUAL_DELTA = 1e-6


def budget_from_text(text: str) -> Budget:
    """Read a budget, such as ``metric:0.02/30d``: a privacy definition, an epsilon, and perhaps a delta and days."""
    from nearveil.privacy.guarantee import PrivacyDefinition  # noqa: PLC0415 - only for releases with a ledger
    from nearveil.privacy.ledger import Budget  # noqa: PLC0415

    match = _BUDGET.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError
        definition, epsilon = PrivacyDefinition(match[1]), float(match[2])
        delta = float(match[3] or _USUAL_DELTA)
    except ValueError:
        raise UsageError(
            f"--budget takes a privacy definition ({', '.join(PrivacyDefinition)}), an epsilon and days, such as "
            "metric:0.02/30d or central:4,1e-5/365d"
        ) from None
    window = None if match[4] is None else timedelta(days=int(match[4]))
    return Budget(definition=definition, epsilon=epsilon, delta=delta, window=window)


def open_ledger(path: Path | None, budgets: Sequence[str], user: str | None) -> Ledger | None:
    """Open the ledger that a release or a fit is charged to, if one is named."""
    if path is None:
        if budgets:
            raise UsageError("--budget needs a ledger; add --ledger FILE")
        return None
    if user is None:
        raise UsageError("--ledger charges users; name the column of their ids with --user")
    from nearveil.privacy.ledger import Ledger  # noqa: PLC0415 - only for releases with a ledger

    return Ledger(path, [budget_from_text(text) for text in budgets])


def check_output_is_none_of(output: str | Path, inputs: dict[str, str | Path | None]) -> None:
    """Refuse an output that is also another file of this command, which ``--force`` would overwrite."""
    for name, other in inputs.items():
        if other is not None and Path(output).resolve() == Path(other).resolve():
            raise UsageError(f"OUTPUT is the same file as {name}; name another file")
