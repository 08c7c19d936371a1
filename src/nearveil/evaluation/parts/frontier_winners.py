"""Who wins the frontier: a table by level of privacy, and remarks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from nearveil.evaluation.attack_score import Mean, mean_over_runs
from nearveil.evaluation.outcome import Column, Value
from nearveil.evaluation.parts.families import Family
from nearveil.evaluation.parts.frontier_curves import FrontierPoint, beats_clearly, spread_at, standings

LEVELS_M = (50.0, 100.0, 200.0, 300.0, 500.0, 800.0, 1200.0)
_TOLD_M = (100.0, 300.0, 800.0)

WINNER_COLUMNS = (
    Column("dataset"),
    Column("attacker's error (m)", form=",.0f"),
    Column("best"),
    Column("recall@10"),
    Column("next best"),
    Column("its recall@10"),
    Column("margin"),
    Column("best that holds between all places"),
    Column("recall@10, between all places"),
)


def winner_rows(points: Sequence[FrontierPoint], dataset: str) -> list[tuple[Value, ...]]:
    """Return the best and the next best at each level that anybody reaches."""
    rows: list[tuple[Value, ...]] = []
    for error_m in LEVELS_M:
        ranked = [family for _, family in standings(points, dataset, error_m)]
        if not ranked:
            continue
        strong = next((family for family in ranked if family.sound and family.between_all_places), None)
        runner_up = ranked[1] if len(ranked) > 1 else None
        rows.append(
            (
                dataset,
                error_m,
                *_named(points, dataset, ranked[0], error_m),
                *_named(points, dataset, runner_up, error_m),
                None if runner_up is None else margin_at(points, dataset, ranked[0], runner_up, error_m),
                *_named(points, dataset, strong, error_m),
            )
        )
    return rows


def margin_at(points: Sequence[FrontierPoint], dataset: str, best: Family, following: Family, error_m: float) -> Mean:
    """How much more the best keeps; its interval is that of pairs, run by run, where every run reaches the error."""
    kept = {family.label: recall for recall, family in standings(points, dataset, error_m)}
    value = kept[best.label] - kept[following.label]
    first, second = (spread_at(_line(points, dataset, family), error_m) for family in (best, following))
    if first is None or second is None:
        return Mean(value, None)
    return Mean(value, mean_over_runs([a - b for a, b in zip(first, second, strict=True)]).half_width)


def _named(
    points: Sequence[FrontierPoint], dataset: str, family: Family | None, error_m: float
) -> tuple[str | None, Mean | None]:
    """A family and what it keeps; nothing where there is none."""
    if family is None:
        return None, None
    kept = {one.label: recall for recall, one in standings(points, dataset, error_m)}
    spread = spread_at(_line(points, dataset, family), error_m)
    return family.label, Mean(kept[family.label], None if spread is None else mean_over_runs(spread).half_width)


def _line(points: Sequence[FrontierPoint], dataset: str, family: Family) -> list[FrontierPoint]:
    return [one for one in points if one.dataset == dataset and one.family.label == family.label]


def frontier_remarks(points: Sequence[FrontierPoint]) -> tuple[str, ...]:
    """Say who wins where, and what the discs of the release metric do."""
    clear = [one for one in points if beats_clearly(one, points)]
    return (
        *(_standing(points, dataset) for dataset in dict.fromkeys(one.dataset for one in points)),
        f"{len(clear)} of {len(points)} points beat all other families clearly: {_counted(clear)}.",
        *_remapping(points),
        "A defence confined to small discs keeps recall and gives the disc away. Which promise goes with a point is in "
        "the table.",
    )


def _standing(points: Sequence[FrontierPoint], dataset: str) -> str:
    told = []
    for error_m in _TOLD_M:
        ranked = standings(points, dataset, error_m)
        if len(ranked) > 1:
            margin = margin_at(points, dataset, ranked[0][1], ranked[1][1], error_m)
            width = "" if margin.half_width is None else f" ± {margin.half_width:.2f}"
            told.append(
                f"{error_m:g} m, {ranked[0][1].label} ({ranked[0][0]:.2f}, {margin.value:+.2f}{width} to the next)"
            )
    if not told:
        return f"{dataset}: no two families reach the same error of the attacker."
    return f"{dataset}: most recall@10 where the best attacker is wrong by {'; '.join(told)}."


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
