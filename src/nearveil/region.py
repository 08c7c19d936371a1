"""Region: a public box on the ground, and the way between degrees, meters and the square [-1, 1]²."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nearveil.errors import DataError, UsageError, without_context
from nearveil.geodesy import wrap_longitude
from nearveil.points import as_points, check_points
from nearveil.projection import exact_projection, fast_forward, fast_inverse
from nearveil.types import BoolArray, FloatArray

Scaling = Literal["isotropic", "per-axis"]

PUBLISHED_DECIMALS = 6
"""Published coordinates lie on a public grid of 1e-6 degree, 0.11 m."""

_EDGE_TOLERANCE_DEG = 1e-9
_MAX_RADIUS_M = 5_000_000.0
_LEAST_EXTENT_DEG = 0.001
_NO_MAP = "this needs a region; give one, such as region='berlin', a box, or a GeoJSON file"


@dataclass(frozen=True)
class Region:
    """A public bounding box, chosen by the operator and never read off the data.

    Its edges are WGS84 *degrees*; ``west > east`` means that it crosses the antimeridian. *Meters* are (x, y), east and
    north of the center, in a local azimuthal equidistant projection. The *square* is [-1, 1]²: meters divided by one
    length (the ``scaling`` "isotropic", true discs) or each axis of degrees by its own ("per-axis", as in the paper).

    Examples
    --------
    >>> region = Region(37.5, -122.6, 37.9, -122.2)
    >>> region.to_metres([[37.8, -122.3]]).round(0).tolist()
    [[8807.0, 11104.0]]
    >>> fiji = Region(-21.0, 176.0, -12.0, -178.0)
    >>> round(fiji.width_deg, 6)
    6.0
    """

    south: float
    west: float
    north: float
    east: float
    scaling: Scaling = "isotropic"
    name: str | None = None

    def __post_init__(self) -> None:
        edges = zip((self.south, self.west, self.north, self.east), (90, 180, 90, 180), strict=True)
        is_on_earth = all(abs(edge) <= limit for edge, limit in edges)
        if not is_on_earth or min(self.height_deg, self.width_deg) < _LEAST_EXTENT_DEG:
            raise UsageError(
                "the region has no area on Earth; give south, west, north, east in degrees: latitudes from -90 to 90, "
                "the second greater, and longitudes from -180 to 180, each pair at least 0.001 apart, about 100 m"
            )
        if self.scaling not in ("isotropic", "per-axis"):
            raise UsageError("a region's scaling is either 'isotropic' or 'per-axis'")
        if not self.is_whole_earth and (self.width_deg > 180 or self.radius_m > _MAX_RADIUS_M):
            raise UsageError(
                "the region reaches farther than 5,000 km from its center, where one flat map bends distances too "
                "much; choose a smaller region (across the antimeridian, west is greater than east: 177 to -178)"
            )

    @property
    def is_whole_earth(self) -> bool:
        """Whether it contains every location: it has no map in meters, and what is published is only rounded."""
        return self.width_deg == 360.0 and self.height_deg == 180.0

    @property
    def width_deg(self) -> float:
        """Extent in longitude."""
        width = self.east - self.west
        return width if width >= 0 else width + 360.0

    @property
    def height_deg(self) -> float:
        """Extent in latitude."""
        return self.north - self.south

    @property
    def centre(self) -> tuple[float, float]:
        """Latitude and longitude of the middle, the origin of meters."""
        return (self.south + self.north) / 2, wrap_longitude(self.west + self.width_deg / 2)

    @property
    def half_extent_m(self) -> tuple[float, float]:
        """Half width and half height of the box of meters that holds the whole region."""
        return self._shape[:2]

    @property
    def radius_m(self) -> float:
        """Distance from the center to the farthest point of the region."""
        return self._shape[2]

    @cached_property
    def _shape(self) -> tuple[float, float, float]:
        """Half width, half height and radius in meters, from the projected outline."""
        if self.is_whole_earth:
            raise UsageError(_NO_MAP)
        steps = np.linspace(-self.width_deg / 2, self.width_deg / 2, 65)
        # The equator is where a box that straddles it is widest.
        rise = np.append(np.linspace(self.south, self.north, 65), np.clip(0.0, self.south, self.north))
        longitude = np.concatenate([steps, steps, np.full(66, steps[0]), np.full(66, steps[-1])])
        latitude = np.concatenate([np.full(65, self.south), np.full(65, self.north), rise, rise])
        x, y = exact_projection(self.centre[0], 0.0).transform(longitude, latitude)
        return float(np.abs(x).max()), float(np.abs(y).max()), float(np.hypot(x, y).max())

    @property
    def half_extent_square(self) -> tuple[float, float]:
        """Half width and half height of the region in the square."""
        if self.scaling == "per-axis":
            return 1.0, 1.0
        half_width, half_height = self.half_extent_m
        return half_width / self.metres_per_unit, half_height / self.metres_per_unit

    @property
    def metres_per_unit(self) -> float:
        """Meters on the ground for one unit of the square (per-axis: of its longer axis)."""
        return max(self.half_extent_m)

    def same_edges(self, other: Region) -> bool:
        """Whether the other is the same box, whatever it is called and however it is scaled."""
        return replace(self, scaling="isotropic", name=None) == replace(other, scaling="isotropic", name=None)

    def with_scaling(self, scaling: Scaling) -> Region:
        """Return the same box with the other scaling of the square."""
        return replace(self, scaling=scaling)

    def __str__(self) -> str:
        box = ",".join(f"{edge:.9g}" for edge in (self.south, self.west, self.north, self.east))
        return f"{self.name} ({box})" if self.name else box

    def contains(self, points: object) -> BoolArray:
        """Whether each (latitude, longitude) lies in the region, edges included."""
        latitude, longitude = as_points(points).T
        half_height, half_width = (extent / 2 + _EDGE_TOLERANCE_DEG for extent in (self.height_deg, self.width_deg))
        east = np.abs(longitude - self.centre[1])
        # Longitudes up to 360 may be once around the Earth; quicker than a remainder.
        around = (east <= half_width) | (np.abs(east - 360.0) <= half_width)
        return np.asarray(around & (np.abs(latitude - self.centre[0]) <= half_height))

    @without_context()
    def check(self, points: object) -> FloatArray:
        """Return the points as an array; raise if one is not a location inside the region."""
        array = as_points(points)
        if len(array) == 0:
            raise DataError("there are no points; give at least one row")
        return check_points(array, self)

    def clip(self, points: object) -> FloatArray:
        """Move locations outside the region to its edge; those inside stay exactly where they are."""
        array, half = as_points(points), np.array([self.width_deg, self.height_deg]) / 2
        at_edge = self._around_center(np.clip(self._from_center(array), -half, half))
        return np.where(self.contains(array)[:, None], array, at_edge)

    def publish(self, points: FloatArray) -> FloatArray:
        """Clamp points to the region and round them to the public grid: the last step of every release."""
        # To the last grid lines inside the region, so that rounding cannot leave it.
        scale, center, half = 10.0**PUBLISHED_DECIMALS, self.centre[1], self.width_deg / 2
        latitude = np.clip(np.rint(points[:, 0] * scale), math.ceil(self.south * scale), math.floor(self.north * scale))
        lines = np.rint((center + wrap_longitude(points[:, 1] - center)) * scale)
        lines = np.clip(lines, math.ceil((center - half) * scale), math.floor((center + half) * scale))
        return np.column_stack([latitude / scale, np.rint(wrap_longitude(lines / scale) * scale) / scale])

    def _from_center(self, points: FloatArray) -> FloatArray:
        """Degrees east and north of the center."""
        latitude, longitude = self.centre
        return np.column_stack([wrap_longitude(points[:, 1] - longitude), points[:, 0] - latitude])

    def _around_center(self, offsets: FloatArray) -> FloatArray:
        latitude, longitude = self.centre
        return np.column_stack([latitude + offsets[:, 1], wrap_longitude(longitude + offsets[:, 0])])

    def to_metres(self, points: object) -> FloatArray:
        """Project (latitude, longitude) to meters (x, y) east and north of the center."""
        if self.is_whole_earth:
            raise UsageError(_NO_MAP)
        array, (latitude, longitude) = as_points(points), self.centre
        offsets = np.column_stack([wrap_longitude(array[:, 1] - longitude), array[:, 0]])
        return fast_forward(latitude, self.height_deg / 2, self.width_deg / 2)(offsets)

    def from_metres(self, xy: FloatArray) -> FloatArray:
        """Invert `to_metres`; points beyond the region's box of meters are moved to its edge first."""
        half, (latitude, longitude) = self.half_extent_m, self.centre
        offsets = fast_inverse(latitude, *half)(np.clip(xy, np.negative(half), half))
        return np.column_stack([offsets[:, 1], wrap_longitude(longitude + offsets[:, 0])])

    def to_square(self, points: object) -> FloatArray:
        """Map (latitude, longitude) of the region to (x, y) in [-1, 1]²."""
        if self.scaling == "isotropic":
            xy = self.to_metres(points) / self.metres_per_unit
        else:
            xy = self._from_center(as_points(points)) / (self.width_deg / 2, self.height_deg / 2)
        half = self.half_extent_square
        return np.clip(xy, np.negative(half), half)

    def from_square(self, xy: FloatArray) -> FloatArray:
        """Invert `to_square`; points beyond the region are moved to its edge."""
        if self.scaling == "isotropic":
            return self.from_metres(xy * self.metres_per_unit)
        return self._around_center(np.clip(xy, -1.0, 1.0) * (self.width_deg / 2, self.height_deg / 2))


WHOLE_EARTH = Region(-90.0, -180.0, 90.0, 180.0, name="the whole Earth")
"""Where mechanisms that need no map publish."""


# From what an operator writes to a Region: a name, four numbers, or a GeoJSON file. San Francisco's box is the paper's.

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
"""Public boxes: south, west, north, east."""


def named_region(name: str) -> Region:
    """Return a region that Nearveil knows by name."""
    if name not in NAMED_REGIONS:
        raise UsageError(
            f"there is no region named {name!r}; use one of {', '.join(NAMED_REGIONS)}, four numbers "
            "south,west,north,east, or a GeoJSON file"
        )
    return Region(*NAMED_REGIONS[name], name=name)


def as_region(region: Region | str) -> Region:
    """Return a region, read from text: a name, ``"south,west,north,east"`` in degrees, or the path of a GeoJSON file.

    Examples
    --------
    >>> as_region("37.5,-122.6,37.9,-122.2").north
    37.9
    """
    if isinstance(region, Region):
        return region
    if region.endswith((".geojson", ".json")):
        return _region_in_geojson(Path(region))
    if "," not in region:
        return named_region(region)
    try:
        south, west, north, east = map(float, region.split(","))
    except ValueError:
        raise UsageError("a region in numbers is south,west,north,east in degrees, four numbers") from None
    return Region(south, west, north, east)


def region_around(points: FloatArray, margin: float = 0.05) -> Region:
    """Return a box around locations, for experiments and pictures alone: its edges tell where they are."""
    south, west, north, east = _box_around(points)
    aside, above = (max(margin * extent, 10 * _LEAST_EXTENT_DEG) for extent in ((east - west) % 360, north - south))
    west, east = wrap_longitude(west - aside), wrap_longitude(east + aside)
    return Region(max(south - above, -90.0), west, min(north + above, 90.0), east)


def _box_around(points: FloatArray) -> tuple[float, float, float, float]:
    """South, west, north, east: the widest gap between longitudes, around the Earth, is outside."""
    around = np.sort(wrap_longitude(points[:, 1]))
    first = int(np.argmax(np.diff(around, prepend=around[-1] - 360)))
    return float(points[:, 0].min()), float(around[first]), float(points[:, 0].max()), float(around[first - 1])


def _region_in_geojson(path: Path) -> Region:
    """Return the region of a GeoJSON file: its own bbox, else the box around the corners of its polygons."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if "bbox" in document:
            # RFC 7946: west, south[, height], east, north[, height]; west > east across the antimeridian.
            box = [float(edge) for edge in document["bbox"]]
            west, south, east, north = box if len(box) == 4 else (*box[:2], *box[3:5])
        else:
            south, west, north, east = _box_around(np.array(list(_corners(document)), dtype=np.float64)[:, ::-1])
    except OSError as error:
        raise UsageError(f"the region file {path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        raise UsageError(
            f"the region file {path} is no GeoJSON with a polygon or a bbox; export the area as a GeoJSON polygon"
        ) from None
    return Region(south, west, north, east, name=path.stem)


def _corners(shape: dict[str, Any]) -> Iterator[tuple[float, float]]:
    """Longitude and latitude of every corner of polygons; not points, as these may be users."""
    kind = shape["type"]
    for part in shape.get("features", [shape["geometry"]] if kind == "Feature" else []):
        yield from _corners(part)
    if kind in ("Polygon", "MultiPolygon"):
        for polygon in shape["coordinates"] if kind == "MultiPolygon" else [shape["coordinates"]]:
            yield from ((corner[0], corner[1]) for ring in polygon for corner in ring)
