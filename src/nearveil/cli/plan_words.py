"""What ``nearveil plan`` says: a table, a recommendation with its command line, a card, and whose eyes it is for."""

from __future__ import annotations

import textwrap
from functools import cached_property
from typing import Any

from nearveil.cli.plan_command import FileOptions, protect_command
from nearveil.cli.plan_people import PlanningPeople
from nearveil.evaluation.attack_experiment import Mean, Share
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.experiments.frontier import Family, promise
from nearveil.evaluation.planning.measuring import Point
from nearveil.evaluation.planning.plan import Contender, Plan
from nearveil.mechanisms.dprs import DPRS
from nearveil.privacy.guarantee import Guarantee
from nearveil.report.tables import text_table

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
