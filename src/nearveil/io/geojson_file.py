"""GeoJSON: a FeatureCollection of points."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nearveil.errors import DataError
from nearveil.io.coordinates import check_carried, without_columns
from nearveil.io.people import Layout, People, Place

_LOCATION_MEMBERS = {"geometry", "bbox"}


def read_geojson(
    path: Path, *, latitude: str | None = None, longitude: str | None = None, drop: tuple[str, ...] = ()
) -> People:
    """Read people from a FeatureCollection of points; positions are longitude, latitude."""
    if latitude is not None or longitude is not None:
        raise DataError("a GeoJSON file has its locations in its geometries; leave out --latitude and --longitude")
    features = _features(path)
    points = np.array([_point(feature, row) for row, feature in enumerate(features, start=1)])
    carried = without_columns(_properties_table(features, path), drop)
    warnings = check_carried(carried.column_names)
    kept = [_without_location(feature, drop) for feature in features]
    return People(points, carried, Layout(geometry=Place("geometry", 0)), kept, warnings)


def write_geojson(people: People, path: Path, metadata: dict[str, Any]) -> None:
    """Write people as a FeatureCollection, one feature a line."""
    features = people.features
    if features is None:
        features = [{"type": "Feature", "properties": row} for row in people.carried.to_pylist()]
    with path.open("w", encoding="utf-8") as stream:
        stream.write('{"type": "FeatureCollection", "nearveil": ' + json.dumps(metadata) + ', "features": [\n')
        last = len(features) - 1
        for row, (feature, point) in enumerate(zip(features, people.points.tolist(), strict=True)):
            geometry = {"type": "Point", "coordinates": [point[1], point[0]]}
            line = json.dumps({**feature, "geometry": geometry}, ensure_ascii=False, default=str)
            stream.write(line + ("" if row == last else ",") + "\n")
        stream.write("]}\n")


def _features(path: Path) -> list[dict[str, Any]]:
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise DataError(f"{path} is damaged or no GeoJSON file; export it again") from None
    features = document.get("features") if isinstance(document, dict) else None
    if not isinstance(features, list):
        raise DataError(f"{path} is no GeoJSON FeatureCollection; export one feature per person")
    if not features:
        raise DataError(f"{path} has no features; give at least one person")
    return features


def _point(feature: Any, row: int) -> tuple[float, float]:
    try:
        geometry = feature["geometry"]
        if geometry["type"] != "Point":
            raise TypeError
        longitude, latitude = geometry["coordinates"][:2]
        if isinstance(longitude, bool | str) or isinstance(latitude, bool | str):
            raise TypeError
        return float(latitude), float(longitude)
    except (TypeError, KeyError, ValueError, IndexError):
        raise DataError(
            f"row {row}: the feature has no point with two numbers; give every person a Point geometry"
        ) from None


def _properties_table(features: list[dict[str, Any]], path: Path) -> pa.Table:
    names: dict[str, None] = {}
    for feature in features:
        names.update(dict.fromkeys(feature.get("properties") or {}))
    columns = {name: [(feature.get("properties") or {}).get(name) for feature in features] for name in names}
    if "id" not in columns and any("id" in feature for feature in features):
        columns = {"id": [feature.get("id") for feature in features], **columns}
    try:
        return pa.table(columns) if columns else pa.table({}).select([])
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return _table_of_text(columns, path)


def _table_of_text(columns: dict[str, list[Any]], path: Path) -> pa.Table:
    """Fall back for properties of mixed types: each such value as its JSON text."""
    arrays = {}
    for name, values in columns.items():
        try:
            arrays[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            arrays[name] = pa.array([None if value is None else json.dumps(value) for value in values])
    if not arrays:
        raise DataError(f"{path} has properties that cannot be read")
    return pa.table(arrays)


def _without_location(feature: dict[str, Any], drop: tuple[str, ...]) -> dict[str, Any]:
    kept = {name: value for name, value in feature.items() if name not in _LOCATION_MEMBERS}
    properties = feature.get("properties") or {}
    kept["properties"] = {name: value for name, value in properties.items() if name not in drop}
    if "id" in drop and "id" not in properties:
        kept.pop("id", None)
    return kept
