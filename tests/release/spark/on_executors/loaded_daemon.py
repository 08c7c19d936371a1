"""Spark's own daemon of Python workers, with Nearveil and its compiled functions loaded before it makes any.

A worker in which a task fails is gone, and many do in tests: each new one would load everything again.
"""

import gc
import importlib
import pickle
from types import SimpleNamespace

import pyarrow as pa
from pyspark.daemon import manager

from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.release.spark_tasks import PlaceColumns, ReleaseRows, TallyRows


def load() -> None:
    """Load what workers need, by a release of one made-up person."""
    for module in ("pandas", "pyspark.worker", "pyspark.sql.pandas.serializers"):
        importlib.import_module(module)
    mechanism, secret = PlanarLaplace(), bytes(16)
    person = pa.RecordBatch.from_pydict({"id": [1], "latitude": [37.7], "longitude": [-122.4]})
    places = PlaceColumns(1, 2, mechanism.area, clip=False)
    shared = SimpleNamespace(value=pickle.dumps(mechanism))
    for task in (TallyRows(mechanism.area, secret), ReleaseRows(shared, secret, places, 0, True)):
        list(task(iter([person])))
    # Spark collects garbage after every task, and would look at all that was loaded each time.
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    load()
    manager()
