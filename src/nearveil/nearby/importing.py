"""Bring people whom an app knows already into the store of a service, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from nearveil.nearby.publishing.publisher import Publisher, Report
from nearveil.nearby.stores.base import is_person_id
from nearveil.types import BoolArray, FloatArray

PlacesOfPeople = tuple[list[str | None], FloatArray]
"""Ids, and latitudes and longitudes, which are not numbers where there are none."""

AT_ONCE = 4_000


@dataclass(slots=True)
class Imported:
    """What became of the rows that were read.

    Attributes
    ----------
    rows : int
        All of them.
    taken : int
        People who are published at the next epoch boundary.
    without_id : int
        Rows whose id is missing, or none that a service takes.
    without_place : int
        Rows without a location in the region.
    """

    rows: int = 0
    taken: int = 0
    without_id: int = 0
    without_place: int = 0

    @property
    def there_before(self) -> int:
        """Rows of people who have reported, or were imported before; also further rows of one person."""
        return self.rows - self.taken - self.without_id - self.without_place


def import_people(
    publisher: Publisher,
    people: Iterable[PlacesOfPeople],
    *,
    clip: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Imported:
    """Add people and take their first places, in transactions of some thousand.

    Who is there already is left alone, so that an import that was interrupted can be begun again. Who was erased is not
    there: leave them out of ``people``, and also those who took themselves off the map before they were first
    published. Only noisy locations are kept, as of any report.

    Parameters
    ----------
    publisher : Publisher
        Of the service's store.
    people : iterable
        Batches of ids and places.
    clip : bool
        Whether people outside the region are moved to its edge; otherwise they are left out.
    progress : callable, optional
        Called with how many further rows are done.
    """
    region = publisher.protection.region
    imported = Imported()
    for ids, places in _pieces(people):
        has_id = np.array([one is not None and is_person_id(one) for one in ids], dtype=np.bool_)
        has_place: BoolArray = np.isfinite(places[:, 0]) & np.isfinite(places[:, 1])
        if clip:
            places[has_place] = region.clip(places[has_place])
        has_place[has_place] = region.contains(places[has_place])
        rows = np.flatnonzero(has_id & has_place)
        names = [str(ids[row]) for row in rows.tolist()]
        metres = region.to_metres(places[rows]).tolist()
        publisher.add_people(list(dict.fromkeys(names)))
        imported.taken += publisher.introduce([Report(name, x, y) for name, (x, y) in zip(names, metres, strict=True)])
        imported.rows += len(ids)
        imported.without_id += int((~has_id).sum())
        imported.without_place += int((has_id & ~has_place).sum())
        if progress is not None:
            progress(len(ids))
    return imported


def _pieces(people: Iterable[PlacesOfPeople]) -> Iterator[PlacesOfPeople]:
    for ids, places in people:
        for first in range(0, len(ids), AT_ONCE):
            yield ids[first : first + AT_ONCE], places[first : first + AT_ONCE]
