"""GeoJSON out: a FeatureCollection, one feature a line."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

from nearveil.errors import DataError
from nearveil.io.people import People
from nearveil.io.people_writer import PeopleWriter


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
                raise DataError("two columns have the same name, which GeoJSON cannot hold; rename one, or --drop it")
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
        """Close the file as it is."""
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
        raise DataError("a column holds bytes, which GeoJSON cannot hold; leave it out with --drop, or write Parquet")
    return str(value)


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
