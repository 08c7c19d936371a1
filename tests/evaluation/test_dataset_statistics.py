"""Statistics of populations, against cases whose answers are known."""

import numpy as np
import pytest

from nearveil.errors import DataError
from nearveil.evaluation.dataset_statistics import describe_dataset
from nearveil.io.datasets import Dataset
from nearveil.region import Region


@pytest.mark.statistical
def test_locations_at_random(san_francisco: Region, rng: np.random.Generator) -> None:
    """The bound is five standard errors of the ratio (a false alarm in a million); 0.7 and 1.3 times are far outside.

    The median is that of a Rayleigh distance at this density.
    """
    places = rng.uniform(
        (san_francisco.south, san_francisco.west), (san_francisco.north, san_francisco.east), (20_000, 2)
    )
    found = describe_dataset(Dataset("random", san_francisco, places))
    assert found["clark_evans"] == pytest.approx(1, abs=5 * 0.52 / np.sqrt(20_000))
    assert found["density_per_km2"] == pytest.approx(20_000 / 1566.1, rel=1e-4)
    assert found["median_nearest_m"] == pytest.approx(
        1000 * np.sqrt(np.log(2) / np.pi / found["density_per_km2"]), rel=0.02
    )
    clump = rng.normal((37.7, -122.4), 0.005, (3600, 2))
    assert describe_dataset(Dataset("clump", san_francisco, clump))["clark_evans"] < 0.2


def test_distances_are_meters_and_equal_locations_count_once(san_francisco: Region) -> None:
    places = san_francisco.from_metres(np.array([[0.0, 0.0], [300.0, 400.0], [8_830.0, 11_100.0], [0.0, 0.0]]))
    found = describe_dataset(Dataset("three", san_francisco, places))
    assert (found["places"], found["median_nearest_m"]) == (3, pytest.approx(500, abs=0.1))
    with pytest.raises(DataError, match="two different places"):
        describe_dataset(Dataset("one", san_francisco, places[[0, 0]]))
