"""Who keeps most at a level of privacy, on curves drawn by hand."""

import math
from dataclasses import replace

import pytest

from nearveil.evaluation.defences import Defence
from nearveil.evaluation.experiments.frontier_curves import (
    FrontierPoint,
    beats_clearly,
    margin_over_others,
    recall_at,
    winner_rows,
)
from nearveil.evaluation.families import Family
from nearveil.evaluation.stats import Mean, Share


def curve(label: str, *points: tuple[float, float], dataset: str = "town", half_width: float | None = None,
          error_half_width: float | None = None) -> list[FrontierPoint]:  # fmt: skip
    family = Family(label, ())
    defence = Defence(label=label, mechanism="srr", epsilon=1.0)
    return [
        FrontierPoint(
            dataset, family, defence, Mean(error_m, error_half_width), Mean(0.1, None),
            {"recall@10": Mean(recall, half_width)},
        )
        for error_m, recall in points
    ]  # fmt: skip


FALLING = curve("falling", (100, 0.8), (200, 0.6), (400, 0.2))


@pytest.mark.parametrize(
    ("error_m", "recall"),
    [(100, 0.8), (141.42, 0.7), (200, 0.6), (282.84, 0.4), (400, 0.2), (400.1, None), (5000, None)],
)
def test_along_lines_that_are_straight_on_the_scale_of_the_picture(error_m: float, recall: float | None) -> None:
    assert recall_at(FALLING, error_m) == (None if recall is None else pytest.approx(recall, abs=1e-4))
    assert recall_at(FALLING[::-1], error_m) == recall_at(FALLING, error_m)


def test_a_point_with_more_privacy_and_more_recall_serves_as_well() -> None:
    wavy = curve("wavy", (100, 0.5), (200, 0.3), (300, 0.6), (400, 0.1))
    assert recall_at(wavy, 150) == 0.6
    assert recall_at(wavy, 250) == 0.6
    assert recall_at(wavy, math.sqrt(300 * 400)) == pytest.approx(0.35)


def test_margins_are_to_the_best_of_the_others_at_the_same_error() -> None:
    flat, high = curve("flat", (10, 0.5), (5000, 0.5)), curve("high", (100, 0.9))
    points = [*FALLING, *flat, *high]
    margins = [margin_over_others(one, points) for one in FALLING]
    assert margins == [pytest.approx(-0.1), pytest.approx(0.1), pytest.approx(-0.3)]
    # Its own curve is no rival, and neither are those of another population.
    assert margin_over_others(flat[1], points) is None
    assert margin_over_others(FALLING[0], [*FALLING, *curve("high", (900, 0.99), dataset="elsewhere")]) is None


def test_nobody_is_beaten_at_less_privacy_than_was_measured_of_them() -> None:
    weak = curve("weak", (10, 0.99), (200, 0.7), half_width=0.0, error_half_width=0.0)
    other = curve("other", (100, 0.6), (400, 0.2), half_width=0.0, error_half_width=0.0)
    points = [*weak, *other]
    assert margin_over_others(weak[0], points) is None
    assert not beats_clearly(weak[0], points)
    assert margin_over_others(weak[1], points) == pytest.approx(0.3)
    assert beats_clearly(weak[1], points)
    # Who was measured there is compared, and nobody else.
    third = curve("third", (10, 0.3), (400, 0.1))
    assert margin_over_others(weak[0], [*points, *third]) == pytest.approx(0.69)


@pytest.mark.parametrize(
    ("half_width", "error_half_width", "clear"),
    [(0.0, 0.0, True), (0.09, 0.0, True), (0.11, 0.0, False), (0.0, 150.0, False)],
)
def test_clearly_is_at_the_worse_ends_of_its_intervals(half_width: float, error_half_width: float, clear: bool) -> None:
    """0.7 against 0.5 at 300 m; 150 m less for it and more for the other, and the other keeps 0.9."""
    other = curve("other", (150, 0.9), (300, 0.5), (301, 0.5), half_width=half_width, error_half_width=error_half_width)
    own = curve("own", (300, 0.7), half_width=half_width, error_half_width=error_half_width)
    assert beats_clearly(own[0], [*other, *own]) is clear


def in_runs(label: str, *runs: tuple[tuple[float, float], ...]) -> list[FrontierPoint]:
    """A curve from what every run gave: for each run, an error and a recall at each point."""
    points = list(zip(*runs, strict=True))
    means = [tuple(sum(values) / len(values) for values in zip(*point, strict=True)) for point in points]
    found = curve(label, *((error_m, recall) for error_m, recall in means))
    told = [
        tuple({"error": error_m, "acc": 1 / error_m, "recall": recall} for error_m, recall in point) for point in points
    ]
    return [replace(one, runs=own) for one, own in zip(found, told, strict=True)]


def test_winners_have_intervals_of_pairs() -> None:
    best = in_runs("best", ((100, 0.8), (400, 0.4)), ((100, 0.9), (400, 0.5)))
    following = in_runs("following", ((100, 0.7), (400, 0.3)), ((100, 0.8), (400, 0.4)))
    points = [*following, *best]
    row = next(row for row in winner_rows(points, "town") if row[1] == "wrong by 200 m")
    assert (row[2], row[5], row[6]) == ("best", "yes", "following")
    kept, margin = row[3], row[4]
    assert isinstance(kept, Share)
    assert isinstance(margin, Mean)
    # Along the lines 0.6 and 0.7, and a tenth less in both runs: 12.706 times the standard error, cut at 0 and 1.
    assert (kept.value, kept.low, kept.high) == (pytest.approx(0.65), pytest.approx(0.65 - 12.706 * 0.05, abs=1e-3), 1)
    assert (margin.value, margin.half_width) == (pytest.approx(0.1), pytest.approx(0.0, abs=1e-9))
