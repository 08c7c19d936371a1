"""Places in Arrow batches, as executors get them: numbers or text, checked or counted, never shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nearveil.errors import DataError
from nearveil.geodesy import wrap_longitude
from nearveil.io.columns import degrees_column
from nearveil.region import Region
from nearveil.types import BoolArray, FloatArray


@dataclass(frozen=True, slots=True)
class PlaceColumns:
    """Where a batch has its coordinates, and what becomes of people outside the region."""

    latitude: int
    longitude: int
    region: Region
    clip: bool

    def places(self, batch: pa.RecordBatch) -> FloatArray:
        """Return the places of a batch, moved to the region's edge if that is wanted."""
        points = np.column_stack(
            [
                degrees_column(pa.chunked_array([batch.column(self.latitude)]), "latitude"),
                degrees_column(pa.chunked_array([batch.column(self.longitude)]), "longitude"),
            ]
        )
        return moved_to_edge(points, self.region) if self.clip else points

    def unreadable(self, batch: pa.RecordBatch) -> int:
        """Return how many rows have a coordinate that is no number at all."""
        bad = np.zeros(batch.num_rows, dtype=np.bool_)
        for column in (self.latitude, self.longitude):
            bad |= _no_numbers(batch.column(column))
        return int(bad.sum())


def moved_to_edge(points: FloatArray, region: Region) -> FloatArray:
    """Move who is outside the region to its edge, as `Region.clip` does, whatever rows they share a batch with."""
    outside = ~region.contains(points)
    if not outside.any():
        return points
    half, middle = region.width_deg / 2, region.centre[1]
    moved = points.copy()
    moved[outside, 0] = np.clip(points[outside, 0], region.south, region.north)
    moved[outside, 1] = wrap_longitude(middle + np.clip(wrap_longitude(points[outside, 1] - middle), -half, half))
    return moved


def _no_numbers(column: pa.Array) -> BoolArray:
    try:
        degrees_column(pa.chunked_array([column]), "coordinate")
    except DataError:
        # The whole batch is about to be refused, so it does not matter that one by one is slow.
        return np.array([_is_no_number(column.slice(row, 1)) for row in range(len(column))], dtype=np.bool_)
    return np.zeros(len(column), dtype=np.bool_)


def _is_no_number(one: pa.Array) -> bool:
    try:
        degrees_column(pa.chunked_array([one]), "coordinate")
    except DataError:
        return True
    return False
