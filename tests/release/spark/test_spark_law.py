"""Both engines draw from one law."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from scipy.stats import ks_2samp
from tests.release.spark.rows import points_by_key

from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.intervals import Intervals
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.region import Region
from nearveil.release.spark.api import protect
from nearveil.types import FloatArray

ROWS = 20_000
LEVEL = 1e-6


def steps_m(region: Region, true: FloatArray, published: FloatArray) -> FloatArray:
    """How far east and north everybody was moved, and how far in all."""
    moved = region.to_metres(published) - region.to_metres(true)
    return np.column_stack([moved, np.hypot(*moved.T)])


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["planar Laplace", "interval", "metric"])
def test_the_laws_of_both_engines_are_one(
    name: str, spark: SparkSession, san_francisco: Region, city: FloatArray, intervals: Intervals
) -> None:
    """Steps east, north and in all, of the same people: two-sample Kolmogorov-Smirnov tests at level 1e-6 each.

    False alarms: 9e-6 in all. Noise 30 % wider is rejected by the lengths.
    """
    mechanism: Mechanism = {
        "planar Laplace": PlanarLaplace(hide_within_m=300.0, region=san_francisco),
        # A narrow law, so that a wider one can be told from it.
        "interval": DPRS(intervals=intervals, epsilon=12.0),
        "metric": DPRS(intervals=intervals, release="metric", hide_within_m=2000.0),
    }[name]
    true = np.tile(city, (ROWS // len(city), 1))
    here = steps_m(san_francisco, true, mechanism.perturb(true))
    table = pa.table({"id": np.arange(ROWS), "latitude": true[:, 0], "longitude": true[:, 1]})
    df = spark.createDataFrame(table)
    there, wider = (
        steps_m(san_francisco, true, points_by_key(protect(df, mechanism=drawn, key="id").rows))
        for drawn in (mechanism, mechanism.rescaled(1.3))
    )
    for axis in range(3):
        assert ks_2samp(here[:, axis], there[:, axis]).pvalue > LEVEL
    assert ks_2samp(here[:, 2], wider[:, 2]).pvalue < LEVEL
