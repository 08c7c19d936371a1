"""Curves of the frontier: who keeps most at a level of privacy, by how much, and who wins.

There are four yardsticks of privacy, and nobody wins by all of them. A mechanism that seldom throws people far away has
a large mean error, although the attacker finds most of them; the share that it finds within 100 m (Acc) shows that. In
a dense street 100 m hold many people, and in the country one: the share of people whom the attacker names, and that
share where people are sparsest, show who is exposed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from nearveil.evaluation.defences import Defence
from nearveil.evaluation.families import AMONG_LABELS, Family
from nearveil.evaluation.results import Column, Value, cut_to_share
from nearveil.evaluation.stats import Estimate, Mean, mean_over_runs

Yardstick = Literal["error", "acc", "named", "sparsest"]
"""How privacy is measured: the best attacker's mean error, the share of people it finds within 100 m, the share whose
address is its first guess, or that share in the sparsest tenth."""

LEVEL_FIELDS: dict[Yardstick, str] = {"error": "error_m", "acc": "acc", "named": "named", "sparsest": "sparsest"}
_UNKNOWN = Mean(math.nan, None)


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One defence on one population: privacy as the best attacker feels it, utility as users feel it.

    ``runs`` has the level by each yardstick, and ``recall`` (at 10), run by run.
    """

    dataset: str
    family: Family
    defence: Defence
    error_m: Mean
    acc: Estimate
    utility: dict[str, Mean]
    runs: tuple[Mapping[str, float], ...] = ()
    named: Estimate = _UNKNOWN
    sparsest: Estimate = _UNKNOWN

    @property
    def recall(self) -> Mean:
        """Recall@10, by which curves are compared."""
        return self.utility["recall@10"]

    def level(self, yardstick: Yardstick) -> Estimate:
        """How much the attacker gets, by a yardstick."""
        found: Estimate = getattr(self, LEVEL_FIELDS[yardstick])
        return found


def standings(
    points: Sequence[FrontierPoint], dataset: str, level: float, yardstick: Yardstick = "error"
) -> list[tuple[float, Family]]:
    """Recall@10 of each family at a level of privacy, the best first; families that do not reach it are left out."""
    found = []
    for family in {one.family.label: one.family for one in points}.values():
        kept = recall_at(line_of_family(points, dataset, family.label), level, yardstick)
        if kept is not None:
            found.append((kept, family))
    return sorted(found, key=lambda pair: -pair[0])


def line_of_family(points: Sequence[FrontierPoint], dataset: str, label: str) -> list[FrontierPoint]:
    """The points of one family on one population."""
    return [one for one in points if one.dataset == dataset and one.family.label == label]


def recall_at(
    points: Sequence[FrontierPoint], level: float, yardstick: Yardstick = "error", *, at_best: bool = False
) -> float | None:
    """Recall@10 that a family keeps at a level of privacy: along lines between its points, as they are drawn.

    A point with more privacy serves as well. None where there is never as much. ``at_best`` takes the better end of
    every 95 % interval.
    """
    ends = [(_better_end(one.level(yardstick), yardstick, at_best), _up(one.recall, at_best)) for one in points]
    return _recall_along(ends, level, yardstick)


def spread_at(points: Sequence[FrontierPoint], level: float, yardstick: Yardstick = "error") -> list[float] | None:
    """`recall_at` of every run on its own; None where some run does not reach the level."""
    count = min((len(one.runs) for one in points), default=0)
    found = [
        _recall_along([(one.runs[run][yardstick], one.runs[run]["recall"]) for one in points], level, yardstick)
        for run in range(count)
    ]
    known = [kept for kept in found if kept is not None]
    return known if known and len(known) == count else None


def margin_over_others(
    point: FrontierPoint, points: Sequence[FrontierPoint], yardstick: Yardstick = "error"
) -> float | None:
    """How much more recall@10 than any other family keeps at the same level; None if no other was measured there."""
    others = _kept_by_others(point, points, point.level(yardstick).value, yardstick, at_best=False)
    return point.recall.value - max(others) if others else None


def beats_clearly(point: FrontierPoint, points: Sequence[FrontierPoint], yardstick: Yardstick = "error") -> bool:
    """Whether it still beats all others at the worse ends of its own 95 % intervals and the better ends of theirs.

    Families that were not measured at its level of privacy do not count, and somebody must have been.
    """
    own = point.level(yardstick)
    worse, least = own.low if yardstick == "error" else own.high, point.recall.low
    if worse is None or least is None:
        return False
    others = _kept_by_others(point, points, worse, yardstick, at_best=True)
    return bool(others) and least > max(others)


def _kept_by_others(
    point: FrontierPoint, points: Sequence[FrontierPoint], level: float, yardstick: Yardstick, *, at_best: bool
) -> list[float]:
    found = []
    for label in dict.fromkeys(one.family.label for one in points if one.family.label != point.family.label):
        line = line_of_family(points, point.dataset, label)
        levels = [_privacy(one.level(yardstick).value, yardstick) for one in line]
        if levels and min(levels) > _privacy(level, yardstick):
            # With less noise than was measured it keeps more than at its first point; nobody knows how much.
            continue
        kept = recall_at(line, level, yardstick, at_best=at_best)
        if kept is not None:
            found.append(kept)
    return found


def _recall_along(curve: Sequence[tuple[float, float]], level: float, yardstick: Yardstick) -> float | None:
    wanted = _privacy(level, yardstick)
    line = sorted((_privacy(value, yardstick), recall) for value, recall in curve)
    kept = [recall for privacy, recall in line if privacy >= wanted]
    for (here, low), (there, high) in pairwise(line):
        if here < wanted <= there:
            # The nearer end alone where the other is infinitely far.
            share = (wanted - here) / (there - here) if math.isfinite(here) else 1.0
            kept.append(low + share * (high - low))
    return max(kept) if kept else None


def _privacy(level: float, yardstick: Yardstick) -> float:
    """More is more private; on the scale that the pictures have."""
    if yardstick != "error":
        return -level
    return math.log(level) if level > 0 else -math.inf


def _better_end(level: Estimate, yardstick: Yardstick, at_best: bool) -> float:
    end = level.high if yardstick == "error" else level.low
    return level.value if end is None or not at_best else max(end, 0.0)


def _up(recall: Mean, at_best: bool) -> float:
    return recall.value if recall.high is None or not at_best else recall.high


# Who wins the frontier: a table by level of privacy, and remarks.


LEVELS: dict[Yardstick, tuple[float, ...]] = {
    "error": (50.0, 100.0, 200.0, 300.0, 500.0, 800.0, 1200.0),
    "acc": (0.7, 0.5, 0.3, 0.2, 0.1, 0.05),
    "named": (0.3, 0.2, 0.1, 0.05, 0.03, 0.02),
    "sparsest": (0.5, 0.3, 0.2, 0.1, 0.05),
}
YARDSTICK_NAMES: dict[Yardstick, str] = {
    "error": "mean error",
    "acc": "share found within 100 m",
    "named": "share named",
    "sparsest": "share named in the sparsest tenth",
}
_LEVELS_IN_REMARKS: tuple[tuple[Yardstick, float], ...] = (
    ("error", 100.0),
    ("error", 300.0),
    ("acc", 0.2),
    ("named", 0.05),
    ("sparsest", 0.1),
)


def in_words(yardstick: Yardstick, level: float) -> str:
    """Say what the best attacker gets at a level of privacy.

    Examples
    --------
    >>> in_words("error", 1200), in_words("sparsest", 0.1)
    ('is wrong by 1,200 m', 'names 10 % of the sparsest tenth')
    """
    if yardstick == "error":
        return f"is wrong by {level:,.0f} m"
    share = f"{100 * level:.0f} %"
    return {
        "acc": f"finds {share} within 100 m",
        "named": f"names {share}",
        "sparsest": f"names {share} of the sparsest tenth",
    }[yardstick]


def winner_columns(datasets: int) -> tuple[Column, ...]:
    """Return the columns of `winner_rows`, for so many populations."""
    return (
        Column("dataset", in_terminal=datasets > 1),
        Column("best attacker"),
        Column("most recall@10"),
        Column("recall@10", form=".2f"),
        Column("lead", form=".2f"),
        Column("clear"),
        Column("next best", in_terminal=False),
        Column("most between all places, if another"),
        Column("its recall@10", form=".2f", in_terminal=False),
    )


_SHORT_WORDS: dict[Yardstick, str] = {
    "error": "wrong by {:,.0f} m",
    "acc": "finds {:.0%}",
    "named": "names {:.0%}",
    "sparsest": "sparsest: names {:.0%}",
}


def winner_rows(
    points: Sequence[FrontierPoint], dataset: str, yardstick: Yardstick = "error"
) -> list[tuple[Value, ...]]:
    """Return the best, the next best and the best between all places at each level that anybody reaches."""
    rows: list[tuple[Value, ...]] = []
    for level in LEVELS[yardstick]:
        ranked = standings(points, dataset, level, yardstick)
        if not ranked:
            continue
        best, following = ranked[0], ranked[1] if len(ranked) > 1 else None
        lead = None if following is None else margin_at(points, dataset, best, following, level, yardstick)
        strong = next((one for one in ranked if one[1].sound and one[1].between_all_places), None)
        if strong == best:
            strong = None
        rows.append(
            (
                dataset,
                _SHORT_WORDS[yardstick].format(level).replace("%", " %"),
                best[1].label,
                _with_interval(points, dataset, best, level, yardstick),
                None if lead is None else _cut_lead(lead),
                None if lead is None else "yes" if is_clear(lead) else "no",
                None if following is None else following[1].label,
                None if strong is None else strong[1].label,
                None if strong is None else _with_interval(points, dataset, strong, level, yardstick),
            )
        )
    return rows


def winning_labels(points: Sequence[FrontierPoint], dataset: str) -> set[str]:
    """Return the families that are the best somewhere, or the best of those that hold between all places."""
    rows = [row for yardstick in LEVELS for row in winner_rows(points, dataset, yardstick)]
    return {str(row[column]) for row in rows for column in (2, 7) if row[column] is not None}


def margin_at(
    points: Sequence[FrontierPoint],
    dataset: str,
    best: tuple[float, Family],
    following: tuple[float, Family],
    level: float,
    yardstick: Yardstick,
) -> Mean:
    """How much more the best keeps; its interval is that of pairs, run by run, where every run reaches the level."""
    value = best[0] - following[0]
    first, second = (
        spread_at(line_of_family(points, dataset, family.label), level, yardstick) for _, family in (best, following)
    )
    if first is None or second is None:
        return Mean(value, None)
    return Mean(value, mean_over_runs([a - b for a, b in zip(first, second, strict=True)]).half_width)


def is_clear(lead: Mean) -> bool:
    """Whether a lead is more than chance: its whole interval is above nought. Without an interval nobody knows."""
    return lead.half_width is not None and lead.half_width < lead.value


def _cut_lead(lead: Mean) -> Mean:
    """Shares differ by 1 at most."""
    return lead if lead.half_width is None else Mean(lead.value, min(lead.half_width, 1.0))


def _with_interval(
    points: Sequence[FrontierPoint], dataset: str, one: tuple[float, Family], level: float, yardstick: Yardstick
) -> Estimate:
    spread = spread_at(line_of_family(points, dataset, one[1].label), level, yardstick)
    return cut_to_share(Mean(one[0], None if spread is None else mean_over_runs(spread).half_width))


def frontier_remarks(points: Sequence[FrontierPoint]) -> tuple[str, ...]:
    """Say who is best at what, where the reader's own mechanisms stand, and what the discs of the release metric do."""
    clear = [one for one in points if all(beats_clearly(one, points, yardstick) for yardstick in LEVELS)]
    datasets = dict.fromkeys(one.dataset for one in points)
    has_srr = any(one.family.label == "SRR" for one in points)
    return (
        *(sentence for dataset in datasets for sentence in best_at_what(points, dataset)),
        *(remark for dataset in datasets for remark in _own_standings(points, dataset)),
        f"{len(clear)} of {len(points)} points clearly beat, by all yardsticks, all other families that were measured "
        f"at the same level of privacy: {_counted(clear)}.",
        *_remapping(points),
        *_exposed(points),
        *([_ABOUT_SRR] if has_srr else []),
        "A defence confined to small discs keeps recall and gives the disc away. All points, and the promise of each, "
        "are in frontier.csv.",
    )


_ABOUT_SRR = (
    "SRR publishes most people in their own cell of the grid and throws some anywhere, which makes the mean error "
    "large although the attacker finds many."
)


def best_at_what(points: Sequence[FrontierPoint], dataset: str, *, with_figures: bool = True) -> list[str]:
    """Say which family keeps most recall@10 at which levels, a sentence each, and where a lead may be chance."""
    clear: dict[str, list[str]] = {}
    unclear: list[str] = []
    for yardstick, level in _LEVELS_IN_REMARKS:
        ranked = standings(points, dataset, level, yardstick)
        if not ranked:
            continue
        wins, figures = _lead(points, dataset, ranked, level, yardstick)
        said = in_words(yardstick, level) + (figures if with_figures else "")
        if wins:
            clear.setdefault(ranked[0][1].label, []).append(said)
        else:
            unclear.append(said)
    if not clear and not unclear:
        return [f"On {dataset} nothing reaches the levels of privacy that are compared."]
    where = "where the best attacker"
    said_of = [
        f"On {dataset}, {label} keeps most of the lists {where} {', or '.join(all_of)}."
        for label, all_of in clear.items()
    ]
    return said_of + ([f"On {dataset} there is no clear winner {where} {', or '.join(unclear)}."] if unclear else [])


def _lead(
    points: Sequence[FrontierPoint], dataset: str, ranked: Sequence[tuple[float, Family]], level: float,
    yardstick: Yardstick,
) -> tuple[bool, str]:  # fmt: skip
    """Whether the first wins, and with which figures."""
    kept = f"recall@10 {ranked[0][0]:.2f}"
    if len(ranked) == 1:
        return True, f" ({kept}; no other reaches that)"
    lead = margin_at(points, dataset, ranked[0], ranked[1], level, yardstick)
    if not is_clear(lead):
        one, other = (f"{recall:.2f} of {family.label}" for recall, family in ranked[:2])
        return False, f" (recall@10 {one} and {other}, which may be chance)"
    return True, f" ({kept}, {lead.value:.2f} ± {lead.half_width:.2f} more than {ranked[1][1].label})"


def _own_standings(points: Sequence[FrontierPoint], dataset: str) -> list[str]:
    """Where somebody else's classes stand among all."""
    said = []
    for label in dict.fromkeys(one.family.label for one in points if not one.family.is_own):
        places, beyond = [], []
        for yardstick, level in _LEVELS_IN_REMARKS:
            ranked = standings(points, dataset, level, yardstick)
            own = next((one for one in ranked if one[1].label == label), None)
            if own is None:
                beyond.append(in_words(yardstick, level))
                continue
            places.append(_place(points, dataset, ranked, own, level, yardstick))
        reached = "; ".join(places) or "it reaches none of the levels compared"
        missed = f"; it does not reach that the attacker {', or '.join(beyond)}" if places and beyond else ""
        said.append(f"Your own {label} on {dataset}, by recall@10: {reached}{missed}.")
    return said


def _place(
    points: Sequence[FrontierPoint], dataset: str, ranked: Sequence[tuple[float, Family]], own: tuple[float, Family],
    level: float, yardstick: Yardstick,
) -> str:  # fmt: skip
    """Say which places it may have, counting only differences that are more than chance."""
    at = ranked.index(own)
    above = [is_clear(margin_at(points, dataset, one, own, level, yardstick)) for one in ranked[:at]]
    below = [is_clear(margin_at(points, dataset, own, one, level, yardstick)) for one in ranked[at + 1 :]]
    first, last = 1 + sum(above), len(ranked) - sum(below)
    where = f"where the attacker {in_words(yardstick, level)}"
    if len(ranked) == 1:
        return f"alone {where} ({own[0]:.2f})"
    if (first, last) == (1, len(ranked)):
        return f"no clear place among {len(ranked)} {where} ({own[0]:.2f}; differences may be chance)"
    behind = f", {ranked[0][0] - own[0]:.2f} less than {ranked[0][1].label}" if above and above[0] else ""
    place = _ordinal(first) if first == last else f"{_ordinal(first)} to {_ordinal(last)}"
    return f"{place} of {len(ranked)} {where} ({own[0]:.2f}{behind})"


def _ordinal(number: int) -> str:
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _counted(points: Sequence[FrontierPoint]) -> str:
    counts = Counter(f"{one.family.label} on {one.dataset}" for one in points)
    return ", ".join(f"{name} ({count})" for name, count in counts.items()) or "none"


def _exposed(points: Sequence[FrontierPoint]) -> list[str]:
    """How much more often those in the sparsest tenth are named than people on average."""
    found = []
    for label in ("planar Laplace", *AMONG_LABELS.values()):
        own = [one for one in points if one.family.label == label and one.named.value > 0]
        if own:
            ratios = sorted(one.sparsest.value / one.named.value for one in own)
            found.append(f"{label} {ratios[len(ratios) // 2]:.1f}")
    if not found:
        return []
    return [
        "How many times as often somebody of the sparsest tenth is named as people on average, median over points: "
        f"{', '.join(found)}. Noise in metres exposes the sparsest; hiding among people is worse in metres where "
        "people are dense, by design."
    ]


def _remapping(points: Sequence[FrontierPoint]) -> list[str]:
    """What moving noisy places into the discs does, at equal noise."""
    planar = {(one.dataset, one.defence.noise_m): one for one in points if one.family.label == "planar Laplace"}
    gains = [
        one.utility["recall@10"].value - planar[one.dataset, one.defence.noise_m].utility["recall@10"].value
        for one in points
        if one.family.label == "metric, private grid" and (one.dataset, one.defence.noise_m) in planar
    ]
    if not gains:
        return []
    return [
        f"Moving noisy places into private discs (metric, private grid) changes recall@10 against the same noise "
        f"without discs (planar Laplace) by {min(gains):+.3f} to {max(gains):+.3f}."
    ]
