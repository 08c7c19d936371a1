"""Options that several commands share, and the functions that read their values."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from nearveil.errors import UsageError
from nearveil.io.atomic import read_text
from nearveil.io.density import read_density
from nearveil.io.files import read_people
from nearveil.io.people import People, ReadOptions
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.cells import Cells, load_cells
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.fit_cells import (
    LARGEST_CELL_M,
    LEAST_CELL_M,
    CellPlan,
    cells_from_density,
    cells_from_published,
)
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.mechanisms.intervals import Intervals, intervals_from_json
from nearveil.mechanisms.planar_laplace import DEFAULT_HIDE_WITHIN_M, hide_within_from_epsilon_per_km
from nearveil.mechanisms.registry import MECHANISMS, MechanismEntry, mechanism_entry
from nearveil.privacy.guarantee import Notion
from nearveil.privacy.ledger import Budget, Ledger
from nearveil.region import DEFAULT_REGION, Region, metres, parse_region
from nearveil.release.protect import Engine
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
LatitudeOption = Annotated[str | None, typer.Option(help="Name of the latitude column.", metavar="COLUMN")]
LongitudeOption = Annotated[str | None, typer.Option(help="Name of the longitude column.", metavar="COLUMN")]
DropOption = Annotated[list[str] | None, typer.Option(help="Leave out this column; may be repeated.", metavar="COLUMN")]
PersonOption = Annotated[
    str | None,
    typer.Option(help="Column with the id of the person; then one row per person is allowed.", metavar="COLUMN"),
]
PerRowOption = Annotated[
    bool,
    typer.Option("--per-row", help="Allow several rows per person; the privacy losses of a person's rows add up."),
]
ClipOption = Annotated[bool, typer.Option("--clip", help="Move people outside the region to its edge.")]
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


# The protection options, the same for every command that has them.


def takes_protection(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's parameter ``protection`` by the protection options.

    Typer reads options from a function's signature, so the signature is assembled here.
    """
    own = inspect.signature(command).parameters
    options = inspect.signature(_protection).parameters
    parameters: list[inspect.Parameter] = []
    for name, parameter in own.items():
        parameters += options.values() if name == "protection" else [parameter]
    hints = {**get_type_hints(command, include_extras=True), **get_type_hints(_protection, include_extras=True)}

    def run(**given: Any) -> None:
        values = {name: given.pop(name) for name in options}
        intervals, cells = values.pop("intervals"), values.pop("cells")
        protection = ProtectionOptions(
            **values,
            intervals=read_intervals(intervals),
            intervals_file=intervals,
            cells=None if cells is None else load_cells(cells),
            cells_file=cells,
        )
        command(**given, protection=protection)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {parameter.name: hints[parameter.name] for parameter in parameters} | {"return": None}
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [parameter.replace(annotation=hints[parameter.name]) for parameter in parameters]
    )
    return run


def _protection(
    *,
    mechanism: MechanismOption = None,
    release: ReleaseOption = None,
    noise: NoiseOption = None,
    hide_within: HideWithinOption = None,
    hide_among: HideAmongOption = None,
    epsilon_per_km: EpsilonPerKmOption = None,
    epsilon: EpsilonOption = None,
    fit_epsilon: FitEpsilonOption = None,
    delta: DeltaOption = None,
    intervals: IntervalsOption = None,
    centres: CentresOption = None,
    rounds: RoundsOption = None,
    gamma: GammaOption = None,
    fit_method: FitMethodOption = None,
    population: PopulationOption = None,
    least_radius: LeastRadiusOption = None,
    cells: CellsOption = None,
    density: DensityOption = None,
    density_column: DensityColumnOption = None,
    published: PublishedOption = None,
    published_within: PublishedWithinOption = None,
    least_cell: LeastCellOption = None,
    largest_cell: LargestCellOption = None,
) -> None:
    """Declare the protection options; only the signature is used."""


# From the protection options to a mechanism.


_DPRS, _PLANAR_LAPLACE, _HIDE_AMONG = "dprs", "planar-laplace", "hide-among"
_OWN_NAMES = ", ".join(MECHANISMS)


class ReleaseName(StrEnum):
    """What DPRS does inside an interval."""

    METRIC = "metric"
    INTERVAL = "interval"
    PAPER = "paper"


MechanismOption = Annotated[
    str | None,
    typer.Option(
        help=f"Mechanism that moves people: {_OWN_NAMES}, or your own as FILE.py:CLASS.",
        metavar="NAME",
        show_default="planar-laplace; dprs or hide-among if an option is given that only this has",
        rich_help_panel="Mechanism",
    ),
]
ReleaseOption = Annotated[
    ReleaseName | None,
    typer.Option(
        help="dprs: the guarantee of 'metric' holds between any two locations, that of 'interval' inside one interval; "
        "'paper' is the paper's release, whose claim is false.",
        show_default="metric; with --epsilon or --noise, interval",
        rich_help_panel="Mechanism",
    ),
]
NoiseOption = Annotated[
    NoiseName | None,
    typer.Option(
        help="dprs, releases interval and paper: distribution of the noise.",
        show_default="laplace",
        rich_help_panel="Mechanism",
    ),
]
EpsilonOption = Annotated[
    float | None,
    typer.Option(
        help="Privacy parameter epsilon. On its own it selects dprs with the release interval, which discloses the "
        "interval that a person is in. hide-among: the largest loss per step.",
        rich_help_panel="Mechanism",
    ),
]
FitEpsilonOption = Annotated[
    float | None,
    typer.Option(
        help="dprs, hide-among: epsilon of the fit when a person is added or removed; twice that when a person's "
        "location changes.",
        show_default="dprs: --epsilon, or 1; hide-among: 1",
        rich_help_panel="Mechanism",
    ),
]
HideWithinOption = Annotated[
    str | None,
    typer.Option(
        help="planar-laplace, release metric: mean distance that the noise adds, such as 500m or 1.5km.",
        metavar="LENGTH",
        show_default=f"{DEFAULT_HIDE_WITHIN_M:.0f}m",
        rich_help_panel="Mechanism",
    ),
]
EpsilonPerKmOption = Annotated[
    float | None,
    typer.Option(help="Instead of --hide-within: epsilon per kilometre.", rich_help_panel="Mechanism"),
]
LeastRadiusOption = Annotated[
    str | None,
    typer.Option(
        help="dprs: drop intervals until none has a smaller radius.", metavar="LENGTH", rich_help_panel="Mechanism"
    ),
]
IntervalsOption = Annotated[
    Path | None,
    typer.Option(help="dprs: intervals file from 'nearveil fit'.", metavar="FILE", rich_help_panel="Mechanism"),
]

HideAmongOption = Annotated[
    int | None,
    typer.Option(
        help="hide-among: how many people are nearer to the true location than the published one, on average.",
        metavar="N",
        show_default="that of the --cells file, or 100",
        rich_help_panel="Mechanism",
    ),
]
CellsOption = Annotated[
    Path | None,
    typer.Option(
        help="hide-among: cells file from 'nearveil fit --hide-among'.", metavar="FILE", rich_help_panel="Mechanism"
    ),
]
DensityOption = Annotated[
    Path | None,
    typer.Option(
        help="hide-among: make the cells from public data at no cost: points, or a grid or polygons with counts (CSV, "
        "GeoJSON, GeoParquet, GeoTIFF).",
        metavar="FILE",
        rich_help_panel="Mechanism",
    ),
]
DensityColumnOption = Annotated[
    str | None,
    typer.Option(
        help="Column of the counts in the --density file.",
        metavar="COLUMN",
        show_default="count, people or population",
        rich_help_panel="Mechanism",
    ),
]
PublishedOption = Annotated[
    Path | None,
    typer.Option(
        help="hide-among: make the cells from locations published before with planar Laplace noise, at no further "
        "cost. Needs --published-within.",
        metavar="FILE",
        rich_help_panel="Mechanism",
    ),
]
PublishedWithinOption = Annotated[
    str | None,
    typer.Option(
        help="Mean distance that the noise of the --published file added, such as 500m.",
        metavar="LENGTH",
        rich_help_panel="Mechanism",
    ),
]
LeastCellOption = Annotated[
    str | None,
    typer.Option(
        help="hide-among: side of the smallest cells.",
        metavar="LENGTH",
        show_default=f"{LEAST_CELL_M:g}m",
        rich_help_panel="Mechanism",
    ),
]
LargestCellOption = Annotated[
    str | None,
    typer.Option(
        help="hide-among: side of the largest cells.",
        metavar="LENGTH",
        show_default=f"{LARGEST_CELL_M / 1000:g}km",
        rich_help_panel="Mechanism",
    ),
]

_STRENGTHS = ("epsilon", "hide_within", "epsilon_per_km")
# Planar Laplace has neither intervals nor an epsilon without a distance.
_DPRS_OPTIONS = (
    "release",
    "noise",
    "fit_epsilon",
    "delta",
    "intervals",
    "centres",
    "rounds",
    "gamma",
    "fit_method",
    "population",
    "least_radius",
)
# What hide-among has of them, too.
_SHARED_OPTIONS = ("fit_epsilon", "population")
_CELL_SOURCES = ("cells", "density", "published")
_HIDE_AMONG_OPTIONS = (
    "hide_among",
    *_CELL_SOURCES,
    "density_column",
    "published_within",
    "least_cell",
    "largest_cell",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectionOptions:
    """The protection options; None where an option was not given."""

    mechanism: str | None = None
    release: ReleaseName | None = None
    noise: NoiseName | None = None
    hide_within: str | None = None
    epsilon_per_km: float | None = None
    epsilon: float | None = None
    fit_epsilon: float | None = None
    delta: float | None = None
    intervals: Intervals | None = None
    intervals_file: Path | None = None
    centres: int | None = None
    rounds: int | None = None
    gamma: float | None = None
    fit_method: FitMethodName | None = None
    population: int | None = None
    least_radius: str | None = None
    hide_among: int | None = None
    cells: Cells | None = None
    cells_file: Path | None = None
    density: Path | None = None
    density_column: str | None = None
    published: Path | None = None
    published_within: str | None = None
    least_cell: str | None = None
    largest_cell: str | None = None

    @property
    def is_given(self) -> bool:
        """Whether any of the options was given."""
        return any(getattr(self, field.name) is not None for field in fields(self))

    @property
    def is_more_than_a_name(self) -> bool:
        """Whether any option except ``--mechanism`` was given."""
        return replace(self, mechanism=None).is_given

    @property
    def chosen(self) -> str:
        """The mechanism named; otherwise planar Laplace, or the one that alone has an option that is given."""
        if self.mechanism is not None:
            return self.mechanism
        if self.makes_cells or self.cells is not None:
            return _HIDE_AMONG
        others = any(getattr(self, option) is not None for option in ("epsilon", *_DPRS_OPTIONS))
        return _DPRS if others else _PLANAR_LAPLACE

    @property
    def learned(self) -> Intervals | Cells | None:
        """The intervals or cells given by a file."""
        return self.intervals if self.intervals is not None else self.cells

    @property
    def makes_cells(self) -> bool:
        """Whether an option is given by which cells are made."""
        return any(getattr(self, option) is not None for option in _HIDE_AMONG_OPTIONS if option != "cells")

    @property
    def input_files(self) -> dict[str, Path | None]:
        """The files that these options name, by what messages call them."""
        return {
            "the --intervals file": self.intervals_file,
            "the --cells file": self.cells_file,
            "the --density file": self.density,
            "the --published file": self.published,
        }

    @property
    def cell_plan(self) -> CellPlan:
        """How cells are to be made."""
        return CellPlan(
            hide_among=CellPlan().hide_among if self.hide_among is None else self.hide_among,
            least_cell_m=LEAST_CELL_M if self.least_cell is None else metres(self.least_cell, "--least-cell"),
            largest_cell_m=LARGEST_CELL_M if self.largest_cell is None else metres(self.largest_cell, "--largest-cell"),
        )

    @property
    def chosen_release(self) -> ReleaseName:
        """The release named; otherwise ``interval`` if an epsilon or a noise is given, else ``metric``."""
        if self.release is not None:
            return self.release
        return ReleaseName.METRIC if self.epsilon is None and self.noise is None else ReleaseName.INTERVAL


def build_mechanism(protection: ProtectionOptions, region: Region, seed: int | None = None) -> Mechanism:
    """Return the mechanism that the options describe; refuse options that it does not take."""
    try:
        entry = mechanism_entry(protection.chosen)
    except UsageError as error:
        raise UsageError(f"--mechanism: {error}") from None
    if entry.mechanism is DPRS:
        return _dprs(protection, region, seed)
    if entry.mechanism is HideAmong:
        return _hide_among(protection, region, seed)
    _refuse_what_it_does_not_take(protection, entry)
    return entry.build(
        region=region,
        seed=seed,
        epsilon=protection.epsilon,
        hide_within_m=_hide_within_m(protection),
        hide_among=protection.hide_among,
    )


def _refuse_what_it_does_not_take(protection: ProtectionOptions, entry: MechanismEntry) -> None:
    name, takes = entry.name if entry.is_own else entry.label, entry.parameters
    if "hide_within_m" not in takes and "epsilon" in takes:
        _refuse_metres(protection, name)
    if "epsilon" not in takes and "hide_within_m" in takes:
        hint = "its epsilon is per distance; use --hide-within 500m or --epsilon-per-km 4 instead"
        _refuse(protection, name, "epsilon", hint=hint)
    if entry.strength is None:
        _refuse(protection, name, *_STRENGTHS, hint="its constructor takes neither epsilon nor hide_within_m")
    _refuse(protection, name, *_DPRS_OPTIONS, hint="it is an option of dprs; leave it out")
    others = (option for option in _HIDE_AMONG_OPTIONS if option not in takes)
    _refuse(protection, name, *others, hint="it is an option of hide-among; leave it out")


def _hide_within_m(protection: ProtectionOptions) -> float | None:
    """Return the length given; None to use the mechanism's default."""
    if protection.hide_within is not None and protection.epsilon_per_km is not None:
        raise UsageError("--hide-within and --epsilon-per-km set the same parameter; give one of them")
    if protection.epsilon_per_km is not None:
        return hide_within_from_epsilon_per_km(protection.epsilon_per_km)
    return None if protection.hide_within is None else metres(protection.hide_within, "--hide-within")


def _dprs(protection: ProtectionOptions, region: Region, seed: int | None) -> Mechanism:
    release = protection.chosen_release
    _refuse(protection, "dprs", *_HIDE_AMONG_OPTIONS, hint="it is an option of hide-among; leave it out")
    if protection.intervals is not None:
        _refuse(
            protection, "dprs", "centres", "rounds", "gamma", "fit_method", "population", "fit_epsilon",
            hint="the --intervals file was fitted already; leave it out",
        )  # fmt: skip
    if release is ReleaseName.METRIC:
        hint = "its epsilon is per distance; use --hide-within 500m or --epsilon-per-km 4, or --release interval"
        _refuse(protection, "the release metric", "epsilon", "noise", hint=hint)
    else:
        if protection.release is None:
            _refuse_length_and_budget(protection)
        _refuse_metres(protection, f"the release {release.value}")
    if release is ReleaseName.PAPER:
        _refuse(
            protection,
            "the release paper",
            "fit_epsilon",
            hint="half of --epsilon pays for the intervals; leave it out",
        )
    method = protection.fit_method or (
        FitMethodName.PIC if release is ReleaseName.PAPER else FitMethodName.PRIVATE_GRID
    )
    if method is FitMethodName.PRIVATE_GRID and protection.rounds is not None:
        raise UsageError("--rounds is an option of --fit-method pic; the private grid has no rounds")
    if release is not ReleaseName.PAPER and method is FitMethodName.PRIVATE_GRID and protection.intervals is None:
        _refuse(protection, "the private grid", "delta", hint="it has no delta; leave it out, or add --fit-method pic")
    params: dict[str, Any] = {
        "release": release.value,
        "epsilon": protection.epsilon,
        "hide_within_m": _hide_within_m(protection) if release is ReleaseName.METRIC else None,
        "fit_epsilon": protection.fit_epsilon,
        "least_radius_m": None
        if protection.least_radius is None
        else metres(protection.least_radius, "--least-radius"),
        "delta": protection.delta,
        "noise": protection.noise and protection.noise.value,
        "centres": protection.centres,
        "rounds": protection.rounds,
        "gamma": protection.gamma,
        "fit_method": protection.fit_method and protection.fit_method.value,
        "population": protection.population,
    }
    given = {name: value for name, value in params.items() if value is not None}
    return DPRS(**given, intervals=protection.intervals, region=region, seed=seed)


def _hide_among(protection: ProtectionOptions, region: Region, seed: int | None) -> Mechanism:
    hint = "it hides among people, however far away they are; use --hide-among 100"
    _refuse(protection, _HIDE_AMONG, "hide_within", "epsilon_per_km", hint=hint)
    of_dprs = (option for option in _DPRS_OPTIONS if option not in _SHARED_OPTIONS)
    _refuse(protection, _HIDE_AMONG, *of_dprs, hint="it is an option of dprs; leave it out")
    source = next(iter(_names_given(protection, *_CELL_SOURCES)), None)
    if source is not None:
        _refuse(protection, source, "fit_epsilon", hint="nothing is fitted; leave it out")
    if protection.cells is not None:
        hint = "the --cells file was made already; leave it out"
        _refuse(protection, _HIDE_AMONG, "least_cell", "largest_cell", hint=hint)
    cells, plan = given_cells(protection, region), protection.cell_plan
    among = protection.hide_among
    if among is None and cells is not None:
        among = cells.hide_among
    params = {"hide_among": among, "epsilon": protection.epsilon, "fit_epsilon": protection.fit_epsilon}
    given = {name: value for name, value in params.items() if value is not None}
    return HideAmong(
        **given,  # type: ignore[arg-type]
        cells=cells,
        least_cell_m=plan.least_cell_m,
        largest_cell_m=plan.largest_cell_m,
        region=region,
        seed=seed,
    )


def given_cells(protection: ProtectionOptions, region: Region, read: ReadOptions | None = None) -> Cells | None:
    """Return the cells given, or make them from public or published data; None where they are to be fitted.

    ``read`` says how the columns of that data are called.
    """
    sources = _names_given(protection, *_CELL_SOURCES)
    if len(sources) > 1:
        raise UsageError(f"{sources[0]} and {sources[1]} both say where the cells are from; give one of them")
    if protection.density is None:
        _refuse(protection, "hide-among", "density_column", hint="it is a column of the --density file; add this")
        _refuse(protection, "hide-among", "population", hint="it is for --density, whose counts it scales")
    if protection.published is None:
        _refuse(protection, "hide-among", "published_within", hint="it is about the --published file; add this")
    if protection.density is not None:
        options = read or ReadOptions()
        density = read_density(
            protection.density,
            column=protection.density_column,
            region=region,
            latitude=options.latitude,
            longitude=options.longitude,
        )
        plan, population = protection.cell_plan, protection.population
        return _holding(cells_from_density(density, region, plan, population=population), plan)
    if protection.published is not None:
        if protection.published_within is None:
            raise UsageError(
                "--published names published places without their noise stated; add --published-within with the mean "
                "distance that it added, such as 500m"
            )
        within_m = metres(protection.published_within, "--published-within")
        people = read_people(protection.published, read, carry=False)
        places = places_in_region(people, region, clip=read is not None and read.clip)
        plan = protection.cell_plan
        return _holding(cells_from_published(places, region, within_m, plan), plan)
    return protection.cells


def _holding(cells: Cells, plan: CellPlan) -> Cells:
    cells.check_holds(plan.hide_among)
    return cells


def _refuse_metres(protection: ProtectionOptions, name: str) -> None:
    hint = "it is for planar-laplace and the release metric of dprs; use --epsilon"
    _refuse(protection, name, *_STRENGTHS[1:], hint=hint)


def _refuse_length_and_budget(protection: ProtectionOptions) -> None:
    """Refuse a length together with an epsilon if no release is named; say what each would select."""
    lengths, budgets = (
        _names_given(protection, "hide_within", "epsilon_per_km"),
        _names_given(protection, "epsilon", "noise"),
    )
    if lengths and budgets:
        alone = replace(protection, epsilon=None, noise=None).chosen
        other = "planar Laplace" if alone == _PLANAR_LAPLACE else "DPRS, release metric"
        raise UsageError(
            f"give either {lengths[0]} ({other}) or {budgets[0]} (which selects DPRS, release interval), not both"
        )


def _names_given(protection: ProtectionOptions, *options: str) -> list[str]:
    return [f"--{option.replace('_', '-')}" for option in options if getattr(protection, option) is not None]


def _refuse(protection: ProtectionOptions, name: str, *options: str, hint: str) -> None:
    given = _names_given(protection, *options)
    if given:
        raise UsageError(f"{given[0]} cannot be used with {name}: {hint}")


# Options for the engine, local or Spark.


_PANEL = "Spark engine"


class EngineName(StrEnum):
    """Engines that can run a release."""

    LOCAL = "local"
    SPARK = "spark"


EngineOption = Annotated[
    EngineName,
    typer.Option(help="Run on this machine, or on Spark, which reads and writes every path that Spark supports."),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        help="Column with a different value in every row; required.", metavar="COLUMN", rich_help_panel=_PANEL
    ),
]
InputFormatOption = Annotated[
    str | None,
    typer.Option(
        help="Format of the input, as Spark names it.", show_default="from its extension", rich_help_panel=_PANEL
    ),
]
OutputFormatOption = Annotated[
    str | None,
    typer.Option(
        help="Format of the output, as Spark names it, such as delta.",
        show_default="from its extension, or parquet",
        rich_help_panel=_PANEL,
    ),
]
PartitionByOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Partition the output by this column; may be repeated.", metavar="COLUMN", rich_help_panel=_PANEL
    ),
]
SparkConfOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Spark setting, such as spark.master=spark://host:7077; may be repeated.",
        metavar="NAME=VALUE",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """The options of the Spark engine."""

    key: str | None
    input_format: str | None
    output_format: str | None
    partition_by: Sequence[str] | None
    spark_conf: Sequence[str] | None

    def check(self, engine: EngineName, seed: int | None, *, keep_order: bool) -> None:
        """Refuse options that the engine does not support, and Spark without a key."""
        if engine is EngineName.SPARK and self.key is None:
            raise UsageError("the Spark engine needs --key: a column with a different value in every row")
        if engine is EngineName.SPARK and seed is not None:
            raise UsageError("the Spark engine does not support --seed; leave it out")
        if engine is EngineName.SPARK and keep_order:
            raise UsageError("the Spark engine always writes rows in random order; leave --keep-order out")
        if engine is EngineName.LOCAL:
            for name in self.__slots__:
                if getattr(self, name):
                    raise UsageError(f"--{name.replace('_', '-')} is for the Spark engine; add --engine spark")

    def engine(self) -> Engine:
        """Return the Spark engine; Spark is imported only here."""
        from nearveil.release.spark.api import SparkEngine  # noqa: PLC0415

        return SparkEngine(
            key=str(self.key),
            input_format=self.input_format,
            output_format=self.output_format,
            partition_by=tuple(self.partition_by or ()),
            settings=self.settings,
            # Spark shows its own progress bar: only Spark knows the stages.
            show_progress=sys.stderr.isatty(),
        )

    @property
    def settings(self) -> dict[str, str]:
        """Spark settings by name."""
        pairs = [text.partition("=") for text in self.spark_conf or ()]
        if not all(name.startswith("spark.") and value for name, _, value in pairs):
            raise UsageError("--spark-conf takes a setting and its value, such as spark.master=spark://host:7077")
        return {name.strip(): value.strip() for name, _, value in pairs}


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
