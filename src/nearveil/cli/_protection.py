"""The protection options, the same for every command that has them, and the mechanism that they describe."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from nearveil.cli._old_options import (
    CentresOption,
    DeltaOption,
    FitMethodName,
    FitMethodOption,
    GammaOption,
    NoiseName,
    PopulationOption,
    RoundsOption,
    places_in_region,
    read_intervals,
    takes_options,
)
from nearveil.errors import BadRowError, DataError, UsageError
from nearveil.io.density import read_density
from nearveil.io.files import read_people
from nearveil.io.people import ReadOptions
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
from nearveil.mechanisms.intervals import Intervals
from nearveil.mechanisms.planar_laplace import (
    DEFAULT_NOISE_M,
    LARGEST_NOISE_M,
    noise_m_from_epsilon_per_km,
)
from nearveil.mechanisms.registry import MECHANISMS, MechanismEntry, mechanism_entry
from nearveil.region import Region, metres
from nearveil.types import FloatArray

# The protection options, the same for every command that has them.


def _protection(
    *,
    mechanism: MechanismOption = None,
    release: ReleaseOption = None,
    noise_law: NoiseOption = None,
    noise: NoiseLengthOption = None,
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


def _protection_options(*, intervals: Path | None, cells: Path | None, **given: Any) -> ProtectionOptions:
    return ProtectionOptions(
        **given,
        intervals=read_intervals(intervals),
        intervals_file=intervals,
        cells=None if cells is None else load_cells(cells),
        cells_file=cells,
    )


takes_protection = takes_options("protection", _protection, _protection_options)
"""Replaces a command's parameter ``protection`` by the protection options."""


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
        show_default="metric; with --epsilon or --noise-law, interval",
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
NoiseLengthOption = Annotated[
    str | None,
    typer.Option(
        help="planar-laplace, release metric: mean distance that the noise adds, such as 500m or 1.5km.",
        metavar="LENGTH",
        show_default=f"{DEFAULT_NOISE_M:.0f}m",
        rich_help_panel="Mechanism",
    ),
]
EpsilonPerKmOption = Annotated[
    float | None,
    typer.Option(help="Instead of --noise: epsilon per kilometre.", rich_help_panel="Mechanism"),
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
PublishedStoreOption = Annotated[
    str | None,
    typer.Option(
        help="Cells: make them from the locations that a service has published, at no further cost. STORE is its "
        "SQLite file or postgresql://…; it states the noise, and is only read.",
        metavar="STORE",
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

_STRENGTHS = ("epsilon", "noise", "epsilon_per_km")
# Planar Laplace has neither intervals nor an epsilon without a distance.
_DPRS_OPTIONS = (
    "release",
    "noise_law",
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
    noise_law: NoiseName | None = None
    noise: str | None = None
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
        return ReleaseName.METRIC if self.epsilon is None and self.noise_law is None else ReleaseName.INTERVAL


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
        noise_m=_noise_m(protection, region),
        hide_among=protection.hide_among,
    )


def _refuse_what_it_does_not_take(protection: ProtectionOptions, entry: MechanismEntry) -> None:
    name, takes = entry.name if entry.is_own else entry.label, entry.parameters
    if "noise_m" not in takes and "epsilon" in takes:
        _refuse_metres(protection, name)
    if "epsilon" not in takes and "noise_m" in takes:
        hint = "its epsilon is per distance; use --noise 500m or --epsilon-per-km 4 instead"
        _refuse(protection, name, "epsilon", hint=hint)
    if entry.strength is None:
        _refuse(protection, name, *_STRENGTHS, hint="its constructor takes neither epsilon nor noise_m")
    _refuse(protection, name, *_DPRS_OPTIONS, hint="it is an option of dprs; leave it out")
    others = (option for option in _HIDE_AMONG_OPTIONS if option not in takes)
    _refuse(protection, name, *others, hint="it is an option of hide-among; leave it out")


def _noise_m(protection: ProtectionOptions, region: Region) -> float | None:
    """Return the length given; None to use the mechanism's default. One beyond the region is likely a slip."""
    if protection.noise is not None and protection.epsilon_per_km is not None:
        raise UsageError("--noise and --epsilon-per-km set the same parameter; give one of them")
    if protection.epsilon_per_km is not None:
        return noise_m_from_epsilon_per_km(protection.epsilon_per_km)
    if protection.noise is None:
        return None
    length_m, side_m = metres(protection.noise, "--noise"), 2 * max(region.half_extent_m)
    if side_m < length_m <= LARGEST_NOISE_M:
        raise UsageError(
            f"--noise {protection.noise} is more than the region is wide ({side_m / 1000:,.0f} km): nearly "
            "everybody would be published at its edge; give less, or say that it is meant with --epsilon-per-km "
            f"{2000 / length_m:.4g}"
        )
    return length_m


def _dprs(protection: ProtectionOptions, region: Region, seed: int | None) -> Mechanism:
    release = protection.chosen_release
    _refuse(protection, "dprs", *_HIDE_AMONG_OPTIONS, hint="it is an option of hide-among; leave it out")
    if protection.intervals is not None:
        _refuse(
            protection, "dprs", "centres", "rounds", "gamma", "fit_method", "population", "fit_epsilon",
            hint="the --intervals file was fitted already; leave it out",
        )  # fmt: skip
    if release is ReleaseName.METRIC:
        hint = "its epsilon is per distance; use --noise 500m or --epsilon-per-km 4, or --release interval"
        _refuse(protection, "the release metric", "epsilon", "noise_law", hint=hint)
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
        "noise_m": _noise_m(protection, region) if release is ReleaseName.METRIC else None,
        "fit_epsilon": protection.fit_epsilon,
        "least_radius_m": None
        if protection.least_radius is None
        else metres(protection.least_radius, "--least-radius"),
        "delta": protection.delta,
        "noise": protection.noise_law and protection.noise_law.value,
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
    _refuse(protection, _HIDE_AMONG, "noise", "epsilon_per_km", hint=hint)
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


def refuse_input_as_public(source: str | Path, *, density: Path | None, published: Path | None) -> None:
    """Refuse to take the people of INPUT for public data: cells from them would not be free."""
    for option, path in (("--density", density), ("--published", published)):
        if is_same_file(source, path):
            raise UsageError(
                f"{option} is the INPUT, whose true locations are not public; leave it out, and the cells are fitted "
                "at a cost, or name another file"
            )


def is_same_file(path: str | Path, other: str | Path | None) -> bool:
    """Whether two paths name one file, perhaps by a second name of it."""
    if other is None:
        return False
    first, second = Path(path), Path(other)
    return first.resolve() == second.resolve() or (first.exists() and second.exists() and first.samefile(second))


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
        density = read_density(protection.density, column=protection.density_column, region=region, read=read)
        plan, population = protection.cell_plan, protection.population
        return _holding(cells_from_density(density, region, plan, population=population), plan)
    if protection.published is not None:
        if protection.published_within is None:
            raise UsageError(
                "--published names published places without their noise stated; add --published-within with the mean "
                "distance that it added, such as 500m"
            )
        within_m = metres(protection.published_within, "--published-within")
        places, plan = published_places(protection.published, region, read), protection.cell_plan
        return _holding(cells_from_published(places, region, within_m, plan), plan)
    return protection.cells


def published_places(published: Path, region: Region, read: ReadOptions | None = None) -> FloatArray:
    """Return the places of a --published file; without ``read``, the options for reading are those of INPUT."""
    try:
        people = read_people(published, read, carry=False, region=region)
        return places_in_region(people, region, clip=read is not None and read.clip)
    except BadRowError as error:
        if read is not None:
            raise
        raise DataError(
            f"the --published file: {error}. --skip-bad is for INPUT; 'nearveil fit cells.geojson --published FILE' "
            "takes it for this file, and --cells takes what that writes"
        ) from None


def _holding(cells: Cells, plan: CellPlan) -> Cells:
    cells.check_holds(plan.hide_among)
    return cells


def _refuse_metres(protection: ProtectionOptions, name: str) -> None:
    hint = "it is for planar-laplace and the release metric of dprs; use --epsilon"
    _refuse(protection, name, *_STRENGTHS[1:], hint=hint)


def _refuse_length_and_budget(protection: ProtectionOptions) -> None:
    """Refuse a length together with an epsilon if no release is named; say what each would select."""
    lengths, budgets = (
        _names_given(protection, "noise", "epsilon_per_km"),
        _names_given(protection, "epsilon", "noise_law"),
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
