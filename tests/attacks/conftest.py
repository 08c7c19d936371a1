"""A city to attack, as the service knows it, and targets as the paper picks them."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from nearveil.attacks.oracle import Point
from nearveil.attacks.simulator import SimulatedService
from nearveil.region import Region
from nearveil.types import FloatArray

Instances = Callable[..., Iterator[tuple[Point, int]]]


@pytest.fixture(scope="session")
def city_m(san_francisco: Region, city: FloatArray) -> FloatArray:
    return san_francisco.to_metres(city)


@pytest.fixture
def service(san_francisco: Region, city_m: FloatArray) -> SimulatedService:
    return SimulatedService(san_francisco, city_m, rng=1)


@pytest.fixture
def instances(city_m: FloatArray) -> Instances:
    """Starts near a random person, each with the person who is k-th from there."""

    def pick(k: int, count: int, seed: int = 3) -> Iterator[tuple[Point, int]]:
        rng = np.random.default_rng(seed)
        for _ in range(count):
            start = city_m[rng.integers(len(city_m))] + rng.normal(0, 50, 2)
            target = int(np.argsort(np.hypot(*(city_m - start).T))[k - 1])
            yield (float(start[0]), float(start[1])), target

    return pick
