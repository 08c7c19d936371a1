"""Compile what questions and reports need before a service says that it is ready, or when an image is built.

    python -m nearveil.server.warm_up

compiles for every kind of protection and keeps the code beside the package, if that can be written. A service whose
package is read-only then starts with it, and needs no other folder for compiled code.
"""

from __future__ import annotations

import numpy as np

from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.fit_cells import cells_from_points
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.mechanisms.intervals import Intervals
from nearveil.nearby.index import Filter, NearbyIndex, Remap
from nearveil.nearby.publishing.intervals_in_use import IntervalsInUse
from nearveil.nearby.publishing.keys import new_keys
from nearveil.nearby.publishing.protection import Protection
from nearveil.nearby.publishing.publisher import Publisher
from nearveil.nearby.stores.base import PublishedBatch
from nearveil.nearby.stores.sqlite import SqliteStore
from nearveil.region import Region


def compile_kernels(protection: Protection, remap: Remap) -> None:
    """Take a report and answer a question of nobody, so that nothing is left to compile when the service is ready."""
    store = SqliteStore.in_memory()
    keys = new_keys(protection.schedule)
    publisher = Publisher(protection, keys, store)
    store.add_people(["nobody"])
    publisher.report("nobody", *protection.region.centre)
    publisher.advance()
    store.close()
    index: NearbyIndex[str] = NearbyIndex(protection.region)
    x_m, y_m = index.to_metres(*protection.region.centre)
    batch = PublishedBatch(["nobody"], np.zeros((1, 2), dtype=np.int64))
    index.load([batch], remap, keys.tie_key(0))
    index.advance([batch], remap, keys.tie_key(0))
    index.tag("nobody", 1)
    for filtered in (None, Filter(), Filter(only=(1,), after="nobody")):
        index.ranked_metres(x_m, y_m, 1, "nobody", 1.0, filtered)
    index.remove("nobody")
    index.move("nobody", x_m, y_m)


def compile_all() -> None:
    """Compile for all kinds of protection, with and without intervals."""
    region = Region(-0.2, 9.8, 0.2, 10.2)
    cells = cells_from_points(synthetic_city(2000, region, rng=1), region)
    discs = Intervals(
        region=region,
        centres=np.array([[0.0, 0.0], [0.3, 0.4]]),
        method="public",
        answers=(),
        gamma=0.5,
        seeded=False,
    )
    store = SqliteStore.in_memory()
    intervals = IntervalsInUse(store, region)
    without = intervals.remap(0)
    intervals.put(discs, epoch=0, from_epoch=0)
    for among in (None, HideAmong(50, cells=cells)):
        for remap in (without, intervals.remap(1)):
            compile_kernels(Protection(region=region, among=among), remap)
    store.close()


if __name__ == "__main__":
    compile_all()
