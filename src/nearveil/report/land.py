"""Where land is: outlines for maps and for made-up people, without a drawing library.

The outlines are those of the US Census Bureau's cartographic boundary file of the states, 2016, 1:500,000, which is in
the public domain and cut at the shoreline. ``data/san_francisco_land.geojson`` is California clipped to a box 0.05
degree larger than the region on each side, simplified with a tolerance of 0.0003 degree (30 m) and rounded to 5
decimals. With geopandas::

    california = geopandas.read_file("cb_2016_us_state_500k.shp", bbox=(-122.65, 37.45, -122.15, 37.95))
    land = california.union_all().intersection(shapely.box(-122.65, 37.45, -122.15, 37.95)).simplify(0.0003)
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np

from nearveil.region import Region
from nearveil.types import FloatArray


def land_in(region: Region) -> list[FloatArray]:
    """Return the outlines of land as closed rings of (latitude, longitude) in degrees, which reach beyond the region.

    Empty unless the whole region is known.

    Examples
    --------
    >>> from nearveil.region import named_region
    >>> len(land_in(named_region("san-francisco"))) > 1, land_in(named_region("berlin"))
    (True, [])
    """
    west, south, east, north = _outlines()["bbox"]
    known = south <= region.south and region.north <= north and west <= region.west < region.east <= east
    if not known:
        return []
    # GeoJSON has longitude first.
    return [np.array(outer)[:, ::-1] for outer, *_ in _outlines()["geometry"]["coordinates"]]


@lru_cache(maxsize=1)
def _outlines() -> dict[str, Any]:
    path = resources.files("nearveil.report").joinpath("data", "san_francisco_land.geojson")
    outlines: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return outlines
