"""Recall, distance ratio and distance error by hand; `test_paper` compares them with the reference."""

import numpy as np
import pytest

from nearveil.errors import UsageError
from nearveil.evaluation.utility import Queries, draw_queries, measure_utilities
from nearveil.region import Region
from nearveil.types import FloatArray


def test_a_user_who_asks_is_not_their_own_neighbor() -> None:
    """The first of four asks, of whom the second is truly nearest and the third is listed first.

    Were the asker a neighbor, they would be the nearest, and found: recall would be 1 where it is 0.
    """
    true_m = np.array([[0.0, 0], [1, 0], [2, 0], [9, 0]])
    published_m = np.array([[0.5, 0], [8, 0], [3, 0], [4, 0]])
    nearest, both = measure_utilities(true_m, published_m, Queries(true_m[:1], np.array([0])), ks=(1, 2))
    assert (nearest.recall, nearest.distance_ratio, nearest.distance_mse_m2) == (0.0, 1 / 2, 7**2)
    assert (both.recall, both.distance_ratio) == (0.5, (1 + 2) / (2 + 9))


def test_a_query_from_where_everybody_is_has_a_ratio_of_one() -> None:
    """One of six at one location asks for five; that the tree may not name the asker must not cost a row."""
    for queries, k in ((Queries(np.zeros((1, 2))), 5), (Queries(np.zeros((6, 2)), np.arange(6)), 5)):
        found = measure_utilities(np.zeros((6, 2)), np.ones((6, 2)), queries, ks=(k,))[0]
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
        measure_utilities(np.zeros((4, 2)), np.zeros((4, 2)), queries, ks=(k,))
