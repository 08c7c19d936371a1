"""GeoJSON: a FeatureCollection of points, read whole."""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nearveil.errors import BadRowError, DataError
from nearveil.geodesy import degrees_from, reference_system
from nearveil.io.carried import check_carried
from nearveil.io.columns import kept_columns
from nearveil.io.input_file import InputFile
from nearveil.io.people import Layout, LocationColumn, People, PeopleInMemory, PeopleStream, PeopleWriter, ReadOptions

_LOCATION_MEMBERS = {"geometry", "bbox"}
_CARRIED_MEMBERS = {"type", "id", "properties"}


def open_geojson(file: InputFile, read: ReadOptions, *, carry: bool = True) -> PeopleStream:
    """Read people from a FeatureCollection of points; positions are longitude, latitude."""
    refuse_columns(read)
    features, crs = read_features(file)
    lenient = read.skip_bad is not None
    points = np.array([_point(feature, row, lenient=lenient) for row, feature in enumerate(features, start=1)])
    crs = read.crs or crs
    in_file, points = (None, points) if crs is None else (points, degrees_from(crs, points))
    # What is not even an object has nothing to carry.
    as_read, features = features, [feature if isinstance(feature, dict) else {} for feature in features]
    properties = properties_table(features)
    carried = properties.select(kept_columns(properties.column_names, read.drop))
    members = _members_to_carry(features, read.drop)
    warnings = (*check_carried(carried, points, in_file), *_left_out(features, members, read.drop)) if carry else ()
    kept = [_without_location(feature, members, read.drop) for feature in features]
    people = People(points, carried, Layout(geometry=LocationColumn("geometry", 0)), kept, warnings)
    return PeopleInMemory(people, lambda row: json.dumps(as_read[row]))


def refuse_columns(read: ReadOptions) -> None:
    """Refuse what is said of the columns of a text file."""
    if read.latitude is not None or read.longitude is not None:
        raise DataError("a GeoJSON file has its locations in its geometries; leave out latitude= and longitude=")
    said = {"location=": read.location, "columns=": read.columns, "delimiter=": read.delimiter}
    useless = next((name for name, value in {**said, "encoding=": read.encoding}.items() if value), None)
    if useless is not None:
        raise DataError(f"a GeoJSON file has its locations in its geometries, in UTF-8; leave out {useless}")


def read_features(file: InputFile) -> tuple[list[dict[str, Any]], str | None]:
    """Return the features of a FeatureCollection, and their reference system unless it is WGS84 degrees."""
    path = file.name
    try:
        with file.open() as stream:
            document = json.loads(bytes(stream.read()).decode("utf-8-sig"))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or 'it is damaged'}") from None
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise DataError(f"{path} is damaged or no GeoJSON file; export it again") from None
    except ValueError:
        raise DataError(f"{path} has a number with thousands of digits; correct it, or write it as text") from None
    features = document.get("features") if isinstance(document, dict) else None
    crs = _epsg(document.get("crs"), path) if isinstance(document, dict) else None
    if not isinstance(features, list):
        raise DataError(f"{path} is not a GeoJSON FeatureCollection; export one feature per person")
    if not features:
        raise DataError(f"{path} has no features; give at least one person")
    return features, crs


def _point(feature: Any, row: int, *, lenient: bool) -> tuple[float, float]:
    try:
        geometry = feature["geometry"]
        if geometry["type"] != "Point":
            raise TypeError
        longitude, latitude = geometry["coordinates"][:2]
        if isinstance(longitude, bool | str) or isinstance(latitude, bool | str):
            raise TypeError
        return float(latitude), float(longitude)
    except (TypeError, KeyError, ValueError, IndexError, OverflowError):
        if lenient:
            return math.nan, math.nan
        raise BadRowError(
            f"row {row}: the feature has no point with two numbers; give every person a Point geometry"
        ) from None


def _epsg(crs: Any, path: str) -> str | None:
    """Return the reference system that a file names, as GeoJSON once allowed; None for WGS84 degrees."""
    text = json.dumps(crs).upper()
    if crs is None or "CRS84" in text or "4326" in text:
        return None
    number = re.search(r"EPSG:+(?:[0-9.]*:)?([0-9]+)", text)
    if number is None:
        raise DataError(f"{path} is in a reference system without an EPSG number; reproject it to EPSG:4326")
    reference_system(f"EPSG:{number[1]}")
    return f"EPSG:{number[1]}"


def properties_table(features: list[dict[str, Any]]) -> pa.Table:
    """Return the properties of features as columns, and their ids if no property is called so."""
    names: dict[str, None] = {}
    for row, feature in enumerate(features, start=1):
        properties = feature.get("properties")
        if properties is not None and not isinstance(properties, dict):
            raise DataError(f"row {row}: the feature's properties are not an object; correct the file")
        names.update(dict.fromkeys(properties or {}))
        if any("\ud800" <= letter <= "\udfff" for name in properties or {} for letter in name):
            raise DataError(f"row {row}: the name of a property has half a character (a lone surrogate); rename it")
    columns = {name: [(feature.get("properties") or {}).get(name) for feature in features] for name in names}
    if "id" not in columns and any("id" in feature for feature in features):
        columns = {"id": [feature.get("id") for feature in features], **columns}
    arrays = {name: _column(values) for name, values in columns.items()}
    return pa.table(arrays) if arrays else pa.table({})


def _column(values: list[Any]) -> pa.Array:
    """A column of whatever type fits; values of mixed types as text."""
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeError, ValueError):
        texts = [None if value is None else value if isinstance(value, str) else json.dumps(value) for value in values]
        return pa.array([text if text is None else text.encode("utf-8", "replace").decode() for text in texts])


def _members_to_carry(features: list[dict[str, Any]], drop: tuple[str, ...]) -> set[str]:
    """Return the members that are carried over: the id only if it is the column ``id``, which is checked."""
    shadowed = any("id" in (feature.get("properties") or {}) for feature in features)
    return _CARRIED_MEMBERS - {"id"} if shadowed or "id" in drop else _CARRIED_MEMBERS


def _left_out(features: list[dict[str, Any]], members: set[str], drop: tuple[str, ...]) -> tuple[str, ...]:
    """Say which members beside the properties are not carried over: they might hold the place."""
    others = {name for feature in features for name in feature} - members - _LOCATION_MEMBERS
    named = sorted(others - {"id"} if "id" in drop else others)
    return (f"the features' members {', '.join(map(repr, named))} are left out",) if named else ()


def _without_location(feature: dict[str, Any], members: set[str], drop: tuple[str, ...]) -> dict[str, Any]:
    kept = {**{name: value for name, value in feature.items() if name in members}, "type": "Feature"}
    properties = feature.get("properties")
    if properties is not None:
        kept["properties"] = {name: value for name, value in properties.items() if name not in drop}
    return kept


# GeoJSON out: a FeatureCollection, one feature a line.


class GeoJsonWriter(PeopleWriter):
    """A GeoJSON file."""

    def __init__(self, path: Path, metadata: dict[str, Any]) -> None:
        self._stream = path.open("w", encoding="utf-8")
        self._before = '{"type": "FeatureCollection", "nearveil": ' + json.dumps(metadata) + ', "features": [\n'

    def prepared(self, people: People) -> str:
        """Return the text of all features."""
        features = people.features
        if features is None:
            names = people.carried.column_names
            if len(set(names)) < len(names):
                raise DataError(
                    "two columns have the same name, which GeoJSON cannot hold; rename one, or leave it out with drop="
                )
            rows = people.carried.to_pylist() if names else [{}] * len(people)
            features = [{"type": "Feature", "properties": row} for row in rows]
        return ",\n".join(
            _as_json({**feature, "geometry": {"type": "Point", "coordinates": [point[1], point[0]]}})
            for feature, point in zip(features, people.points.tolist(), strict=True)
        )

    def write(self, batch: str) -> None:
        """Write what comes before these features, and them."""
        self._stream.write(self._before)
        self._stream.write(batch)
        self._before = ",\n"

    def finish(self) -> None:
        """Write the end and close the file."""
        if not self._stream.closed:
            self._stream.write("\n]}\n")
            self._stream.close()

    def abandon(self) -> None:
        """Close the file, incomplete."""
        with suppress(OSError):
            self._stream.close()


def _as_json(feature: dict[str, Any]) -> str:
    try:
        line = json.dumps(feature, ensure_ascii=False, allow_nan=False, default=_plain)
        line.encode("utf-8")
    except ValueError:
        # Not-a-number and lone surrogates have no place in JSON text: null, and escapes.
        return json.dumps(_without_nan(feature), default=_plain)
    return line


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        raise DataError("a column holds bytes, which GeoJSON cannot hold; leave it out with drop=, or write Parquet")
    return str(value)


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
