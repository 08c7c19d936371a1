"""Who wins the frontier: a table by level of privacy, and remarks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from nearveil.evaluation.attack_score import Mean, mean_over_runs
from nearveil.evaluation.outcome import Column, Value
from nearveil.evaluation.parts.families import Family
from nearveil.evaluation.parts.frontier_curves import (
    FrontierPoint,
    Yardstick,
    beats_clearly,
    line_of_family,
    spread_at,
    standings,
)

LEVELS: dict[Yardstick, tuple[float, ...]] = {
    "error": (50.0, 100.0, 200.0, 300.0, 500.0, 800.0, 1200.0),
    "acc": (0.7, 0.5, 0.3, 0.2, 0.1, 0.05),
}
_LEVEL_COLUMNS: dict[Yardstick, Column] = {
    "error": Column("attacker's error (m)", form=",.0f"),
    "acc": Column("attacker finds at most", form=".0%"),
}
_TOLD: tuple[tuple[Yardstick, float, str], ...] = (
    ("error", 100.0, "is wrong by 100 m"),
    ("error", 300.0, "is wrong by 300 m"),
    ("acc", 0.2, "finds 20 % within 100 m"),
)


def winner_columns(yardstick: Yardstick) -> tuple[Column, ...]:
    """Return the columns of the table by one yardstick."""
    return (
        Column("dataset"),
        _LEVEL_COLUMNS[yardstick],
        Column("best"),
        Column("recall@10"),
        Column("next best"),
        Column("its recall@10"),
        Column("margin"),
        Column("best that holds between all places"),
        Column("recall@10, between all places"),
    )


def winner_rows(
    points: Sequence[FrontierPoint], dataset: str, yardstick: Yardstick = "error"
) -> list[tuple[Value, ...]]:
    """Return the best and the next best at each level that anybody reaches."""
    rows: list[tuple[Value, ...]] = []
    for level in LEVELS[yardstick]:
        ranked = standings(points, dataset, level, yardstick)
        if not ranked:
            continue
        strong = next((one for one in ranked if one[1].sound and one[1].between_all_places), None)
        runner_up = ranked[1] if len(ranked) > 1 else None

        def named(one: tuple[float, Family] | None, level: float = level) -> tuple[str | None, Mean | None]:
            return (
                (None, None) if one is None else (one[1].label, _with_interval(points, dataset, one, level, yardstick))
            )

        margin = None if runner_up is None else margin_at(points, dataset, ranked[0], runner_up, level, yardstick)
        rows.append((dataset, level, *named(ranked[0]), *named(runner_up), margin, *named(strong)))
    return rows


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


def _with_interval(
    points: Sequence[FrontierPoint], dataset: str, one: tuple[float, Family], level: float, yardstick: Yardstick
) -> Mean:
    spread = spread_at(line_of_family(points, dataset, one[1].label), level, yardstick)
    return Mean(one[0], None if spread is None else mean_over_runs(spread).half_width)


def frontier_remarks(points: Sequence[FrontierPoint]) -> tuple[str, ...]:
    """Say who wins where, and what the discs of the release metric do."""
    clear = [one for one in points if beats_clearly(one, points, "error") and beats_clearly(one, points, "acc")]
    return (
        *(_standing(points, dataset) for dataset in dict.fromkeys(one.dataset for one in points)),
        f"{len(clear)} of {len(points)} points beat all other families clearly by both yardsticks: {_counted(clear)}.",
        *_remapping(points),
        "Read both yardsticks: SRR publishes most people in their own cell of the grid and throws some anywhere, which "
        "makes the mean error large although the attacker finds many. A defence confined to small discs keeps recall "
        "and gives the disc away. Which promise goes with a point is in the table.",
    )


def _standing(points: Sequence[FrontierPoint], dataset: str) -> str:
    told = []
    for yardstick, level, words in _TOLD:
        ranked = standings(points, dataset, level, yardstick)
        if len(ranked) > 1:
            margin = margin_at(points, dataset, ranked[0], ranked[1], level, yardstick)
            width = "" if margin.half_width is None else f" ± {margin.half_width:.2f}"
            told.append(f"{words}, {ranked[0][1].label} ({ranked[0][0]:.2f}, {margin.value:+.2f}{width} to the next)")
    if not told:
        return f"{dataset}: no two families reach the same level of privacy."
    return f"{dataset}: most recall@10 where the best attacker {'; '.join(told)}."


def _counted(points: Sequence[FrontierPoint]) -> str:
    counts = Counter(f"{one.family.label} on {one.dataset}" for one in points)
    return ", ".join(f"{name} ({count})" for name, count in counts.items()) or "none"


def _remapping(points: Sequence[FrontierPoint]) -> list[str]:
    """What moving noisy places into the discs does, at equal noise."""
    planar = {(one.dataset, one.defence.hide_within_m): one for one in points if one.family.label == "planar Laplace"}
    gains = [
        one.utility["recall@10"].value - planar[one.dataset, one.defence.hide_within_m].utility["recall@10"].value
        for one in points
        if one.family.label == "metric, private grid" and (one.dataset, one.defence.hide_within_m) in planar
    ]
    if not gains:
        return []
    return [
        f"Moving noisy places into private discs (metric, private grid) changes recall@10 against the same noise "
        f"without discs (planar Laplace) by {min(gains):+.3f} to {max(gains):+.3f}."
    ]
