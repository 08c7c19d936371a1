"""Recall, distance ratio and distance error: by hand, and by sets."""

import math

import numpy as np
import pytest

from nearveil.errors import UsageError
from nearveil.evaluation.utility import Queries, QueryProtocol, draw_queries, measure_utilities, measure_utility
from nearveil.region import Region
from nearveil.types import FloatArray

PROTOCOLS: tuple[QueryProtocol, ...] = ("uniform", "users")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("spread_m", [0.0, 30.0, 3000.0])
def test_every_measure_by_sets_one_query_after_the_other(
    protocol: QueryProtocol, spread_m: float, rng: np.random.Generator
) -> None:
    true_m = rng.uniform(-5000, 5000, (80, 2))
    published_m = true_m + rng.normal(0, spread_m, (80, 2))
    askers = rng.integers(80, size=15)
    users = protocol == "users"
    queries = Queries(true_m[askers], askers) if users else Queries(rng.uniform(-6000, 6000, (15, 2)))
    ks = (1, 7, 79)
    for k, found in zip(ks, measure_utilities(true_m, published_m, queries, ks=ks), strict=True):
        recalls, squares, needed_m, listed_m = [], [], [], []
        for number, query in enumerate(queries.places_m):
            others = [person for person in range(80) if not users or person != askers[number]]
            near = [math.dist(query, place) for place in true_m]
            seem = [math.dist(query, place) for place in published_m]
            truly = sorted(others, key=near.__getitem__)[:k]
            listed = sorted(others, key=seem.__getitem__)[:k]
            recalls.append(len({*truly} & {*listed}) / k)
            needed_m.append(sum(near[i] for i in truly))
            listed_m.append(sum(near[i] for i in listed))
            squares += [(seem[i] - near[i]) ** 2 for i in truly]
        assert found.recall == pytest.approx(np.mean(recalls))
        assert found.distance_ratio == pytest.approx(np.mean(np.array(needed_m) / listed_m))
        assert found.pooled_distance_ratio == pytest.approx(sum(needed_m) / sum(listed_m))
        assert found.distance_mse_m2 == pytest.approx(np.mean(squares), rel=1e-9, abs=1e-9)


def test_a_query_from_where_everybody_is_has_a_ratio_of_one() -> None:
    """One of six at one location asks for five; that the tree may not name the asker must not cost a row."""
    for queries, k in ((Queries(np.zeros((1, 2))), 5), (Queries(np.zeros((6, 2)), np.arange(6)), 5)):
        found = measure_utility(np.zeros((6, 2)), np.ones((6, 2)), queries, k=k)
        assert (found.distance_ratio, found.pooled_distance_ratio) == (1.0, 1.0)
        assert found.distance_mse_m2 == pytest.approx(2.0)


def test_protocols_ask_from_where_they_say(san_francisco: Region, city: FloatArray, rng: np.random.Generator) -> None:
    true_m = san_francisco.to_metres(city)
    users = draw_queries(true_m, san_francisco, "users", 100, rng)
    assert (true_m[users.askers] == users.places_m).all()
    uniform = draw_queries(true_m, san_francisco, "uniform", 4000, rng)
    assert uniform.askers is None
    assert san_francisco.contains(san_francisco.from_metres(uniform.places_m)).all()
    assert np.abs(uniform.places_m.mean(axis=0)).max() < 1500


@pytest.mark.parametrize(("askers", "k", "says"), [(None, 0, ", 4"), (None, 5, ", 4"), ([0], 4, "who asks, 3")])
def test_impossible_k(askers: list[int] | None, k: int, says: str) -> None:
    queries = Queries(np.zeros((1, 2)), None if askers is None else np.array(askers))
    with pytest.raises(UsageError, match=f"k must lie between 1 and the number of people.*{says}"):
        measure_utility(np.zeros((4, 2)), np.zeros((4, 2)), queries, k=k)
