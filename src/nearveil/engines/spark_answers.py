"""Exact answers about people in a cluster: one aggregation each, on whole numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearveil.engines.batch_places import PlaceColumns
from nearveil.engines.spark_tasks import run_on_batches
from nearveil.engines.summing import COUNTS_SCHEMA, SUMS_SCHEMA, CountCells, SumAround
from nearveil.engines.tally import Tally
from nearveil.mechanisms.exact_answers import ExactAnswers
from nearveil.types import FloatArray, IntArray

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class PlacesInSpark(ExactAnswers):
    """Answers about the places in a DataFrame.

    Each answer is added up on the executors and comes to the driver as one number per centre or cell, where the noise
    is added, once. On their way the exact sums may lie in Spark's shuffle files.

    Parameters
    ----------
    places : DataFrame
        Latitude and longitude, nothing else.
    columns : PlaceColumns
        How they are read.
    tally : Tally
        What a first look at all rows has counted.
    """

    def __init__(self, places: DataFrame, columns: PlaceColumns, tally: Tally) -> None:
        self.region = columns.region
        self._places = places
        self._columns = columns
        self._tally = tally

    def __len__(self) -> int:
        return self._tally.rows

    @property
    def all_in_one_place(self) -> bool:
        """Whether everybody is at the same place."""
        return self._tally.all_in_one_place

    def sums_around(self, centres: FloatArray) -> IntArray:
        """Sums and numbers of the people nearest to each centre."""
        shared = self._places.sparkSession.sparkContext.broadcast(centres)
        parts = run_on_batches(self._places, SumAround(self._columns, shared), SUMS_SCHEMA)
        added = parts.groupBy("centre").sum("x", "y", "people").toArrow()
        shared.destroy()
        sums = np.zeros((len(centres), 3), dtype=np.int64)
        sums[added.column(0).to_numpy()] = np.column_stack([added.column(place).to_numpy() for place in (1, 2, 3)])
        return sums

    def counts_in_cells(self, columns: int, rows: int) -> IntArray:
        """How many people each cell holds."""
        parts = run_on_batches(self._places, CountCells(self._columns, columns, rows), COUNTS_SCHEMA)
        added = parts.groupBy("cell").sum("people").toArrow()
        counts = np.zeros(columns * rows, dtype=np.int64)
        counts[added.column(0).to_numpy()] = added.column(1).to_numpy()
        return counts
