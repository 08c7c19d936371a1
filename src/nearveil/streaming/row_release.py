"""What a mechanism publishes for rows of a long file, whatever batches they come in."""

from __future__ import annotations

import numpy as np

from nearveil.mechanisms.base import Mechanism
from nearveil.randomness import NumberedRows, new_stream_key
from nearveil.types import FloatArray

# As much as a core keeps at hand from one step of the release to the next.
_ROWS_AT_ONCE = 1 << 14


class RowRelease:
    """One release with secure randomness that belongs to the rows by their number.

    Parameters
    ----------
    mechanism : Mechanism
        Ready to publish, without a seed.
    key : bytes, optional
        Of this release alone; a fresh one unless a test gives it.
    """

    def __init__(self, mechanism: Mechanism, key: bytes | None = None) -> None:
        mechanism._prepare()
        self._mechanism = mechanism
        self._key = new_stream_key() if key is None else key

    def __call__(self, points: FloatArray, first_row: int) -> FloatArray:
        """Publish a place for every row; they have been checked to lie in the region."""
        mechanism, region = self._mechanism, self._mechanism.resolved_region
        published = np.empty_like(points)
        for start in range(0, len(points), _ROWS_AT_ONCE):
            part = slice(start, min(start + _ROWS_AT_ONCE, len(points)))
            rows = NumberedRows(self._key, first_row + start, part.stop - part.start)
            drawn = mechanism.draw_rows(mechanism.enter(points[part]), rows)
            published[part] = region.publish(mechanism.leave(mechanism.remap(drawn)))
        return published
