"""Where land is: outlines for maps and for synthetic users, without a drawing library.

San Francisco is from the US Census Bureau's cartographic boundary file of the states, 2016, 1:500,000, which is in the
public domain and cut at the shoreline. ``data/san_francisco_land.geojson`` is California clipped to a box 0.05
degree larger than the region on each side, simplified with a tolerance of 0.0003 degree (30 m) and rounded to 5
decimals. With geopandas::

    california = geopandas.read_file("cb_2016_us_state_500k.shp", bbox=(-122.65, 37.45, -122.15, 37.95))
    land = california.union_all().intersection(shapely.box(-122.65, 37.45, -122.15, 37.95)).simplify(0.0003)

The rest of the world is from Natural Earth 4.1, 1:10 million, in the public domain, by npm's world-atlas 2.0.2.
``deploy/world_land.py`` makes ``data/world_land.xz`` of it. It is coarse: small islands and harbors are missing,
shores are off by some hundred meters and more, and lakes and rivers are land.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np
import shapely

from nearveil.region import Region
from nearveil.types import FloatArray

# The grid of the file of the world, in degrees: its corner, and its steps to the east and to the north.
_CORNER = np.array([-180.0, -85.22193775799991])
_STEP = np.array([0.0036000360003600037, 0.0016885772698826986])
_BEYOND_DEG = 0.05


def land_in(region: Region) -> list[FloatArray]:
    """Return the outlines of land as closed rings of (latitude, longitude) in degrees, which reach beyond the region.

    Empty where there is only water. Beyond the antimeridian longitudes go on, to more than 180 or less than -180.

    Examples
    --------
    >>> from nearveil.region import named_region
    >>> len(land_in(named_region("san-francisco"))) > 1, len(land_in(named_region("berlin")))
    (True, 1)
    """
    west, south, east, north = _san_francisco()["bbox"]
    known = south <= region.south and region.north <= north and west <= region.west < region.east <= east
    if not known:
        return _land_of_world(region)
    # GeoJSON has longitude first.
    return [np.array(outer)[:, ::-1] for outer, *_ in _san_francisco()["geometry"]["coordinates"]]


@lru_cache(maxsize=1)
def _san_francisco() -> Any:
    path = resources.files("nearveil.report").joinpath("data", "san_francisco_land.geojson")
    return json.loads(path.read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def _world() -> tuple[list[FloatArray], FloatArray, FloatArray]:
    """Return all rings, longitude first and not closed, and the lowest and the highest corner of the box of each."""
    packed = resources.files("nearveil.report").joinpath("data", "world_land.xz").read_bytes()
    numbers = np.frombuffer(lzma.decompress(packed), dtype="<i4")
    count = int(numbers[0])
    ends = np.cumsum(numbers[1 : count + 1])[:-1]
    steps = numbers[count + 1 :].reshape(2, -1).T
    rings = [_CORNER + _STEP * np.cumsum(part, axis=0) for part in np.split(steps, ends)]
    return rings, np.array([ring.min(axis=0) for ring in rings]), np.array([ring.max(axis=0) for ring in rings])


def _land_of_world(region: Region) -> list[FloatArray]:
    """Clip what is near the region to a box around it, and cut holes out."""
    rings, lowest, highest = _world()
    beyond = max(_BEYOND_DEG, 0.1 * region.height_deg, 0.1 * region.width_deg)
    east = region.east if region.west < region.east else region.east + 360
    low = np.array([region.west, region.south]) - beyond
    high = np.array([east, region.north]) + beyond
    land: list[shapely.Geometry] = []
    holes: list[shapely.Geometry] = []
    # A box may reach beyond the edges of the map, where the map begins again.
    for turn in (-360.0, 0.0, 360.0):
        shift = np.array([turn, 0.0])
        near = (highest + shift > low).all(axis=1) & (lowest + shift < high).all(axis=1)
        for number in np.flatnonzero(near):
            ring = rings[number] + shift
            clipped = shapely.make_valid(shapely.Polygon(ring)).intersection(shapely.box(*low, *high))
            (land if shapely.is_ccw(shapely.LinearRing(ring)) else holes).append(clipped)
    shape = shapely.union_all(land) - shapely.union_all(holes)
    return [shapely.get_coordinates(part)[:, ::-1] for part in _without_holes(shape)]


def _without_holes(shape: shapely.Geometry) -> Iterator[shapely.Geometry]:
    """Cut polygons through their holes until none is left."""
    for polygon in (part for part in shapely.get_parts(shape) if part.area > 0):
        if polygon.interiors:
            cut, (west, south, east, north) = polygon.interiors[0].centroid.x, polygon.bounds
            for left, right in ((west, cut), (cut, east)):
                yield from _without_holes(shapely.clip_by_rect(polygon, left, south, right, north))
        else:
            yield polygon


def rings_of(shape: shapely.Geometry) -> list[FloatArray]:
    """Return the outlines of a shape as closed rings, its holes turning the other way."""
    polygons = shapely.get_parts(shapely.normalize(shape))
    return [shapely.get_coordinates(ring) for ring in shapely.get_rings(polygons[shapely.area(polygons) > 0])]
