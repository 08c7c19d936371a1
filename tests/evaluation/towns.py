"""Towns of a few hundred users."""

from nearveil.io.datasets import Dataset
from nearveil.io.synthetic import synthetic_city
from nearveil.region import named_region


def tiny_town(name: str, users: int = 600, seed: int = 1) -> Dataset:
    region = named_region("san-francisco")
    return Dataset(name, region, synthetic_city(users, region, rng=seed), "made up")
