"""From what an operator writes to a Region: a name, four numbers, or a GeoJSON file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nearveil.errors import UsageError
from nearveil.region import Region, Scaling

# Public boxes: south, west, north, east. San Francisco's is the paper's.
NAMED_REGIONS: dict[str, tuple[float, float, float, float]] = {
    "berlin": (52.33, 13.08, 52.68, 13.77),
    "fiji": (-19.5, 176.8, -15.5, -178.0),
    "london": (51.28, -0.52, 51.70, 0.34),
    "new-york": (40.49, -74.27, 40.92, -73.68),
    "paris": (48.70, 2.10, 49.05, 2.65),
    "san-francisco": (37.5, -122.6, 37.9, -122.2),
    "singapore": (1.15, 103.58, 1.48, 104.10),
    "sydney": (-34.17, 150.50, -33.57, 151.35),
    "tokyo": (35.50, 139.40, 35.90, 140.00),
}


def named_region(name: str, scaling: Scaling = "isotropic") -> Region:
    """Return a region that Nearveil knows by name.

    Examples
    --------
    >>> named_region("san-francisco").south
    37.5
    """
    try:
        return Region(*NAMED_REGIONS[name], scaling=scaling, name=name)
    except KeyError:
        raise UsageError(
            f"there is no region named {name!r}; use one of {', '.join(sorted(NAMED_REGIONS))}, "
            "four numbers south,west,north,east, or a GeoJSON file"
        ) from None


def parse_region(text: str, scaling: Scaling = "isotropic") -> Region:
    """Read a region from a name, ``"south,west,north,east"`` in degrees, or the path of a GeoJSON file.

    Examples
    --------
    >>> parse_region("37.5,-122.6,37.9,-122.2").north
    37.9
    """
    if "," in text and not Path(text).exists():
        return _region_from_numbers(text, scaling)
    if text.endswith((".geojson", ".json")):
        return _region_from_geojson(Path(text), scaling)
    return named_region(text, scaling)


def as_region(region: Region | str) -> Region:
    """Return a Region, reading it with `parse_region` if it is given as text."""
    return parse_region(region) if isinstance(region, str) else region


def _region_from_numbers(text: str, scaling: Scaling) -> Region:
    try:
        south, west, north, east = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError("a region in numbers is south,west,north,east in degrees, four numbers") from None
    return Region(south, west, north, east, scaling=scaling)


def _region_from_geojson(path: Path, scaling: Scaling) -> Region:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the region file {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"the region file {path} is not GeoJSON; export a polygon or a bbox as GeoJSON") from None
    west, south, east, north = _geojson_box(document, path)
    return Region(south, west, north, east, scaling=scaling, name=path.stem)


def _geojson_box(document: Any, path: Path) -> tuple[float, float, float, float]:
    """West, south, east, north of a GeoJSON object: its own bbox, else the box around its coordinates."""
    message = (
        f"the region file {path} holds no polygon and no bbox of four numbers; export the area as a GeoJSON polygon"
    )
    if not isinstance(document, dict):
        raise UsageError(message)
    try:
        box = document.get("bbox")
        if box is not None:
            # RFC 7946: west, south[, height], east, north[, height]; west > east across the antimeridian.
            if len(box) not in (4, 6):
                raise UsageError(message)
            half = len(box) // 2
            return float(box[0]), float(box[1]), float(box[half]), float(box[half + 1])
        places = [(float(x), float(y)) for x, y in _positions(document)]
    except (TypeError, ValueError, IndexError, KeyError, AttributeError):
        raise UsageError(message) from None
    if len(places) < 2:
        raise UsageError(message)
    longitudes = [x for x, _ in places]
    latitudes = [y for _, y in places]
    cut_in_two = min(longitudes) == -180 and max(longitudes) == 180
    if cut_in_two or max(longitudes) > 180:
        # Across the antimeridian: cut in two there, as RFC 7946 asks for, or drawn on beyond 180.
        longitudes = [x % 360 for x in longitudes]
    return _signed(min(longitudes)), min(latitudes), _signed(max(longitudes)), max(latitudes)


def _signed(longitude: float) -> float:
    return longitude - 360 if longitude > 180 else longitude


def _positions(node: Any) -> Iterator[tuple[float, float]]:
    """Every position in a GeoJSON object, however deep."""
    kind = node.get("type")
    if kind == "FeatureCollection":
        for feature in node["features"]:
            yield from _positions(feature)
    elif kind == "Feature":
        yield from _positions(node["geometry"])
    elif kind == "GeometryCollection":
        for geometry in node["geometries"]:
            yield from _positions(geometry)
    elif kind in ("Polygon", "MultiPolygon"):
        yield from _nested_positions(node["coordinates"])
    else:
        # Points are people more often than areas, and people's bounds are not public.
        raise TypeError(kind)


def _nested_positions(coordinates: Any) -> Iterator[tuple[float, float]]:
    if coordinates and isinstance(coordinates[0], int | float):
        yield coordinates[0], coordinates[1]
    else:
        for part in coordinates:
            yield from _nested_positions(part)
