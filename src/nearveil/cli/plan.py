"""Whom ``nearveil plan`` measures on: the people of a file, or made-up ones drawn from a noisy histogram of them."""

from __future__ import annotations

import os
import shlex
import textwrap
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer

from nearveil.cli._options import (
    ClipOption,
    ForceOption,
    JsonOption,
    LatitudeOption,
    LongitudeOption,
    OwnRegionOption,
    SeedOption,
    chosen_region,
    places_in_region,
)
from nearveil.cli._output import progress_bar, say, say_json, warn
from nearveil.errors import UsageError
from nearveil.evaluation.attack_experiment import Mean, Share
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.experiments.frontier import Family, promise
from nearveil.evaluation.planning.goal import PlanWish
from nearveil.evaluation.planning.measuring import Point
from nearveil.evaluation.planning.plan import (
    FULL,
    QUICK,
    Contender,
    Plan,
    families_for,
    make_plan,
    plan_chart,
    steps_of_plan,
)
from nearveil.io.atomic import check_output, replacing
from nearveil.io.columns import person_columns
from nearveil.io.datasets import Dataset
from nearveil.io.files import FORMATS, read_people
from nearveil.io.people import People, ReadOptions
from nearveil.mechanisms.base import SEEDED_NOTE
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.fit_grid import synthetic_delta, synthetic_people
from nearveil.privacy.guarantee import Basis, Guarantee, Notion, check_epsilon
from nearveil.region import DEFAULT_REGION, Region, metres
from nearveil.report.charts import draw_chart
from nearveil.report.tables import text_table


@dataclass(frozen=True, slots=True, eq=False)
class PlanningPeople:
    """Whom a plan is measured on.

    Attributes
    ----------
    words : str
        Who they are.
    guarantee : Guarantee, optional
        What holds for the people of the file as far as the plan goes; None where it was made on their true places.
    warnings : tuple of str
        To be printed.
    """

    dataset: Dataset
    words: str
    guarantee: Guarantee | None
    warnings: tuple[str, ...] = ()


def true_people(path: Path, region: Region, read: ReadOptions) -> PlanningPeople:
    """Return the people of a file as they are, one at each place."""
    people = read_people(path, read, carry=False)
    places = np.unique(places_in_region(people, region, clip=read.clip), axis=0)
    return PlanningPeople(
        Dataset(path.name, region, places),
        f"the {len(places):,} different places of {path.name}",
        None,
        _warnings(people, len(places)),
    )


def private_people(
    path: Path,
    region: Region,
    epsilon: float,
    seed: int | None,
    read: ReadOptions,
) -> PlanningPeople:
    """Return made-up people from one noisy histogram; nothing else of the file is kept, said or looked at again.

    Not even warnings: how many rows repeat is a fact about true people.
    """
    check_epsilon(epsilon, "--private-epsilon")
    people = read_people(path, read, carry=False)
    # One row more or less is at most one place more or less, so this costs no more than counting rows would.
    places = np.unique(places_in_region(people, region, clip=read.clip), axis=0)
    made_up = synthetic_people(places, region=region, epsilon=epsilon, rng=seed)
    return PlanningPeople(
        Dataset("made-up people", region, made_up),
        f"{len(made_up):,} made-up people, drawn from one noisy histogram of {path.name}",
        _planning_guarantee(epsilon, seed),
        (f"a seed was given. {SEEDED_NOTE}",) if seed is not None else (),
    )


def _planning_guarantee(epsilon: float, seed: int | None) -> Guarantee:
    return Guarantee(
        title="This plan: all that is printed, drawn and recommended",
        notion=Notion.CENTRAL,
        epsilon=epsilon,
        unit="per row",
        delta=synthetic_delta(epsilon),
        neighbours="the file with and without one row, both such as are not refused",
        promise="how much the plan can depend on any one row is bounded by epsilon, spent once",
        not_covered=(
            "a row with another place counts twice, and each of a person's rows counts; this comes on top of what the "
            "protection costs, and no ledger was charged"
        ),
        basis=Basis.THEOREM,
        because=(
            "Laplace noise on a head count and on every cell of a public grid; all else was measured on people drawn "
            "from those noisy numbers; delta is what no number drawn can reach"
        ),
        notes=(SEEDED_NOTE,) if seed is not None else (),
        per_row=True,
    )


def _warnings(people: People, places: int) -> tuple[str, ...]:
    repeated = len(people) - places
    found = []
    if repeated:
        found.append(
            f"{repeated:,} rows have the place of another row and were left out: a plan has one person at each place"
        )
    for name in person_columns(people.carried.column_names):
        ids = people.carried.column(name)
        if not pa.types.is_nested(ids.type) and len(pc.unique(ids)) < len(ids):
            found.append(
                f"column {name!r} looks like a person's id and repeats: the plan takes every place for a person of its "
                "own, but several rows of a person protect that person less than it says"
            )
            break
    return tuple(found)


# The command line that does what a plan recommends.


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """What was said about the file, to be said again."""

    source: Path
    read: ReadOptions
    region: str | None = None

    def words(self) -> list[str]:
        """The input, an output beside nobody's file, and the options."""
        columns = [("--latitude", self.read.latitude), ("--longitude", self.read.longitude)]
        return [
            *(str(self.source), self._output()),
            *("--region", DEFAULT_REGION if self.region is None else self.region),
            *(word for name, value in columns if value is not None for word in (name, value)),
            *(["--clip"] if self.read.clip else []),
        ]

    def _output(self) -> str:
        name = self.source.name
        extension = next((each for each in sorted(FORMATS, key=len, reverse=True) if name.lower().endswith(each)), "")
        output = f"protected{extension}"
        return output if output != name else f"published{extension}"


def protect_command(defence: Defence, options: FileOptions) -> str:
    """Return the ``nearveil protect`` that runs a defence, without a seed."""
    return shlex.join(["nearveil", "protect", *options.words(), *_defence_words(defence)])


def _defence_words(defence: Defence) -> list[str]:
    if defence.kind == "planar-laplace":
        return ["--mechanism", "planar-laplace", "--hide-within", f"{defence.hide_within_m:.12g}m"]
    if defence.kind != "dprs" or defence.release == "paper" or defence.centres_from == "public":
        raise TypeError("a plan recommends only planar Laplace and the sound releases of DPRS")
    strength = (
        ["--hide-within", f"{defence.hide_within_m:.12g}m"]
        if defence.release == "metric"
        else ["--epsilon", f"{defence.epsilon:g}", *(["--noise", "gaussian"] if defence.noise == "gaussian" else [])]
    )
    return [
        *("--release", defence.release, *strength),
        *("--fit-method", defence.centres_from, "--fit-epsilon", f"{defence.fit_epsilon:g}"),
        *("--centres", f"{defence.centres}"),
    ]


# What ``nearveil plan`` says: a table, a recommendation with its command line, a card, and whose eyes it is for.


NOT_COVERED = (
    "This plan was made on true places: what is printed and drawn here, the choice itself among it, is not covered by "
    "any guarantee. Keep it to yourself and do not publish it. With --private-epsilon 1 a plan is made on a noisy "
    "histogram instead, and its cost is stated."
)
COVERED = (
    "This plan was made on made-up people drawn from one noisy histogram, and looked at nothing else. Whatever is done "
    "with it costs the people of the file no more than its own card says, on top of what protecting them costs. "
    "Made-up people are less clumped than real ones, so on the true ones recall is likely lower than it says here."
)
SEEDED = "A seed was given, so this plan protects nobody: whoever knows the seed can undo the noise."
_ONE_FIT = (
    "The intervals of this card are those of one fit for this plan. 'nearveil protect' fits its own on the people of "
    "the file, for whom the statement that begins with 'Together' is the one that holds."
)
_WIDTH = 100


class PlanReport:
    """A plan in words and as JSON."""

    def __init__(self, plan: Plan, people: PlanningPeople, options: FileOptions, *, seeded: bool) -> None:
        self._plan = plan
        self._people = people
        self._options = options
        self._seeded = seeded

    def text(self, seconds: float) -> str:
        """For people."""
        plan = self._plan
        parts = [
            _wrapped(f"Wish: {plan.wish}."),
            text_table(*self._table()),
            _wrapped(self._how_measured(seconds)),
            *(_wrapped(f"Left out: {reason}.") for reason in plan.left_out),
            *self._advice(),
            str(self._guarantee),
            *([str(self._people.guarantee)] if self._people.guarantee else []),
            _wrapped(self._whose_eyes),
        ]
        return "\n\n".join(parts)

    def document(self, seconds: float) -> dict[str, Any]:
        """For machines."""
        plan = self._plan
        strong = plan.best_between_all_places
        return {
            "wish": {"kind": plan.wish.kind, "value": plan.wish.value, "k": plan.wish.k, "words": str(plan.wish)},
            "met": plan.met,
            "recommended": self._facts(plan.best) if plan.met else None,
            "nearest": None if plan.met else self._facts(plan.best),
            "between_all_places": None if strong is None else self._facts(strong),
            "alternatives": [self._facts(contender) for contender in plan.contenders],
            "guarantee": self._guarantee.to_dict(),
            "planning_guarantee": self._people.guarantee.to_dict() if self._people.guarantee else None,
            "covered_by_a_guarantee": self._people.guarantee is not None and not self._seeded,
            "words": self._whose_eyes,
            "measured_on": self._people.words,
            "people": plan.people,
            "sweep": [
                {"mechanism": search.family.label, **_figures(point)}
                for search in plan.searches
                for point in search.points
            ],
            "left_out": list(plan.left_out),
            "seed": plan.seed,
            "seeded": self._seeded,
            "seconds": round(seconds, 3),
        }

    @cached_property
    def _guarantee(self) -> Guarantee:
        """The card of the recommended mechanism, run without a seed."""
        dataset = self._people.dataset
        built = self._plan.best.point.defence.build(dataset.region, seed=0).with_params(seed=None)
        guarantee = built.fit(dataset.places).guarantee
        return guarantee.with_note(_ONE_FIT) if isinstance(built, DPRS) else guarantee

    @property
    def _whose_eyes(self) -> str:
        if self._people.guarantee is None:
            return NOT_COVERED
        return SEEDED if self._seeded else COVERED

    def _table(self) -> tuple[list[str], list[list[str]]]:
        k = self._plan.wish.k
        headers = [
            "mechanism", "parameter", "guarantee", "loss", f"recall@{k}", f"ratio@{k}", "attacker's error (m)",
            "Acc at 100 m", "wish",
        ]  # fmt: skip
        rows = [
            [
                one.family.label,
                parameter(one.point.defence),
                promise(one.family),
                one.point.defence.loss,
                _number(one.point.recall, 3),
                _number(one.point.ratio, 3),
                _number(one.point.error_m, 0),
                _share(one.point.acc),
                "met" if one.met else "not met",
            ]
            for one in self._plan.contenders
        ]
        return headers, rows

    def _how_measured(self, seconds: float) -> str:
        return (
            f"Measured on {self._people.words}, in {seconds:.0f} s: means of {self._plan.effort.runs} runs with seeds "
            "that the search had not seen, ± half a 95 % interval over runs; Acc has a binomial one. Recall and ratio: "
            f"asked from where people are. Tried: {self._tried}. Loss: what holds for the people of the file, for whom "
            "fitting intervals on them counts too. The attacker knows the mechanism, its intervals and every address, "
            "but not who lives there; it does not use what intervals give away of those they were fitted on."
        )

    @property
    def _tried(self) -> str:
        releases = {search.family.members[0].release for search in self._plan.searches if _is_fitted(search.family)}
        return "planar Laplace" + (f"; DPRS, release {' and '.join(sorted(releases))}" if releases else "")

    def _advice(self) -> list[str]:
        plan, best = self._plan, self._plan.best
        if not plan.met:
            return [
                _wrapped(
                    f"Nothing that was tried meets the wish; the nearest is {_named(best)}, with "
                    f"recall@{plan.wish.k} of {_number(best.point.recall, 3)} and an error of the best attacker of "
                    f"{_number(best.point.error_m, 0)} m, whose card follows."
                )
            ]
        told = [_wrapped(f"Recommended: {_named(best)}."), f"    {protect_command(best.point.defence, self._options)}"]
        strong = plan.best_between_all_places
        if not best.family.between_all_places:
            warning = "Its guarantee holds within an interval only, and which interval somebody is in is disclosed."
            if strong is None:
                return [*told, _wrapped(f"{warning} Nothing whose guarantee holds between all places meets the wish.")]
            told += [
                _wrapped(
                    f"{warning} Of those whose guarantee holds between all places, the best is {_named(strong)}, with "
                    f"recall@{plan.wish.k} of {_number(strong.point.recall, 3)} and an error of "
                    f"{_number(strong.point.error_m, 0)} m:"
                ),
                f"    {protect_command(strong.point.defence, self._options)}",
            ]
        return told

    def _facts(self, contender: Contender) -> dict[str, Any]:
        return {
            "mechanism": contender.family.label,
            "met": contender.met,
            "between_all_places": contender.family.between_all_places,
            "command": protect_command(contender.point.defence, self._options),
            **_figures(contender.point),
        }


def parameter(defence: Defence) -> str:
    """The parameters that were chosen, in a few words."""
    return defence.parameter if defence.kind != "dprs" else f"{defence.parameter}, {defence.centres} centres"


def _named(contender: Contender) -> str:
    return f"{contender.family.label}, {parameter(contender.point.defence)}"


def _figures(point: Point) -> dict[str, Any]:
    defence = point.defence
    return {
        "hide_within_m": defence.hide_within_m,
        "epsilon": defence.epsilon,
        "fit_epsilon": defence.fit_epsilon,
        "fit_loss": defence.fit_loss,
        "centres": defence.centres if defence.kind == "dprs" else None,
        **{name: _mean(getattr(point, name)) for name in ("recall", "ratio", "error_m")},
        "acc": {"value": point.acc.value, "low": point.acc.low, "high": point.acc.high},
        "seeds": list(point.seeds),
    }


def _is_fitted(family: Family) -> bool:
    return family.members[0].kind == "dprs"


def _mean(mean: Mean) -> dict[str, float | None]:
    return {"value": mean.value, "half_width": mean.half_width}


def _number(mean: Mean, digits: int) -> str:
    half_width = "" if mean.half_width is None else f" ± {mean.half_width:,.{digits}f}"
    return f"{mean.value:,.{digits}f}{half_width}"


def _share(share: Share) -> str:
    return f"{share.value:.2f} ({share.low:.2f}–{share.high:.2f})"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_on_hyphens=False, break_long_words=False)


# ``nearveil plan``: which mechanism, with which parameters, for these people and this wish.


_SEED = 1


def plan(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="CSV, GeoJSON or Parquet file of true places.")],
    *,
    attacker_error: Annotated[
        str | None,
        typer.Option(
            help="The best attacker is wrong by at least this on average; then the most recall.",
            metavar="LENGTH",
            rich_help_panel="Wish, one of",
        ),
    ] = None,
    recall: Annotated[
        float | None,
        typer.Option(
            help="Recall@k of at least this; then the largest error of the attacker.",
            metavar="SHARE",
            rich_help_panel="Wish, one of",
        ),
    ] = None,
    hide_within: Annotated[
        str | None,
        typer.Option(
            help="The metric promise at this length for the people of the file; then the most recall.",
            metavar="LENGTH",
            rich_help_panel="Wish, one of",
        ),
    ] = None,
    k: Annotated[int, typer.Option("--k", help="People in a list, 1 to 100.", metavar="K")] = 10,
    between_all_places: Annotated[
        bool,
        typer.Option("--between-all-places", help="Only mechanisms whose guarantee holds between any two places."),
    ] = False,
    private_epsilon: Annotated[
        float | None,
        typer.Option(
            help="Plan on made-up people from one noisy histogram, which costs everybody this once.",
            metavar="E",
        ),
    ] = None,
    region: OwnRegionOption = None,
    latitude: LatitudeOption = None,
    longitude: LongitudeOption = None,
    clip: ClipOption = False,
    quick: Annotated[bool, typer.Option("--quick", help="Measure less: faster, with wider intervals.")] = False,
    cores: Annotated[int | None, typer.Option(help="Processes to use.", show_default="all cores", min=1)] = None,
    seed: SeedOption = None,
    picture: Annotated[Path | None, typer.Option(help="Draw what was measured as PNG.", metavar="FILE.png")] = None,
    json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Recommend a mechanism and its parameters for the people of INPUT and one wish.

    Planar Laplace and the sound releases of DPRS are measured on these people: what users keep, and how wrong the best
    attacker is who knows the mechanism and every address, but not who lives there. What is printed is computed from
    true places and is not covered by any guarantee, unless --private-epsilon is given; a file that is refused is
    refused in words about its rows even then.
    """
    started = time.perf_counter()
    wish = _wish(attacker_error, recall, hide_within, k)
    _check_picture(picture, force=force)
    area = chosen_region(region, None, None)
    if seed is not None and seed < 0:
        raise UsageError("--seed is a whole number, 0 or more")
    read = ReadOptions(latitude=latitude, longitude=longitude, clip=clip)
    if private_epsilon is None:
        people = true_people(source, area, read)
    else:
        people = private_people(source, area, private_epsilon, seed, read)
        # How long the file takes to read is a fact about it, and not covered by what was spent.
        started = time.perf_counter()
    for warning in people.warnings:
        warn(warning)
    made = _plan(people, wish, between_all_places, quick=quick, cores=cores, seed=seed)
    options = FileOptions(source=source, region=region, read=read)
    report = PlanReport(made, people, options, seeded=private_epsilon is not None and seed is not None)
    if json:
        say_json(report.document(time.perf_counter() - started))
    else:
        say(report.text(time.perf_counter() - started))
    # Last, so that a picture that cannot be written does not lose the figures.
    if picture is not None:
        with replacing(picture, force=force) as partial:
            draw_chart(plan_chart(made, people.words), partial)


def _wish(attacker_error: str | None, recall: float | None, hide_within: str | None, k: int) -> PlanWish:
    given = [value for value in (attacker_error, recall, hide_within) if value is not None]
    if len(given) != 1:
        raise UsageError("give one wish: --attacker-error 300m, --recall 0.5 or --hide-within 500m")
    if attacker_error is not None:
        return PlanWish("attacker-error", metres(attacker_error, "--attacker-error"), k)
    if recall is not None:
        return PlanWish("recall", recall, k)
    return PlanWish("hide-within", metres(hide_within or "", "--hide-within"), k)


def _check_picture(picture: Path | None, *, force: bool) -> None:
    if picture is not None:
        if picture.suffix.lower() != ".png":
            raise UsageError("--picture draws a PNG picture; name a file that ends in .png")
        check_output(picture, force=force)


def _plan(
    people: PlanningPeople,
    wish: PlanWish,
    between_all_places: bool,
    *,
    quick: bool,
    cores: int | None,
    seed: int | None,
) -> Plan:
    families = families_for(wish, between_all_places=between_all_places)
    effort = QUICK if quick else FULL
    with progress_bar("planning", steps_of_plan(families, effort)) as advance:
        return make_plan(
            people.dataset,
            wish,
            families=families,
            effort=effort,
            seed=_SEED if seed is None else seed,
            cores=cores or os.cpu_count() or 1,
            progress=advance,
        )
