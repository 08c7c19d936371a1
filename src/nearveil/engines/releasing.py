"""Task: publish a place for every row of a part, the same whenever and wherever the part is computed."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import pyarrow as pa

from nearveil.engines.batch_places import PlaceColumns
from nearveil.engines.safe_errors import Batches, tells_no_values
from nearveil.hashing import noise_of, order_of, row_names
from nearveil.mechanisms.base import Mechanism


class Shared(Protocol):
    """What the driver shares with all executors: a broadcast variable, or a stand-in for one."""

    @property
    def value(self) -> bytes:
        """The bytes shared."""


@dataclass(frozen=True, slots=True)
class ReleaseRows:
    """Replace the true places of a part by published ones.

    Parameters
    ----------
    mechanism : Shared
        The mechanism, pickled. It is public, and may be large.
    secret : bytes
        The key of the job. It is small, travels with the task and is shown nowhere.
    places : PlaceColumns
        Where the coordinates are.
    key : int
        Which column names the rows.
    carries_key : bool
        Whether the key is published.
    """

    mechanism: Shared = field(repr=False)
    secret: bytes = field(repr=False)
    places: PlaceColumns
    key: int
    carries_key: bool

    @tells_no_values
    def __call__(self, batches: Batches) -> Batches:
        """Return the batches with published places, and two columns more to deal and sort the rows by."""
        mechanism = _unpickled(self.mechanism.value)
        for batch in batches:
            if batch.num_rows:
                yield self._release(batch, mechanism)

    def _release(self, batch: pa.RecordBatch, mechanism: Mechanism) -> pa.RecordBatch:
        names = row_names(batch.column(self.key), self.secret)
        published = mechanism.perturb_rows(self.places.places(batch), noise_of(names, self.secret))
        order = order_of(names, self.secret)
        columns = list(batch.columns)
        columns[self.places.latitude] = pa.array(published[:, 0])
        columns[self.places.longitude] = pa.array(published[:, 1])
        if not self.carries_key:
            del columns[self.key]
        columns += [pa.array(order[:, 0]), pa.array(order[:, 1])]
        return pa.RecordBatch.from_arrays(columns, names=[f"c{number}" for number in range(len(columns))])


@lru_cache(maxsize=2)
def _unpickled(mechanism: bytes) -> Mechanism:
    # Once per process and not per task: the tables a mechanism looks places up in are made once, too.
    made: Mechanism = pickle.loads(mechanism)  # noqa: S301 - from the driver, as this very code is
    return made
