"""Intervals that are kept are those that a new fit would give, and never those of somebody else."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from nearveil.evaluation.cells import _learned, fitted
from nearveil.evaluation.defences import Centres, Defence
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.intervals import Intervals
from tests.evaluation.towns import tiny_town

TOWN, OTHER_TOWN = tiny_town("town"), tiny_town("town", seed=2)
DEFENCE = Defence(label="DPRS", mechanism="dprs", epsilon=2.0, centres=25)
GRID = replace(DEFENCE, centres_from="private-grid")
SETTINGS: list[tuple[Defence, Dataset, int]] = [
    (DEFENCE, TOWN, 1),
    (DEFENCE, OTHER_TOWN, 1),
    (DEFENCE, TOWN, 2),
    (replace(DEFENCE, epsilon=2.1), TOWN, 1),
    (replace(DEFENCE, region="isotropic"), TOWN, 1),
    (replace(DEFENCE, gamma=0.4), TOWN, 1),
    (replace(DEFENCE, centres=26), TOWN, 1),
    (replace(DEFENCE, noise="gaussian"), TOWN, 1),
    (GRID, TOWN, 1),
    (replace(GRID, epsilon=2.1), TOWN, 1),
    (replace(GRID, release="interval", fit_epsilon=0.7), TOWN, 1),
    (replace(DEFENCE, release="interval", fit_epsilon=0.7), TOWN, 1),
]


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    _learned.cache_clear()
    yield
    _learned.cache_clear()


def intervals_of(mechanism: object) -> Intervals:
    assert isinstance(mechanism, DPRS)
    return mechanism.current_intervals


def same(first: Intervals, second: Intervals) -> bool:
    return np.array_equal(first.centres, second.centres) and np.array_equal(first.radii, second.radii)


@pytest.mark.parametrize("centres_from", ["pic", "private-grid", "public"])
@pytest.mark.parametrize("release", ["paper", "interval"])
def test_as_fit_would_make_it(centres_from: Centres, release: str) -> None:
    defence = replace(DEFENCE, centres_from=centres_from, release=release)  # type: ignore[arg-type]
    for _ in range(2):
        kept = fitted(defence.build(TOWN.region, 7), TOWN)
        anew = defence.build(TOWN.region, 7).fit(TOWN.places)
        assert same(intervals_of(kept), intervals_of(anew))
        assert intervals_of(kept).region == intervals_of(anew).region
        assert np.array_equal(kept.perturb(TOWN.places), anew.perturb(TOWN.places))
        assert kept.guarantee == anew.guarantee


def test_nothing_that_matters_is_mixed_up() -> None:
    for _ in range(2):
        kept = [intervals_of(fitted(one.build(town.region, seed), town)) for one, town, seed in SETTINGS]
    anew = [intervals_of(one.build(town.region, seed).fit(town.places)) for one, town, seed in SETTINGS]
    assert all(same(first, second) for first, second in zip(kept, anew, strict=True))
    assert not any(same(first, second) for first, second in pairwise(anew))
