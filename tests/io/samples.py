"""Small files of people, to read and to write."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearveil.io.columns import wkb_from_points

CSV = 'id,latitude,note,longitude,empty\n007,37.7,"a, ""quoted"" b",-122.4,\n1e5,37.8,"two\nlines",-122.5,NA\n'
MOVED = np.array([[37.123456, -122.654321], [37.5, -122.25]])
FEATURES: list[dict[str, Any]] = [
    {
        "type": "Feature",
        "id": 7,
        "bbox": [-122.4, 37.7, -122.4, 37.7],
        "properties": {"name": "Zoë", "tags": ["a", 1]},
        "geometry": {"type": "Point", "coordinates": [-122.4, 37.7, 12.0]},
        "extra": True,
    },
    {"type": "Feature", "properties": None, "geometry": {"type": "Point", "coordinates": [-122.5, 37.8]}},
]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def geojson(path: Path, features: object = FEATURES) -> Path:
    return write(path, json.dumps({"type": "FeatureCollection", "bbox": [-123, 37, -122, 38], "features": features}))


def geoparquet(path: Path, **column: object) -> Path:
    points = np.array([[37.7, -122.4], [37.8, -122.5]])
    bbox = pa.array([{"xmin": -122.4, "ymin": 37.7}, {"xmin": -122.5, "ymin": 37.8}])
    table = pa.table({"id": [1, 2], "geometry": wkb_from_points(points), "bbox": bbox})
    covering = {"bbox": {"xmin": ["bbox", "xmin"], "ymin": ["bbox", "ymin"]}}
    description = {"encoding": "WKB", "geometry_types": ["Point"], "bbox": [-122.5, 37.7, -122.4, 37.8], **column}
    description.setdefault("covering", covering)
    geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": description}}
    pq.write_table(table.replace_schema_metadata({b"geo": json.dumps(geo), b"secret": b"37.7 -122.4"}), path)
    return path
