"""Tasks: exact sums over a part of the people, for a private fit. What they return is private, and for noising only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from nearveil.engines.batch_places import PlaceColumns
from nearveil.engines.safe_errors import Batches, tells_no_values
from nearveil.mechanisms.centres import FIXED_POINT, square_in_fixed_point
from nearveil.mechanisms.exact_answers import cells_of
from nearveil.mechanisms.nearest_centre import nearest_centre_table
from nearveil.types import FloatArray

SUMS_SCHEMA = "centre bigint, x bigint, y bigint, people bigint"
COUNTS_SCHEMA = "cell bigint, people bigint"


class SharedCentres(Protocol):
    """Centres that the driver shares with all executors."""

    @property
    def value(self) -> FloatArray:
        """The centres, in the square."""


@dataclass(frozen=True, slots=True)
class SumAround:
    """Add up the coordinates (fixed point) and the number of the people nearest to each centre."""

    places: PlaceColumns
    centres: SharedCentres = field(repr=False)

    @tells_no_values
    def __call__(self, batches: Batches) -> Batches:
        """Return one batch: centres that have people, sums, numbers."""
        region, centres = self.places.region, self.centres.value
        nearest = nearest_centre_table(centres, region.half_extent_square)
        total = np.zeros((len(centres), 3), dtype=np.int64)
        for batch in batches:
            if batch.num_rows:
                whole = square_in_fixed_point(region, self.places.places(batch))
                total += nearest.sums(whole, 1 / FIXED_POINT)
        found = np.flatnonzero(total[:, 2])
        columns = [found, *total[found].T]
        yield pa.RecordBatch.from_arrays(
            [pa.array(np.ascontiguousarray(column)) for column in columns], names=["centre", "x", "y", "people"]
        )


@dataclass(frozen=True, slots=True)
class CountCells:
    """Count the people in each cell of a grid over the region."""

    places: PlaceColumns
    columns: int
    rows: int

    @tells_no_values
    def __call__(self, batches: Batches) -> Batches:
        """Return one batch: cells that have people, numbers."""
        region = self.places.region
        total = np.zeros(self.columns * self.rows, dtype=np.int64)
        for batch in batches:
            if batch.num_rows:
                whole = square_in_fixed_point(region, self.places.places(batch))
                np.add.at(total, cells_of(whole, region, self.columns, self.rows), 1)
        found = np.flatnonzero(total)
        yield pa.RecordBatch.from_arrays([pa.array(found), pa.array(total[found])], names=["cell", "people"])
