"""The three releases side by side, at equal intervals and epsilon."""

from pathlib import Path

import numpy as np
import pytest

from nearveil import Region
from nearveil.evaluation.release_utility import metric_length_m, release_rows, release_table, released
from nearveil.io.datasets import Dataset
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.public_intervals import build_public_intervals
from nearveil.report.release_chart import draw_release_chart


@pytest.fixture(scope="module")
def town(san_francisco: Region) -> Dataset:
    return Dataset("town", san_francisco, synthetic_city(3000, san_francisco, rng=1))


def test_noise_of_metric_loses_epsilon_across_the_median_disc(san_francisco: Region) -> None:
    intervals = build_public_intervals(region=san_francisco, centres=31, rng=5)
    metric = released("metric", intervals, 3.0, seed=1)
    across_m = 2 * float(np.median(intervals.radii_m))
    assert metric.guarantee.epsilon * across_m == pytest.approx(3.0)


def test_scales_of_the_paper_follow_from_how_the_intervals_were_found(town: Dataset) -> None:
    rows = release_rows(town, "pic", 5.0, runs=1, queries=50)
    assert [row.release for row in rows] == ["paper", "interval", "metric"]
    grid = released("paper", build_public_intervals(region=town.region, centres=31, rng=5), 1.0, seed=1)
    assert grid.scales.release_scale == pytest.approx(4.0)


def test_calibrated_to_the_disc_beats_the_papers_release(town: Dataset, tmp_path: Path) -> None:
    """At epsilon 5 the gain shows even in a small town. One seed, far from the limit."""
    rows = release_rows(town, "private-grid", 5.0, runs=2, queries=400)
    paper, interval, metric = rows
    assert interval.recall[10].value > 1.05 * paper.recall[10].value
    assert metric.hide_within_m is not None
    headers, cells = release_table(rows)
    assert all(len(line) == len(headers) for line in cells)
    assert len(cells) == 1
    assert cells[0][-1] == f"{metric.hide_within_m:,.0f} m"
    draw_release_chart(rows, tmp_path / "releases.png")
    assert (tmp_path / "releases.png").stat().st_size > 10_000


def test_length_shrinks_with_epsilon(san_francisco: Region) -> None:
    intervals = build_public_intervals(region=san_francisco, centres=31, rng=5)
    assert metric_length_m(intervals, 4.0) == pytest.approx(metric_length_m(intervals, 1.0) / 4)
