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
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np

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
def _san_francisco() -> dict[str, Any]:
    path = resources.files("nearveil.report").joinpath("data", "san_francisco_land.geojson")
    outlines: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return outlines


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
    land: list[FloatArray] = []
    holes: list[FloatArray] = []
    # A box may reach beyond the edges of the map, where the map begins anew.
    for turn in (-360.0, 0.0, 360.0):
        shift = np.array([turn, 0.0])
        near = (highest + shift > low).all(axis=1) & (lowest + shift < high).all(axis=1)
        for number in np.flatnonzero(near):
            ring = _clipped(rings[number] + shift, low, high)
            if len(ring):
                (land if _area(rings[number]) >= 0 else holes).append(ring)
    for hole in holes:
        # The land that is around it is what it is cut out of: nothing else is as large.
        largest = max(range(len(land)), key=lambda number: _area(land[number]))
        land[largest] = _cut_out(land[largest], hole)
    return [np.vstack([ring, ring[:1]])[:, ::-1] for ring in land]


def _clipped(ring: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the part of a ring inside a box (Sutherland and Hodgman): at each edge of the box, what is beyond goes."""
    for axis, limit, sign in ((0, low[0], 1), (0, high[0], -1), (1, low[1], 1), (1, high[1], -1)):
        if not len(ring):
            break
        inside = sign * (ring[:, axis] - limit) >= 0
        following = np.roll(ring, -1, axis=0)
        crosses = inside != np.roll(inside, -1)
        step = following - ring
        with np.errstate(divide="ignore", invalid="ignore"):
            at_edge = ring + ((limit - ring[:, axis]) / step[:, axis])[:, None] * step
        ring = np.stack([ring, at_edge], axis=1)[np.column_stack([inside, crosses])]
    return ring


def _area(ring: FloatArray) -> float:
    x, y = (ring - ring[:1]).T
    return float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y)) / 2


def _cut_out(ring: FloatArray, hole: FloatArray) -> FloatArray:
    """Return a ring that goes once around the hole as well, by the shortest way between two corners."""
    apart = np.hypot(*(ring[:, None] - hole).transpose(2, 0, 1))
    here, there = np.unravel_index(np.argmin(apart), apart.shape)
    around = np.roll(hole, -int(there), axis=0)
    return np.vstack([ring[: here + 1], around, around[:1], ring[here:]])
