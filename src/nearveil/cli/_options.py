"""Options that several commands share, and the words people write in them."""

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
from nearveil.io.people import People, ReadOptions
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.intervals import Intervals, intervals_from_json
from nearveil.mechanisms.planar_laplace import hide_within_from_epsilon_per_km
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


class CardName(StrEnum):
    """How much of a guarantee is printed."""

    SHORT = "short"
    FULL = "full"


CardOption = Annotated[CardName, typer.Option(help="How much of the guarantee to print.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace the output file if it exists.")]


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


# The options that say how to protect, the same for every command that takes them.


def takes_protection(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of protection in place of its parameter ``wish``.

    Typer reads options off a function's signature, so the signature is put together here: the command's own
    parameters, with the options where ``wish`` stood.
    """
    own = inspect.signature(command).parameters
    options = inspect.signature(_protection).parameters
    parameters: list[inspect.Parameter] = []
    for name, parameter in own.items():
        parameters += options.values() if name == "wish" else [parameter]
    hints = {**get_type_hints(command, include_extras=True), **get_type_hints(_protection, include_extras=True)}

    def run(**given: Any) -> None:
        wished = {name: given.pop(name) for name in options}
        file = wished.pop("intervals")
        command(**given, wish=Wish(**wished, intervals=read_intervals(file), intervals_file=file))

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
) -> None:
    """Only its signature is used."""


# From the options of ``nearveil protect`` to a mechanism.


_DPRS, _PLANAR_LAPLACE = "dprs", "planar-laplace"
_OWN_NAMES = ", ".join(MECHANISMS)


class ReleaseName(StrEnum):
    """What DPRS does inside an interval."""

    METRIC = "metric"
    INTERVAL = "interval"
    PAPER = "paper"


MechanismOption = Annotated[
    str | None,
    typer.Option(
        help=f"How people are moved: {_OWN_NAMES}, or your own as FILE.py:CLASS. An option that planar-laplace does "
        "not have selects dprs.",
        metavar="NAME",
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

_STRENGTHS = ("epsilon", "hide_within", "epsilon_per_km")
_LENGTH_M = 500.0
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The protection asked for; None where an option was not given."""

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

    @property
    def is_given(self) -> bool:
        """Whether any protection was asked for at all."""
        return any(getattr(self, field.name) is not None for field in fields(self))

    @property
    def is_more_than_a_name(self) -> bool:
        """Whether anything but a mechanism's name was given."""
        return replace(self, mechanism=None).is_given

    @property
    def chosen(self) -> str:
        """The mechanism named, or else planar Laplace, unless an option is given that it does not have."""
        if self.mechanism is not None:
            return self.mechanism
        others = any(getattr(self, option) is not None for option in ("epsilon", *_DPRS_OPTIONS))
        return _DPRS if others else _PLANAR_LAPLACE

    @property
    def chosen_release(self) -> ReleaseName:
        """The release named, or the one that the budget speaks of."""
        if self.release is not None:
            return self.release
        return ReleaseName.METRIC if self.epsilon is None and self.noise is None else ReleaseName.INTERVAL


def build_mechanism(wish: Wish, region: Region, seed: int | None = None) -> Mechanism:
    """Return the mechanism wished for; refuse options that do not go with it."""
    try:
        entry = mechanism_entry(wish.chosen)
    except UsageError as error:
        raise UsageError(f"--mechanism: {error}") from None
    if entry.mechanism is DPRS:
        return _dprs(wish, region, seed)
    _refuse_what_it_does_not_take(wish, entry)
    return entry.build(region=region, seed=seed, epsilon=wish.epsilon, hide_within_m=_hide_within_m(wish))


def _refuse_what_it_does_not_take(wish: Wish, entry: MechanismEntry) -> None:
    name, takes = entry.name if entry.is_own else entry.label, entry.parameters
    if "hide_within_m" not in takes and "epsilon" in takes:
        _refuse_metres(wish, name)
    if "epsilon" not in takes and "hide_within_m" in takes:
        hint = "its epsilon is per distance; use --hide-within 500m or --epsilon-per-km instead"
        _refuse(wish, name, "epsilon", hint=hint)
    if entry.strength is None:
        _refuse(wish, name, *_STRENGTHS, hint="its constructor takes neither epsilon nor hide_within_m")
    _refuse(wish, name, *_DPRS_OPTIONS, hint="it goes with dprs; leave it out")


def _hide_within_m(wish: Wish) -> float | None:
    """The length asked for; None where the mechanism's own is to be taken."""
    if wish.hide_within is not None and wish.epsilon_per_km is not None:
        raise UsageError("--hide-within and --epsilon-per-km say the same thing; give one of them")
    if wish.epsilon_per_km is not None:
        return hide_within_from_epsilon_per_km(wish.epsilon_per_km)
    return None if wish.hide_within is None else metres(wish.hide_within, "--hide-within")


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
        "hide_within_m": (_hide_within_m(wish) or _LENGTH_M) if release is ReleaseName.METRIC else None,
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


def _refuse_metres(wish: Wish, name: str) -> None:
    hint = "it is a length and goes with the release metric and with planar-laplace; use --epsilon"
    _refuse(wish, name, *_STRENGTHS[1:], hint=hint)


def _refuse_length_and_budget(wish: Wish) -> None:
    """Say what each of the two would select, where no release was named."""
    lengths, budgets = _names_given(wish, "hide_within", "epsilon_per_km"), _names_given(wish, "epsilon", "noise")
    if lengths and budgets:
        alone = replace(wish, epsilon=None, noise=None).chosen
        other = "planar Laplace" if alone == _PLANAR_LAPLACE else "DPRS, release metric"
        raise UsageError(
            f"give either {lengths[0]} ({other}) or {budgets[0]} (which selects DPRS, release interval), not both"
        )


def _names_given(wish: Wish, *options: str) -> list[str]:
    return [f"--{option.replace('_', '-')}" for option in options if getattr(wish, option) is not None]


def _refuse(wish: Wish, name: str, *options: str, hint: str) -> None:
    given = _names_given(wish, *options)
    if given:
        raise UsageError(f"{given[0]} cannot be used with {name} here: {hint}")


# Options that say which engine does the work, and what only one of them can do.


_PANEL = "Spark engine"


class EngineName(StrEnum):
    """What does the work."""

    LOCAL = "local"
    SPARK = "spark"


EngineOption = Annotated[
    EngineName,
    typer.Option(help="This machine, or a Spark cluster, which reads and writes any path that Spark knows."),
]
KeyOption = Annotated[
    str | None,
    typer.Option(help="Column with another value in every row; required.", metavar="COLUMN", rich_help_panel=_PANEL),
]
InputFormatOption = Annotated[
    str | None,
    typer.Option(help="Spark's name of the input's format.", show_default="from its extension", rich_help_panel=_PANEL),
]
OutputFormatOption = Annotated[
    str | None,
    typer.Option(
        help="Spark's name of the output's format, such as delta.",
        show_default="from its extension, or parquet",
        rich_help_panel=_PANEL,
    ),
]
PartitionByOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Make folders by the values of this column; may be repeated.", metavar="COLUMN", rich_help_panel=_PANEL
    ),
]
SparkConfOption = Annotated[
    list[str] | None,
    typer.Option(
        help="A setting of Spark, such as spark.master=spark://host:7077; may be repeated.",
        metavar="NAME=VALUE",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkWish:
    """What was asked of the Spark engine alone."""

    key: str | None
    input_format: str | None
    output_format: str | None
    partition_by: Sequence[str] | None
    spark_conf: Sequence[str] | None

    def check(self, engine: EngineName, seed: int | None, *, keep_order: bool) -> None:
        """Refuse what this engine does not have, and Spark without a key."""
        if engine is EngineName.SPARK and self.key is None:
            raise UsageError("the Spark engine needs --key: a column with a different value in every row")
        if engine is EngineName.SPARK and seed is not None:
            raise UsageError("--seed protects nobody, and the Spark engine has no use for one; leave it out")
        if engine is EngineName.SPARK and keep_order:
            raise UsageError("the Spark engine always writes rows in random order; leave --keep-order out")
        if engine is EngineName.LOCAL:
            for name in self.__slots__:
                if getattr(self, name):
                    raise UsageError(f"--{name.replace('_', '-')} is for the Spark engine; add --engine spark")

    def engine(self) -> Engine:
        """Return the Spark engine that was asked for; it is loaded only now."""
        from nearveil.release.spark.api import SparkEngine  # noqa: PLC0415

        return SparkEngine(
            key=str(self.key),
            input_format=self.input_format,
            output_format=self.output_format,
            partition_by=tuple(self.partition_by or ()),
            settings=self.settings,
            # Spark has a bar of its own, for what only it knows.
            show_progress=sys.stderr.isatty(),
        )

    @property
    def settings(self) -> dict[str, str]:
        """Spark's settings by their names."""
        pairs = [text.partition("=") for text in self.spark_conf or ()]
        if not all(name.startswith("spark.") and value for name, _, value in pairs):
            raise UsageError("--spark-conf takes a setting and its value, such as spark.master=spark://host:7077")
        return {name.strip(): value.strip() for name, _, value in pairs}


# Options that charge a release to a ledger.


LedgerOption = Annotated[
    Path | None,
    typer.Option(help="Charge everybody here before publishing; needs --person and --budget.", metavar="FILE"),
]
BudgetOption = Annotated[
    list[str] | None,
    typer.Option(
        help="What a person may lose in a window of time, such as metric:0.02/30d or central:4/365d; may be repeated.",
        metavar="NOTION:EPSILON[,DELTA]/TIME",
    ),
]

_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}
_NUMBER = r"([0-9.]+(?:[eE][-+]?[0-9]+)?)"
_BUDGET = re.compile(rf"(\w+):{_NUMBER}(?:,{_NUMBER})?/(\d{{1,6}})([dhm])")
# What the numbers of a computer cannot reach needs a delta, however small.
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
        raise UsageError("--budget has an epsilon or delta that is no number; write such as metric:0.02/30d") from None
    window = int(match[4]) * _UNITS[match[5]]
    return Budget(notion=Notion(match[1]), epsilon=epsilon, delta=delta, window=window)


def open_ledger(path: Path | None, budgets: list[str] | None, read: ReadOptions, seed: int | None) -> Ledger | None:
    """Open the ledger that a release or a fit is charged to, if one is named."""
    if path is None:
        if budgets:
            raise UsageError("--budget needs a --ledger to keep it in")
        return None
    if seed is not None:
        raise UsageError("--seed protects nobody, so there is nothing to charge; leave --seed or --ledger out")
    if read.person is None or read.per_row:
        raise UsageError("--ledger charges people: name their column with --person, one row each")
    if not budgets:
        raise UsageError("--ledger needs at least one --budget, such as metric:0.02/30d")
    return Ledger(path, [budget_from_text(text) for text in budgets])
