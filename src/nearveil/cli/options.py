"""Options that several commands share, and the words people write in them."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nearveil.cli.json_files import read_text
from nearveil.errors import UsageError
from nearveil.io.people import People
from nearveil.mechanisms.intervals import Intervals, intervals_from_json
from nearveil.region import Region, parse_region
from nearveil.types import FloatArray

DEFAULT_REGION = "san-francisco"


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
    typer.Option(help=_REGION_HELP, metavar="REGION", show_default=f"that of the intervals, or {DEFAULT_REGION}"),
]
# For commands that read no intervals.
OwnRegionOption = Annotated[str | None, typer.Option(help=_REGION_HELP, metavar="REGION", show_default=DEFAULT_REGION)]
ScalingOption = Annotated[
    ScalingName | None,
    typer.Option(help="Scale both axes alike (true discs) or each on its own (the paper).", show_default="isotropic"),
]
LatitudeOption = Annotated[str | None, typer.Option(help="Name of the latitude column.", metavar="COLUMN")]
LongitudeOption = Annotated[str | None, typer.Option(help="Name of the longitude column.", metavar="COLUMN")]
DropOption = Annotated[list[str] | None, typer.Option(help="Leave out this column; may be repeated.", metavar="COLUMN")]
PersonOption = Annotated[
    str | None,
    typer.Option(help="Column that tells people apart; each may then have one row.", metavar="COLUMN"),
]
PerRowOption = Annotated[bool, typer.Option("--per-row", help="Allow several rows per person; their losses add up.")]
ClipOption = Annotated[bool, typer.Option("--clip", help="Move people outside the region to its edge.")]
KeepOrderOption = Annotated[
    bool,
    typer.Option(
        "--keep-order",
        help="Keep the order of the rows, which can give places away; otherwise it is random and secret.",
    ),
]
TrueFiguresOption = Annotated[
    Path | None,
    typer.Option(
        help="Write figures computed from true places (displacement, rows clipped) here, for your own use only.",
        metavar="FILE",
    ),
]
CentresOption = Annotated[
    int | None,
    typer.Option(
        help="Number of intervals.",
        show_default="one for every 20 people, 2 to 800, by a noisy count",
        metavar="M",
        rich_help_panel="Mechanism",
    ),
]
RoundsOption = Annotated[
    int | None, typer.Option(help="Rounds of private k-means.", show_default="12", rich_help_panel="Mechanism")
]
GammaOption = Annotated[
    float | None,
    typer.Option(
        help="Radius as a share of the distance to the next centre.", show_default="0.5", rich_help_panel="Mechanism"
    ),
]
FitMethodOption = Annotated[
    FitMethodName | None,
    typer.Option(
        help="How intervals are found.",
        show_default="private-grid; for the release paper, pic",
        rich_help_panel="Mechanism",
    ),
]
PopulationOption = Annotated[
    int | None,
    typer.Option(
        help="A public number of people, to size the intervals by instead of a noisy count.",
        metavar="N",
        rich_help_panel="Mechanism",
    ),
]
DeltaOption = Annotated[
    float | None, typer.Option(help="Delta of the budget.", show_default="1e-5", rich_help_panel="Mechanism")
]
SeedOption = Annotated[
    int | None,
    typer.Option(help="Make the result repeatable: for experiments, it protects nobody.", metavar="N"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace the output file if it exists.")]


def metres(text: str, option: str) -> float:
    """Read a length: ``500m``, ``0.5km`` or plain metres.

    Examples
    --------
    >>> metres("0.5km", "--hide-within")
    500.0
    """
    match = re.fullmatch(r"\s*([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*(m|km)?\s*", text)
    try:
        number = float(match[1]) if match else None
    except ValueError:
        number = None
    if match is None or number is None or not 0 < number < 1e9:
        raise UsageError(f"{option} takes a length greater than 0 such as 500m or 0.5km")
    return number * (1000.0 if match[2] == "km" else 1.0)


def numbers(text: str, option: str) -> list[int]:
    """Read whole numbers: ``10`` or ``10,30,50``; twice the same counts once.

    Examples
    --------
    >>> numbers("10,30", "--k")
    [10, 30]
    """
    try:
        return list(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise UsageError(f"{option} takes whole numbers such as 10 or 10,30,50") from None


def chosen_region(region: str | None, scaling: ScalingName | None, intervals: Intervals | None) -> Region:
    """Return the region asked for, that of the intervals, or the default."""
    if intervals is None:
        name = DEFAULT_REGION if region is None else region
        return parse_region(name, (scaling or ScalingName.ISOTROPIC).value)
    if scaling is not None and scaling.value != intervals.region.scaling:
        raise UsageError("--scaling is not that of the --intervals file; leave it out, or fit again")
    if region is not None:
        asked = parse_region(region, intervals.region.scaling)
        if not asked.same_edges(intervals.region):
            raise UsageError("--region is not the region of the --intervals file; leave --region out, or fit again")
    return intervals.region


def read_intervals(path: Path | None) -> Intervals | None:
    """Read an intervals file, if one is named."""
    if path is None:
        return None
    return intervals_from_json(read_text(path, "intervals"))


def places_in_region(people: People, region: Region, *, clip: bool) -> FloatArray:
    """Return people's places, checked against the region or clipped to it."""
    return region.clip(people.points) if clip else region.check(people.points)
