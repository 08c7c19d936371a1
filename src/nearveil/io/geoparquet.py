"""What a GeoParquet file says of its geometries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearveil.errors import DataError


@dataclass(frozen=True, slots=True)
class GeoMetadata:
    """The part of the metadata that matters for points.

    Attributes
    ----------
    primary : str
        The column that holds the place.
    native : bool
        Whether it is a structure of x and y, instead of well-known binary.
    covering : tuple of str
        Columns with each row's bounding box, an exact location in disguise.
    geometries : tuple of str
        All columns with geometries.
    """

    primary: str
    native: bool
    covering: tuple[str, ...]
    geometries: tuple[str, ...]

    def refuse_others(self, names: list[str]) -> None:
        """Raise if a further geometry is among these columns."""
        for name in self.geometries:
            if name in names:
                raise DataError(
                    f"column {name!r} holds a second geometry that would be published as it is; leave it out with "
                    f"--drop {name}"
                )


def geo_metadata(metadata: Mapping[bytes, bytes], names: list[str], path: Path) -> GeoMetadata | None:
    """Read the metadata of a file with these columns; None if it is no GeoParquet file."""
    text = metadata.get(b"geo")
    if text is None:
        return None
    try:
        geo: dict[str, Any] = json.loads(text)
        primary = geo["primary_column"]
        column = geo["columns"][primary]
        encoding, crs = column["encoding"], column.get("crs", "OGC:CRS84")
        covering = column.get("covering", {}).get("bbox", {})
        boxes = sorted({parts[0] for parts in covering.values() if parts and parts[0] in names})
        if primary not in names:
            raise KeyError("primary_column")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError(f"{path} has damaged GeoParquet metadata; export it again") from None
    if not _is_wgs84(crs):
        raise DataError(f"{path} is not in WGS84 longitude and latitude; reproject it to OGC:CRS84 (EPSG:4326)")
    if encoding not in ("WKB", "point"):
        raise DataError(f"{path} holds geometries that are not points; give one point per person")
    return GeoMetadata(primary, encoding == "point", tuple(boxes), tuple(geo["columns"]))


def geo_metadata_of(geometry: str) -> str:
    """Return the metadata of a file with points in one column."""
    return json.dumps(
        {
            "version": "1.1.0",
            "primary_column": geometry,
            "columns": {geometry: {"encoding": "WKB", "geometry_types": ["Point"]}},
        }
    )


def _is_wgs84(crs: Any) -> bool:
    if crs == "OGC:CRS84":
        return True
    identity = crs.get("id") if isinstance(crs, dict) else None
    if not isinstance(identity, dict):
        return False
    return (identity.get("authority"), str(identity.get("code"))) in {("OGC", "CRS84"), ("EPSG", "4326")}
