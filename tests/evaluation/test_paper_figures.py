"""DPRS rebuilt on the real data gives the paper's utility, under the protocol that gives it."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from nearveil import DPRS, named_region
from nearveil.evaluation.experiments import ablation, table3
from nearveil.evaluation.experiments.scope import Scope
from nearveil.evaluation.experiments.table3 import MeasuredRow
from nearveil.evaluation.runner import open_journal, run_cells
from nearveil.evaluation.stats import Mean
from nearveil.evaluation.utility import QueryProtocol, draw_queries, measure_utility
from nearveil.io.datasets import DatasetName, load_dataset
from nearveil.io.files import read_people
from nearveil.io.people import ReadOptions

pytestmark = pytest.mark.realdata


def recall(folder: Path, dataset: str, protocol: QueryProtocol) -> float:
    drop = ("user_id", "checkin_time", "location_id", "coord_precision")
    points = np.unique(read_people(folder / f"{dataset}_sf.csv.gz", ReadOptions(drop=drop)).points, axis=0)
    region = named_region("san-francisco", "per-axis")
    true_m = region.to_metres(points)
    found = []
    for seed in range(3):
        published_m = region.to_metres(
            DPRS(release="paper", epsilon=1.0, centres=800, region=region, seed=seed).fit(points).perturb(points)
        )
        queries = draw_queries(true_m, region, protocol, 1000, np.random.default_rng(seed))
        found.append(measure_utility(true_m, published_m, queries, k=10).recall)
    return float(np.mean(found))


@pytest.mark.parametrize(("dataset", "paper"), [("brightkite", 0.464), ("gowalla", 0.461)])
def test_recall_of_table_3_at_epsilon_1(real_data_folder: Path, dataset: str, paper: float) -> None:
    assert recall(real_data_folder, dataset, "uniform") == pytest.approx(paper, abs=0.04)


def test_recall_from_where_people_are_is_far_lower(real_data_folder: Path) -> None:
    assert recall(real_data_folder, "brightkite", "users") == pytest.approx(0.12, abs=0.02)


class SmallTables(NamedTuple):
    table3: list[MeasuredRow]
    gains: dict[tuple[str, float], Mean]


@pytest.fixture(scope="module")
def small(real_data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> SmallTables:
    """Table 3 and the ablation on Brightkite at epsilon = 1 and 5: two runs of 20 attacks and 400 queries."""
    town = load_dataset(DatasetName.BRIGHTKITE, real_data_folder)
    scope = Scope(datasets={town.name: town}, runs=2, instances=20, queries=400, targets=2, quick=True)
    with open_journal(tmp_path_factory.mktemp("table3") / "cells.jsonl") as journal:
        results = run_cells([*table3.cells(scope), *ablation.cells(scope)], scope.datasets, journal, cores=1)
    return SmallTables(table3.measured(scope, results), ablation.pic_gains(scope, results, "users recall@10"))


def test_rows_of_dprs_in_table_3(small: SmallTables) -> None:
    """Wide limits around the paper's values, which 40 attacks and 800 queries cannot leave by chance."""
    rows = [row for row in small.table3 if row.defence.label == "DPRS"]
    assert [row.defence.epsilon for row in rows] == [1.0, 5.0]
    for row in rows:
        assert row.paper is not None
        assert row.recall.value == pytest.approx(row.paper.recall, abs=0.10)
        assert row.ratio.value == pytest.approx(row.paper.ratio, abs=0.15)
        assert row.attack["exact"].score.acc.value <= 0.12
        assert 0.35 < row.dist_km("exact").value < 1.0
        # Where people ask from is what decides, and the paper does not say it.
        assert row.users_recall.value < 0.5 * row.recall.value


def test_baselines_of_table_3_keep_next_to_nothing(small: SmallTables) -> None:
    rows = [row for row in small.table3 if row.defence.label != "DPRS"]
    assert {row.defence.label for row in rows} == {"SRR", "Square", "2D Laplace", "per-axis Laplace"}
    assert max(row.recall.value for row in rows) < 0.15


def test_random_centres_do_almost_as_well_as_private_ones(small: SmallTables) -> None:
    assert all(abs(gain.value) < 0.05 for gain in small.gains.values())
