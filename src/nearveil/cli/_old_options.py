"""Options that several commands share, and the functions that read their values."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from nearveil.errors import BadRowError, DataError, UsageError
from nearveil.io.atomic import read_text
from nearveil.io.people import People, ReadOptions
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.intervals import Intervals, intervals_from_json
from nearveil.privacy.guarantee import Notion
from nearveil.privacy.ledger import Budget, Ledger
from nearveil.region import DEFAULT_REGION, Region, parse_region
from nearveil.types import FloatArray


class ScalingName(StrEnum):
    """How the square is scaled."""

    ISOTROPIC = "isotropic"
    PER_AXIS = "per-axis"


class NoiseName(StrEnum):
    """Noise confined to an interval."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


class FitMethodName(StrEnum):
    """Ways to build intervals."""

    PIC = "pic"
    PRIVATE_GRID = "private-grid"


_REGION_HELP = "Public region: a name, south,west,north,east in degrees, or a GeoJSON file."
RegionOption = Annotated[
    str | None,
    typer.Option(
        help=_REGION_HELP,
        metavar="REGION",
        show_default=f"region of the --intervals or --cells file, or {DEFAULT_REGION}",
    ),
]
# For commands without --intervals and --cells.
OwnRegionOption = Annotated[str | None, typer.Option(help=_REGION_HELP, metavar="REGION", show_default=DEFAULT_REGION)]
ScalingOption = Annotated[
    ScalingName | None,
    typer.Option(
        help="Map the region to the square with one scale for both axes, or with one for each axis (as in the paper).",
        show_default="isotropic",
    ),
]
DropOption = Annotated[list[str] | None, typer.Option(help="Leave out this column; may be repeated.", metavar="COLUMN")]
PersonOption = Annotated[
    str | None,
    typer.Option(help="Column with the id of the person; then one row per person is allowed.", metavar="COLUMN"),
]
PerRowOption = Annotated[
    bool,
    typer.Option("--per-row", help="Allow several rows per person; the privacy losses of a person's rows add up."),
]
KeepOrderOption = Annotated[
    bool,
    typer.Option(
        "--keep-order",
        help="Keep the order of the rows, which can reveal locations; by default the rows are shuffled.",
    ),
]
TrueFiguresOption = Annotated[
    Path | None,
    typer.Option(
        help="Write statistics of the true locations (displacement, rows clipped) to this file; do not publish it.",
        metavar="FILE",
    ),
]
CentresOption = Annotated[
    int | None,
    typer.Option(
        help="Number of intervals.",
        show_default="one per 20 people, between 2 and 800, from a noisy count",
        metavar="M",
        rich_help_panel="Mechanism",
    ),
]
RoundsOption = Annotated[
    int | None,
    typer.Option(help="pic: number of rounds of private k-means.", show_default="12", rich_help_panel="Mechanism"),
]
GammaOption = Annotated[
    float | None,
    typer.Option(
        help="Radius of an interval as a fraction of the distance to the nearest other centre.",
        show_default="0.5",
        rich_help_panel="Mechanism",
    ),
]
FitMethodOption = Annotated[
    FitMethodName | None,
    typer.Option(
        help="Algorithm that finds the intervals: a noisy grid, or the paper's PIC.",
        show_default="private-grid; pic with --release paper",
        rich_help_panel="Mechanism",
    ),
]
PopulationOption = Annotated[
    int | None,
    typer.Option(
        help="Number of people, if it is public; replaces the noisy count that sets the number of intervals. With "
        "--density, counts are scaled to it.",
        metavar="N",
        rich_help_panel="Mechanism",
    ),
]
DeltaOption = Annotated[
    float | None,
    typer.Option(help="Delta of the guarantee, if it has one.", show_default="1e-5", rich_help_panel="Mechanism"),
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        help="Make the result repeatable. For experiments only: a seeded result protects nobody.", metavar="N"
    ),
]


class CardName(StrEnum):
    """How much of a guarantee is printed."""

    SHORT = "short"
    FULL = "full"


CardOption = Annotated[CardName, typer.Option(help="Print a short or the full description of the guarantee.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace the output file if it exists.")]


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


def chosen_region(region: str | None, scaling: ScalingName | None, learned: Intervals | Cells | None) -> Region:
    """Return the region of ``--region``, of the intervals or cells given, or the default."""
    if learned is None:
        name = DEFAULT_REGION if region is None else region
        return parse_region(name, (scaling or ScalingName.ISOTROPIC).value)
    file = "--cells" if isinstance(learned, Cells) else "--intervals"
    if scaling is not None and scaling.value != learned.region.scaling:
        raise UsageError(f"--scaling differs from that of the {file} file; leave it out, or fit again")
    if region is not None:
        asked = parse_region(region, learned.region.scaling)
        if not asked.same_edges(learned.region):
            raise UsageError(f"--region differs from that of the {file} file; leave it out, or fit again")
    return learned.region


def read_intervals(path: Path | None) -> Intervals | None:
    """Read an intervals file, if one is named."""
    if path is None:
        return None
    return intervals_from_json(read_text(path, "intervals"))


def places_in_region(people: People, region: Region, *, clip: bool) -> FloatArray:
    """Return people's locations, checked against the region or clipped to it."""
    return region.clip(people.points) if clip else region.check(people.points)


def takes_options(
    parameter: str, declared: Callable[..., None], build: Callable[..., Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that replaces one parameter of a command by options that several commands share.

    Typer reads options from a function's signature, so the signature is assembled here.

    Parameters
    ----------
    parameter : str
        Of the command: gets what ``build`` returns.
    declared : callable
        Declares the options by its signature.
    build : callable
        Makes one value of them.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own, options = inspect.signature(command).parameters, inspect.signature(declared).parameters
        parameters: list[inspect.Parameter] = []
        for name, each in own.items():
            parameters += options.values() if name == parameter else [each]
        hints = {**get_type_hints(command, include_extras=True), **get_type_hints(declared, include_extras=True)}

        def run(**given: Any) -> None:
            values = {name: given.pop(name) for name in options}
            command(**given, **{parameter: build(**values)})

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__annotations__ = {each.name: hints[each.name] for each in parameters} | {"return": None}
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [each.replace(annotation=hints[each.name]) for each in parameters]
        )
        return run

    return decorate


# Options for reading a file of people, the same for every command that takes one.


PEOPLE_FILE = "CSV, TSV, GeoJSON or Parquet file of true locations; - for standard input."
_READING = "Reading people"


def _reading(
    *,
    latitude: Annotated[
        str | None,
        typer.Option(
            help="Name of the latitude column; with --crs, of the northing.", metavar="COLUMN", rich_help_panel=_READING
        ),
    ] = None,
    longitude: Annotated[
        str | None,
        typer.Option(
            help="Name of the longitude column; with --crs, of the easting.", metavar="COLUMN", rich_help_panel=_READING
        ),
    ] = None,
    location: Annotated[
        str | None,
        typer.Option(
            help="Name of a column that holds both, as 'POINT (longitude latitude)' or 'latitude, longitude'.",
            metavar="COLUMN",
            rich_help_panel=_READING,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Names of all columns, for a text file without a header line, such as id,latitude,longitude.",
            metavar="NAME,NAME,…",
            rich_help_panel=_READING,
        ),
    ] = None,
    crs: Annotated[
        str | None,
        typer.Option(
            help="Reference system of the coordinates, such as EPSG:25833; locations are published in the same.",
            metavar="EPSG:N",
            show_default="WGS84 degrees",
            rich_help_panel=_READING,
        ),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(
            help="What separates the values of a text file: a character, or tab.",
            metavar="CHARACTER",
            show_default="found in the first line",
            rich_help_panel=_READING,
        ),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(
            help="Encoding of a text file, such as latin-1.",
            metavar="NAME",
            show_default="utf-8",
            rich_help_panel=_READING,
        ),
    ] = None,
    skip_bad: Annotated[
        Path | None,
        typer.Option(
            help="Leave out rows that cannot be used, and write them to this file, which holds true locations.",
            metavar="FILE",
            rich_help_panel=_READING,
        ),
    ] = None,
    clip: Annotated[
        bool, typer.Option("--clip", help="Move people outside the region to its edge.", rich_help_panel=_READING)
    ] = False,
) -> None:
    """Declare the options of reading; only the signature is used."""


def _read_options(*, columns: str | None, **given: Any) -> ReadOptions:
    names = () if columns is None else tuple(name.strip() for name in columns.split(","))
    if "" in names or len(set(names)) < len(names):
        raise UsageError("--columns takes a different name for each column, such as id,latitude,longitude")
    return ReadOptions(columns=names, **given)


def takes_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's parameter ``reading`` by the options for reading people; it gets a `ReadOptions`."""

    @wraps(command)
    def naming_the_way_out(*, reading: ReadOptions, **given: Any) -> None:
        try:
            command(reading=reading, **given)
        except BadRowError as error:
            if reading.skip_bad is not None:
                raise
            raise DataError(f"{error}, or leave such rows out with --skip-bad FILE") from None

    return takes_options("reading", _reading, _read_options)(naming_the_way_out)


# Options that charge a release to a ledger of privacy budgets.


LedgerOption = Annotated[
    Path | None,
    typer.Option(
        help="Ledger of privacy budgets: every person is charged before publication. Needs --person and --budget.",
        metavar="FILE",
    ),
]
BudgetOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Privacy budget of each person for any period of this length, such as metric:0.02/30d, elastic:6/30d or "
        "central:4/365d; may be repeated.",
        metavar="NOTION:EPSILON[,DELTA]/TIME",
    ),
]

_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}
_NUMBER = r"([0-9.]+(?:[eE][-+]?[0-9]+)?)"
_BUDGET = re.compile(rf"(\w+):{_NUMBER}(?:,{_NUMBER})?/(\d{{1,6}})([dhm])")
# The finite precision of the noise adds a small delta to every release.
_LEAST_DELTA = 1e-9


def budget_from_text(text: str) -> Budget:
    """Read a budget.

    Examples
    --------
    >>> print(budget_from_text("metric:0.02/30d").promise)
    What is released under the metric notion of a person's places of any 30 days costs at most epsilon = 0.02 and \
delta = 1e-09 per metre.
    """
    match = _BUDGET.fullmatch(text.strip())
    if match is None or match[1] not in list(Notion):
        raise UsageError(
            f"--budget takes a notion ({', '.join(Notion)}), an epsilon and a time, such as metric:0.02/30d or "
            "central:4,1e-5/365d"
        )
    try:
        epsilon, delta = float(match[2]), float(match[3] or _LEAST_DELTA)
    except ValueError:
        raise UsageError("--budget needs numbers for epsilon and delta, as in metric:0.02/30d") from None
    window = int(match[4]) * _UNITS[match[5]]
    return Budget(notion=Notion(match[1]), epsilon=epsilon, delta=delta, window=window)


def open_ledger(path: Path | None, budgets: list[str] | None, read: ReadOptions, seed: int | None) -> Ledger | None:
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
    if not budgets:
        raise UsageError("--ledger needs at least one --budget, such as metric:0.02/30d")
    return Ledger(path, [budget_from_text(text) for text in budgets])
