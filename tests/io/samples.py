"""Small files of locations, to read and to write."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely

from nearveil.io.readers import Batch, open_source
from nearveil.io.writers import open_writer
from nearveil.types import FloatArray

CSV = 'id,latitude,note,longitude,empty\n007,37.7,"a, ""quoted"" b",-122.4,\n1e5,37.8,"two\nlines",-122.5,NA\n'
PLACES = np.array([[37.7, -122.4], [37.8, -122.5]])
MOVED = np.array([[37.123456, -122.654321], [37.5, -122.25]])


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def geojson(path: Path, *properties: dict[str, Any], **members: Any) -> Path:
    """Write a feature for each, at `PLACES`."""
    features = [
        {
            "type": "Feature",
            "bbox": [x, y, x, y],
            "properties": own,
            "geometry": {"type": "Point", "coordinates": [x, y]},
        }
        for own, (y, x) in zip(properties, PLACES.tolist(), strict=False)
    ]
    return write(
        path, json.dumps({"type": "FeatureCollection", "bbox": [-123, 37, -122, 38], "features": features, **members})
    )


def geoparquet(path: Path, points: FloatArray = PLACES, **column: object) -> Path:
    """Write points with everything that a file may say of them, boxes and all."""
    bbox = pa.array([{"xmin": x, "ymin": y} for y, x in points])
    wkb = pa.array(shapely.to_wkb(shapely.points(points[:, ::-1])).tolist())
    covering = {"bbox": {"xmin": ["bbox", "xmin"], "ymin": ["bbox", "ymin"]}}
    described = {
        "encoding": "WKB",
        "geometry_types": ["Point"],
        "bbox": [-122.5, 37.7, -122.4, 37.8],
        "covering": covering,
    }
    geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": {**described, **column}}}
    table = pa.table({"id": [1, 2], "geometry": wkb, "bbox": bbox})
    pq.write_table(table.replace_schema_metadata({b"geo": json.dumps(geo), b"secret": b"37.7 -122.4"}), path)
    return path


def publish(source: Path, output: Path, *columns: str, points: FloatArray | None = None, **options: Any) -> Path:
    """Copy a file with the columns named, and other locations if some are given."""
    opened = open_source(source)
    with open_writer(output, opened, columns, **options) as writer:
        row = 0
        for batch in opened.batches(columns):
            end = row + len(batch.points)
            writer.write(batch if points is None else Batch(points[row:end], batch.table))
            row = end
    return output
