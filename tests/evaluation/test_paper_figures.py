"""DPRS rebuilt on the real data gives the paper's utility, under the protocol that gives it."""

from pathlib import Path

import numpy as np
import pytest

from nearveil import DPRS, named_region
from nearveil.evaluation.utility import QueryProtocol, measure_utility, query_points
from nearveil.io.csv_file import read_csv

pytestmark = pytest.mark.realdata


def recall(folder: Path, dataset: str, protocol: QueryProtocol) -> float:
    drop = ("user_id", "checkin_time", "location_id", "coord_precision")
    points = np.unique(read_csv(folder / f"{dataset}_sf.csv.gz", drop=drop).points, axis=0)
    region = named_region("san-francisco", "per-axis")
    true_m = region.to_metres(points)
    found = []
    for seed in range(3):
        published_m = region.to_metres(
            DPRS(release="paper", epsilon=1.0, region=region, seed=seed).fit(points).perturb(points)
        )
        queries = query_points(true_m, region, protocol, 1000, np.random.default_rng(seed))
        found.append(measure_utility(true_m, published_m, queries, protocol=protocol, k=10).recall)
    return float(np.mean(found))


@pytest.mark.parametrize(("dataset", "paper"), [("brightkite", 0.464), ("gowalla", 0.461)])
def test_recall_of_table_3_at_epsilon_1(real_data_folder: Path, dataset: str, paper: float) -> None:
    assert recall(real_data_folder, dataset, "uniform") == pytest.approx(paper, abs=0.04)


def test_recall_from_where_people_are_is_far_lower(real_data_folder: Path) -> None:
    assert recall(real_data_folder, "brightkite", "users") == pytest.approx(0.12, abs=0.02)
