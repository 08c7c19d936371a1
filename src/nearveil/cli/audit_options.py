"""Options that only ``nearveil audit`` has."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class StageName(StrEnum):
    """What of a mechanism is audited."""

    RELEASE = "release"
    FIT = "fit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much to draw, how sure to be, and how to say it."""

    samples: int | None
    confidence: float
    seed: int | None
    as_json: bool


ClaimOption = Annotated[
    str | None,
    typer.Option(
        help="own, paper, a JSON file, or words: local:1, interval:1, metric:0.004 (per metre), metric:4/km; a delta "
        "may follow, as in local:1:1e-6.",
        metavar="own|paper|FILE|WORDS",
        show_default="own",
        rich_help_panel="Audit",
    ),
]
CallableOption = Annotated[
    str | None,
    typer.Option(
        "--callable",
        help="Audit a Python function points, rng -> points, in degrees: package.module:name or file.py:name.",
        metavar="NAME",
        rich_help_panel="Somebody else's mechanism",
    ),
]
CommandOption = Annotated[
    str | None,
    typer.Option(
        help="Audit a program that reads latitude,longitude rows as CSV and writes a row for each.",
        metavar='"PROGRAM {input} {output}"',
        rich_help_panel="Somebody else's mechanism",
    ),
]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        help="Seconds that one call may take.", show_default="60", rich_help_panel="Somebody else's mechanism"
    ),
]
StageOption = Annotated[
    StageName, typer.Option(help="'fit' audits how dprs finds its intervals.", rich_help_panel="Audit")
]
SamplesOption = Annotated[
    int | None,
    typer.Option(
        help="Outputs to draw in all; at stage fit, fits to make.",
        show_default="2,000,000; 400,000 for somebody else's; 400 fits",
        metavar="N",
        min=1,
        rich_help_panel="Audit",
    ),
]
ConfidenceOption = Annotated[
    float, typer.Option(help="A true claim is called violated less often than 1 minus this.", rich_help_panel="Audit")
]
AuditSeedOption = Annotated[
    int | None,
    typer.Option(
        help="Makes the audit repeatable.", show_default="a fresh one", metavar="N", min=0, rich_help_panel="Audit"
    ),
]
PlaceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--place",
        help="Try pairs around this place as well, instead of searching the region; may be given again. The place is "
        "written into the witness: give a made-up one.",
        metavar="LAT,LON",
        show_default="a search over the region",
        rich_help_panel="Audit",
    ),
]
CheckOption = Annotated[
    Path | None,
    typer.Option(
        help="Check a witness on fresh samples instead of auditing.", metavar="WITNESS.json", rich_help_panel="Audit"
    ),
]
WitnessOption = Annotated[
    Path | None,
    typer.Option(help="Write what was counted, to be checked.", metavar="FILE.json", rich_help_panel="Output"),
]
PictureOption = Annotated[
    Path | None,
    typer.Option(
        help="Draw the outputs of the two places, the border and the event.",
        metavar="FILE.png",
        rich_help_panel="Output",
    ),
]
