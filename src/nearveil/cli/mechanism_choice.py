"""From the options of ``nearveil protect`` to a mechanism."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from nearveil.cli.options import FitMethodName, NoiseName, metres
from nearveil.errors import UsageError
from nearveil.mechanisms.axis_laplace import AxisLaplace
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.intervals import Intervals
from nearveil.mechanisms.planar_laplace import PlanarLaplace, hide_within_from_epsilon_per_km
from nearveil.mechanisms.square import Square
from nearveil.mechanisms.srr import SRR
from nearveil.region import Region


class MechanismName(StrEnum):
    """Mechanisms by the names the command line knows."""

    DPRS = "dprs"
    PLANAR_LAPLACE = "planar-laplace"
    LAPLACE = "laplace"
    SRR = "srr"
    SQUARE = "square"


class ReleaseName(StrEnum):
    """What DPRS does inside an interval."""

    METRIC = "metric"
    INTERVAL = "interval"
    PAPER = "paper"


MechanismOption = Annotated[
    MechanismName | None,
    typer.Option(
        help="How people are moved. An option that planar-laplace does not have selects dprs.",
        show_default="planar-laplace",
        rich_help_panel="Mechanism",
    ),
]
ReleaseOption = Annotated[
    ReleaseName | None,
    typer.Option(
        help="dprs: 'metric' holds between all places, 'interval' within an interval, 'paper' claims too much.",
        show_default="metric; with --epsilon or --noise, interval",
        rich_help_panel="Mechanism",
    ),
]
NoiseOption = Annotated[
    NoiseName | None,
    typer.Option(help="dprs, interval and paper: the noise.", show_default="laplace", rich_help_panel="Mechanism"),
]
EpsilonOption = Annotated[
    float | None,
    typer.Option(
        help="Privacy budget; alone, selects dprs with the release interval, which discloses the interval.",
        rich_help_panel="Mechanism",
    ),
]
FitEpsilonOption = Annotated[
    float | None,
    typer.Option(
        help="dprs: what finding the intervals costs each person; twice that for another place.",
        show_default="as --epsilon, or 1",
        rich_help_panel="Mechanism",
    ),
]
HideWithinOption = Annotated[
    str | None,
    typer.Option(
        help="planar-laplace, metric: mean length of the noise, such as 500m or 1.5km.",
        metavar="LENGTH",
        show_default="500m",
        rich_help_panel="Mechanism",
    ),
]
EpsilonPerKmOption = Annotated[
    float | None,
    typer.Option(help="planar-laplace, metric: the same as a loss per kilometre.", rich_help_panel="Mechanism"),
]
LeastRadiusOption = Annotated[
    str | None,
    typer.Option(
        help="dprs: leave out intervals until none is smaller.", metavar="LENGTH", rich_help_panel="Mechanism"
    ),
]
IntervalsOption = Annotated[
    Path | None,
    typer.Option(help="dprs: intervals that 'nearveil fit' wrote.", metavar="FILE", rich_help_panel="Mechanism"),
]

_T = TypeVar("_T")

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

_LOCAL: dict[MechanismName, type[AxisLaplace] | type[SRR] | type[Square]] = {
    MechanismName.LAPLACE: AxisLaplace,
    MechanismName.SRR: SRR,
    MechanismName.SQUARE: Square,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The protection asked for; None where an option was not given."""

    mechanism: MechanismName | None = None
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

    @property
    def is_given(self) -> bool:
        """Whether any protection was asked for at all."""
        return any(getattr(self, field.name) is not None for field in fields(self))

    @property
    def chosen(self) -> MechanismName:
        """The mechanism named, or else planar Laplace, unless an option is given that it does not have."""
        if self.mechanism is not None:
            return self.mechanism
        others = any(getattr(self, option) is not None for option in ("epsilon", *_DPRS_OPTIONS))
        return MechanismName.DPRS if others else MechanismName.PLANAR_LAPLACE

    @property
    def chosen_release(self) -> ReleaseName:
        """The release named, or the one that the budget speaks of."""
        if self.release is not None:
            return self.release
        return ReleaseName.METRIC if self.epsilon is None and self.noise is None else ReleaseName.INTERVAL


def build_mechanism(wish: Wish, region: Region, seed: int | None = None) -> Mechanism:
    """Return the mechanism wished for; refuse options that do not go with it."""
    name = wish.chosen
    if name is MechanismName.PLANAR_LAPLACE:
        return _planar_laplace(wish, region, seed)
    if name is MechanismName.DPRS:
        return _dprs(wish, region, seed)
    _refuse_metres(wish, name)
    _refuse_dprs_options(wish, name)
    return _LOCAL[name](epsilon=_given(wish.epsilon, 1.0), region=region, seed=seed)


def _planar_laplace(wish: Wish, region: Region, seed: int | None) -> Mechanism:
    name = MechanismName.PLANAR_LAPLACE
    _refuse(
        wish,
        name,
        "epsilon",
        hint="its epsilon is per distance; use --hide-within 500m or --epsilon-per-km instead",
    )
    _refuse_dprs_options(wish, name)
    return PlanarLaplace(hide_within_m=_hide_within_m(wish), region=region, seed=seed)


def _hide_within_m(wish: Wish) -> float:
    if wish.hide_within is not None and wish.epsilon_per_km is not None:
        raise UsageError("--hide-within and --epsilon-per-km say the same thing; give one of them")
    if wish.epsilon_per_km is not None:
        return hide_within_from_epsilon_per_km(wish.epsilon_per_km)
    return metres(_given(wish.hide_within, "500m"), "--hide-within")


def _dprs(wish: Wish, region: Region, seed: int | None) -> Mechanism:
    release = wish.chosen_release
    if wish.intervals is not None:
        _refuse(
            wish, "dprs", "centres", "rounds", "gamma", "fit_method", "population", "fit_epsilon",
            hint="the --intervals file has its own",
        )  # fmt: skip
    if release is ReleaseName.METRIC:
        hint = "its loss is per distance; use --hide-within 500m or --epsilon-per-km, or --release interval"
        _refuse(wish, "the release metric", "epsilon", "noise", hint=hint)
    else:
        if wish.release is None:
            _refuse_length_and_budget(wish)
        _refuse_metres(wish, f"the release {release.value}")
    if release is ReleaseName.PAPER:
        _refuse(wish, "the release paper", "fit_epsilon", hint="half of --epsilon pays for the intervals; leave it out")
    method = wish.fit_method or (FitMethodName.PIC if release is ReleaseName.PAPER else FitMethodName.PRIVATE_GRID)
    if method is FitMethodName.PRIVATE_GRID and wish.rounds is not None:
        raise UsageError("--rounds goes with --fit-method pic; the private grid needs none")
    if release is not ReleaseName.PAPER and method is FitMethodName.PRIVATE_GRID and wish.intervals is None:
        _refuse(wish, "the private grid", "delta", hint="it needs none; leave it out, or add --fit-method pic")
    params: dict[str, Any] = {
        "release": release.value,
        "epsilon": wish.epsilon,
        "hide_within_m": _hide_within_m(wish) if release is ReleaseName.METRIC else None,
        "fit_epsilon": wish.fit_epsilon,
        "least_radius_m": None if wish.least_radius is None else metres(wish.least_radius, "--least-radius"),
        "delta": wish.delta,
        "noise": wish.noise and wish.noise.value,
        "centres": wish.centres,
        "rounds": wish.rounds,
        "gamma": wish.gamma,
        "fit_method": wish.fit_method and wish.fit_method.value,
        "population": wish.population,
    }
    given = {name: value for name, value in params.items() if value is not None}
    return DPRS(**given, intervals=wish.intervals, region=region, seed=seed)


def _refuse_dprs_options(wish: Wish, name: MechanismName) -> None:
    _refuse(wish, name, *_DPRS_OPTIONS, hint="it goes with dprs; leave it out")


def _refuse_metres(wish: Wish, name: str) -> None:
    hint = "it is a length and goes with the release metric and with planar-laplace; use --epsilon"
    _refuse(wish, name, "hide_within", "epsilon_per_km", hint=hint)


def _refuse_length_and_budget(wish: Wish) -> None:
    """Say what each of the two would select, where no release was named."""
    lengths, budgets = _names_given(wish, "hide_within", "epsilon_per_km"), _names_given(wish, "epsilon", "noise")
    if lengths and budgets:
        alone = replace(wish, epsilon=None, noise=None).chosen
        other = "planar Laplace" if alone is MechanismName.PLANAR_LAPLACE else "DPRS, release metric"
        raise UsageError(
            f"give either {lengths[0]} ({other}) or {budgets[0]} (which selects DPRS, release interval), not both"
        )


def _names_given(wish: Wish, *options: str) -> list[str]:
    return [f"--{option.replace('_', '-')}" for option in options if getattr(wish, option) is not None]


def _refuse(wish: Wish, name: str, *options: str, hint: str) -> None:
    given = _names_given(wish, *options)
    if given:
        raise UsageError(f"{given[0]} cannot be used with {name} here: {hint}")


def _given(value: _T | None, default: _T) -> _T:
    return default if value is None else value
