"""A plan as text: a table, a recommendation with its command line, a card, and whether it may be published."""

from __future__ import annotations

import textwrap

from nearveil.evaluation.defences import Defence
from nearveil.evaluation.families import promise
from nearveil.evaluation.planning.plan import Plan
from nearveil.evaluation.planning.search import Contender
from nearveil.evaluation.results import cut_to_share
from nearveil.evaluation.stats import Mean, Share
from nearveil.privacy.explain import meaning_of_loss
from nearveil.report.text_table import TEXT_WIDTH, text_table


def plan_text(plan: Plan) -> str:
    """Return a plan as text."""
    planning = plan.people.guarantee
    parts = [
        _wrapped(f"Goal: {plan.goal}."),
        *_advice(plan),
        text_table(*plan_table(plan), width=TEXT_WIDTH),
        _wrapped(_how_measured(plan)),
        *(_wrapped(f"Left out: {reason}.") for reason in plan.left_out),
        *(_wrapped(f"{note}.") for note in plan.notes),
        *_months(plan),
        str(plan.guarantee),
        *([str(planning)] if planning else []),
        _wrapped(plan.coverage),
    ]
    return "\n\n".join(parts)


def plan_table(plan: Plan) -> tuple[list[str], list[list[str]]]:
    """Return the headers and the rows of the table of a plan."""
    k = plan.goal.k
    headers = [
        "mechanism", "guarantee", "loss", f"recall@{k}", "attacker wrong by (m)", "found within 100 m (%)", "named (%)",
        "named, sparsest tenth (%)", "goal",
    ]  # fmt: skip
    rows = [
        [
            _named(one),
            promise(one.family),
            one.point.loss or one.point.defence.loss,
            _recall(one.point.recall),
            _number(one.point.error_m, 0),
            *(_percent(share) for share in (one.point.acc, one.point.named, one.point.named_sparsest)),
            plan.met_in_words(one),
        ]
        for one in plan.contenders
    ]
    return headers, rows


def _how_measured(plan: Plan) -> str:
    return (
        f"Measured on {plan.people.description}, in {plan.seconds:.0f} s: means of {plan.effort.runs} runs with seeds "
        "that the search did not use, ± half a 95 % interval over runs; the intervals of the shares are in --json. "
        "Named: the attacker's first guess is the right address, of all people and of the tenth who live sparsest. "
        f"Recall is for lists asked from people's locations. Tried: {_tried(plan)}. Loss: privacy loss of the people "
        "of the file, including the cost of fitting intervals or cells on them. The attacker knows the mechanism, its "
        "intervals or cells and every address, but not who lives there; it does not use what these reveal about the "
        "people they were fitted on."
    )


def _tried(plan: Plan) -> str:
    families = [search.family for search in plan.searches]
    names = [family.label for family in families if not family.members[0].is_dprs]
    releases = {family.members[0].release for family in families if family.members[0].is_dprs}
    return "; ".join([*names, *([f"DPRS, release {' and '.join(sorted(releases))}"] if releases else [])])


def _advice(plan: Plan) -> list[str]:
    best = plan.best
    if not plan.met:
        return [
            _wrapped(
                f"No mechanism tried meets the goal{_with_a_promise(plan)}; the closest is {_named(best)}, with "
                f"{_kept(plan, best)}, whose card follows."
            )
        ]
    chance = f" {_CHANCE}" if plan.goal.may_be_chance(best.point) else ""
    said = [_wrapped(f"Recommended: {_named(best)}, with {_kept(plan, best)}.{chance}"), f"    {plan.command(best)}"]
    if not best.family.between_all_places:
        only = "No mechanism whose guarantee holds between all locations meets the goal."
        return [*said, _wrapped(f"{_WITHIN} {only} {_meaning(best)}")]
    weaker = plan.weaker_alternative
    if weaker is not None:
        said += [
            _wrapped(
                f"More, with a weaker guarantee: {_named(weaker)}, with {_kept(plan, weaker)}. {_WITHIN} "
                f"{_meaning(weaker)}"
            ),
            f"    {plan.command(weaker)}",
        ]
    return said


_CHANCE = (
    "That it meets the goal may be chance: the goal is within the 95 % interval. To be surer, ask for more than you "
    "need."
)
_WITHIN = "Its guarantee holds within an interval only, and the interval of each person is disclosed."


def _kept(plan: Plan, contender: Contender) -> str:
    point = contender.point
    return (
        f"recall@{plan.goal.k} of {_recall(point.recall)} and an error of the best attacker of "
        f"{_number(point.error_m, 0)} m"
    )


def _meaning(contender: Contender) -> str:
    """What the loss within an interval means."""
    loss = contender.point.defence.loss_at_any_distance
    return "" if loss is None else meaning_of_loss(loss)


def _months(plan: Plan) -> list[str]:
    """What a service with this protection gives away; nothing where it was not measured."""
    if not plan.months:
        return []
    people = plan.months[0].people
    about = (
        f"What a service ('nearveil serve') with {_named(plan.best)}, gives away over months: of {people:,} of these "
        "people who stay at home and report every hour, with every twentieth fix 150 m off, to an attacker who knows "
        "every address and combines all that is published. Longer was not measured."
    )
    headers = ["months", "found within 100 m", "named", "attacker's error (m)", "points a month"]
    rows = [
        [
            str(figure.months),
            _share(figure.found),
            _share(figure.named, 3),
            _number(figure.error_m, 0),
            f"{figure.points.value:.1f}",
        ]
        for figure in plan.months
    ]
    return [_wrapped(about), text_table(headers, rows)]


def _with_a_promise(plan: Plan) -> str:
    return " with a guarantee that holds" if any(one.met for one in plan.contenders) else ""


def _parameter(defence: Defence) -> str:
    return f"{defence.parameter}, {defence.centres} centres" if defence.is_dprs else defence.parameter


def _named(contender: Contender) -> str:
    return f"{contender.family.label}, {_parameter(contender.point.defence)}"


def _number(mean: Mean, digits: int) -> str:
    half_width = "" if mean.half_width is None else f" ± {mean.half_width:,.{digits}f}"
    return f"{mean.value:,.{digits}f}{half_width}"


def _recall(mean: Mean) -> str:
    """A recall; an interval that would reach beyond 0 or 1 ends there."""
    shown = cut_to_share(mean)
    beyond = isinstance(shown, Share) and (shown.low, shown.high) != (mean.low, mean.high)
    return _share(shown, 3) if isinstance(shown, Share) and beyond else _number(mean, 3)


def _share(share: Share | None, digits: int = 2) -> str:
    return "–" if share is None else f"{share.value:.{digits}f} ({share.low:.{digits}f}–{share.high:.{digits}f})"


def _percent(share: Share | None) -> str:
    return "–" if share is None else f"{100 * share.value:.1f}"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, TEXT_WIDTH, break_on_hyphens=False, break_long_words=False)
