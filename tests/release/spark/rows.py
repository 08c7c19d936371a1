"""Published rows in the order of their keys, to compare releases by."""

from __future__ import annotations

import numpy as np
from pyspark.sql import DataFrame

from nearveil.types import FloatArray


def by_key(rows: DataFrame, key: str = "id") -> dict[object, tuple[float, float]]:
    """Return each row's place by its key; fail if a key is there twice."""
    table = rows.select(key, "latitude", "longitude").toArrow().to_pydict()
    places = dict(zip(table[key], zip(table["latitude"], table["longitude"], strict=True), strict=True))
    assert len(places) == len(table[key]), "somebody is there twice"
    return places


def points_by_key(rows: DataFrame, key: str = "id") -> FloatArray:
    """Return the places in the order of their keys, shape (n, 2)."""
    places = by_key(rows, key)
    return np.array([places[name] for name in sorted(places)])  # type: ignore[type-var]
