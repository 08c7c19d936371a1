"""A plan as text: a table, a recommendation with its command line, a card, and whether it may be published."""

from __future__ import annotations

import textwrap

from nearveil.evaluation.attack_experiment import Mean, Share
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.families import promise
from nearveil.evaluation.planning.plan import Plan
from nearveil.evaluation.planning.search import Contender
from nearveil.report.tables import text_table

_WIDTH = 100


def plan_text(plan: Plan) -> str:
    """Return a plan as text."""
    planning = plan.people.guarantee
    parts = [
        _wrapped(f"Goal: {plan.goal}."),
        text_table(*plan_table(plan)),
        _wrapped(_how_measured(plan)),
        *(_wrapped(f"Left out: {reason}.") for reason in plan.left_out),
        *(_wrapped(f"{note}.") for note in plan.notes),
        *_advice(plan),
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
        "mechanism", "parameter", "guarantee", "loss", f"recall@{k}", f"ratio@{k}", "attacker's error (m)",
        "Acc at 100 m", "named", "named, sparsest", "goal",
    ]  # fmt: skip
    rows = [
        [
            one.family.label,
            _parameter(one.point.defence),
            promise(one.family),
            one.point.loss or one.point.defence.loss,
            _number(one.point.recall, 3),
            _number(one.point.ratio, 3),
            _number(one.point.error_m, 0),
            _share(one.point.acc),
            _share(one.point.named, 3),
            _share(one.point.named_sparsest, 3),
            "met" if one.met else "not met",
        ]
        for one in plan.contenders
    ]
    return headers, rows


def _how_measured(plan: Plan) -> str:
    return (
        f"Measured on {plan.people.description}, in {plan.seconds:.0f} s: means of {plan.effort.runs} runs with seeds "
        "that the search did not use, ± half a 95 % interval over runs; shares have binomial intervals. Named: the "
        "attacker's first guess is the right address, of all people and of the tenth who live sparsest. Recall and "
        f"ratio are for lists asked from people's locations. Tried: {_tried(plan)}. Loss: privacy loss of the people "
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
                f"recall@{plan.goal.k} of {_number(best.point.recall, 3)} and an error of the best attacker of "
                f"{_number(best.point.error_m, 0)} m, whose card follows."
            )
        ]
    said = [_wrapped(f"Recommended: {_named(best)}."), f"    {plan.command(best)}"]
    strong = plan.best_between_all_places
    if not best.family.between_all_places:
        warning = "Its guarantee holds within an interval only, and the interval of each person is disclosed."
        if strong is None:
            return [
                *said,
                _wrapped(f"{warning} No mechanism whose guarantee holds between all locations meets the goal."),
            ]
        said += [
            _wrapped(
                f"{warning} The best whose guarantee holds between all locations is {_named(strong)}, with "
                f"recall@{plan.goal.k} of {_number(strong.point.recall, 3)} and an error of "
                f"{_number(strong.point.error_m, 0)} m:"
            ),
            f"    {plan.command(strong)}",
        ]
    return said


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


def _share(share: Share | None, digits: int = 2) -> str:
    return "–" if share is None else f"{share.value:.{digits}f} ({share.low:.{digits}f}–{share.high:.{digits}f})"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_on_hyphens=False, break_long_words=False)
