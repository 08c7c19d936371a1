"""The search over the region: it finds the places with least noise, within its budget."""

import numpy as np
import pytest

from nearveil.auditing.explore import search_places
from nearveil.auditing.subjects import PublishedSubject, Sampler
from nearveil.region import Region
from nearveil.types import FloatArray

pytestmark = pytest.mark.statistical

REGIONS = (Region(37.5, -122.6, 37.9, -122.2), Region(-17.2, 179.8, -16.8, -179.8), Region(51.5, 0.0, 51.503, 0.004))


class Quiet(PublishedSubject):
    """Gaussian noise of a fiftieth of the region, and a fifth of that in a small corner of it."""

    def publish(self, points: FloatArray, rng: np.random.Generator) -> object:
        metres = self.region.to_metres(points)
        half = np.array(self.region.half_extent_m)
        share = np.where((metres > 0.9 * half).all(axis=1), 0.2, 1.0)[:, None]
        moved = metres + rng.standard_normal(metres.shape) * half / 50 * share
        return self.region.clip(self.region.from_metres(moved))


@pytest.mark.parametrize("region", REGIONS, ids=str)
def test_the_places_with_least_noise_are_found(region: Region) -> None:
    """One place in 400 is quiet; that none is found among 4,000 has a probability below 1e-6."""
    sampler = Sampler(Quiet(region), 1)
    found = search_places(sampler, 21_000)
    assert len(found) == 2
    assert region.contains(found).all()
    half = np.array(region.half_extent_m)
    assert (region.to_metres(found) > 0.85 * half).all()
    assert 15_000 < sampler.drawn <= 21_000


def test_few_samples_are_not_spent_on_a_search() -> None:
    sampler = Sampler(Quiet(REGIONS[0]), 1)
    assert search_places(sampler, 5_000) == []
    assert sampler.drawn == 0
