"""Region: a public box on the ground, and the way between degrees, meters and the square [-1, 1]²."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nearveil.errors import DataError, UsageError, without_context
from nearveil.geodesy import wrap_longitude
from nearveil.points import OUTSIDE, as_points, check_points, unusable
from nearveil.projection import exact_projection, fast_forward, fast_inverse
from nearveil.types import BoolArray, FloatArray

Scaling = Literal["isotropic", "per-axis"]

PUBLISHED_DECIMALS = 6
"""Published coordinates lie on a public grid of 1e-6 degree, 0.11 m."""

_EDGE_TOLERANCE_DEG = 1e-9
_MAX_RADIUS_M = 5_000_000.0
_LEAST_EXTENT_DEG = 0.001
# The Gaussian curvature of the WGS84 ellipsoid is largest on the equator, where it is that of a sphere with
# this radius (the polar semi-axis). Rauch's comparison theorem then bounds the projection's stretching.
_LEAST_CURVATURE_RADIUS_M = 6_356_752.3


@dataclass(frozen=True, slots=True)
class Region:
    """A public bounding box, chosen by the operator and never read off the data.

    Three coordinate systems meet here. *Degrees* are WGS84 (latitude, longitude). *Meters* are (x, y), east and
    north of the center, in a local azimuthal equidistant projection. The *square* is [-1, 1]²: meters divided by
    one length (``isotropic``, true discs) or each axis of degrees by its own (``per-axis``, as in the paper).

    Parameters
    ----------
    south, west, north, east : float
        Edges in degrees. ``west > east`` means that the box crosses the antimeridian.
    scaling : {"isotropic", "per-axis"}
        How the square is scaled.
    name : str, optional
        A name to print.

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
        edges = (self.south, self.west, self.north, self.east)
        if not all(abs(edge) <= limit for edge, limit in zip(edges, (90, 180, 90, 180), strict=True)):
            raise UsageError(
                "a region's edges must be numbers in degrees, in the order south, west, north, east: latitudes from "
                "-90 to 90 and longitudes from -180 to 180"
            )
        if self.south >= self.north or self.width_deg <= 0:
            raise UsageError(
                "the region has no area: south must be less than north and west must differ from east "
                "(the order is south, west, north, east)"
            )
        if min(self.height_deg, self.width_deg) < _LEAST_EXTENT_DEG:
            raise UsageError(
                "the region is smaller than about 100 m; choose a larger one, users are published within it"
            )
        if self.scaling not in ("isotropic", "per-axis"):
            raise UsageError("a region's scaling is either 'isotropic' or 'per-axis'")
        if self.width_deg > 180 or self.radius_m > _MAX_RADIUS_M:
            raise UsageError(
                "the region reaches farther than 5,000 km from its center, where one flat map bends distances too "
                "much; choose a smaller region (across the antimeridian, west is greater than east: 177 to -178)"
            )

    # -- shape -----------------------------------------------------------------------------------------------

    @property
    def is_whole_earth(self) -> bool:
        """Whether it is no box on a map, but contains every location."""
        return False

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
        return _shape(self.south, self.width_deg, self.north)[:2]

    @property
    def radius_m(self) -> float:
        """Distance from the center to the farthest point of the region."""
        return _shape(self.south, self.width_deg, self.north)[2]

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

    @property
    def largest_stretch(self) -> float:
        """Upper bound on meters in the projection per meter on the ground, for any two points of the region."""
        angle = self.radius_m / _LEAST_CURVATURE_RADIUS_M
        return angle / math.sin(angle)

    def same_edges(self, other: Region) -> bool:
        """Whether the other is the same box, whatever it is called and however it is scaled."""
        return replace(self, scaling="isotropic", name=None) == replace(other, scaling="isotropic", name=None)

    def with_scaling(self, scaling: Scaling) -> Region:
        """Return the same box with the other scaling of the square."""
        return replace(self, scaling=scaling)

    def __str__(self) -> str:
        box = ",".join(f"{edge:.9g}" for edge in (self.south, self.west, self.north, self.east))
        return f"{self.name} ({box})" if self.name else box

    # -- membership ------------------------------------------------------------------------------------------

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

    def check_place(self, place: tuple[float, float], name: str) -> FloatArray:
        """Return one location as an array of one row; raise if it is not inside the region. Errors call it ``name``."""
        array = as_points([place])
        for reason in unusable(array, self):
            what = f"{reason} {self}" if reason == OUTSIDE else reason
            raise UsageError(f"{name} is {what}; correct it: latitude first, then longitude, in degrees")
        return array

    @without_context()
    def clip(self, points: object) -> FloatArray:
        """Move points outside the region to its edge; refuse what is not on Earth."""
        return self.to_edge(check_points(as_points(points)))

    def to_edge(self, points: FloatArray) -> FloatArray:
        """Move locations outside the region to its edge; those inside stay exactly where they are."""
        half = np.array([self.width_deg, self.height_deg]) / 2
        at_edge = self._around_center(np.clip(self._from_center(points), -half, half))
        return np.where(self.contains(points)[:, None], points, at_edge)

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

    # -- degrees <-> meters ----------------------------------------------------------------------------------

    def to_metres(self, points: object) -> FloatArray:
        """Project (latitude, longitude) to meters (x, y) east and north of the center."""
        array, (latitude, longitude) = as_points(points), self.centre
        fast = fast_forward(latitude, self.height_deg / 2, self.width_deg / 2)
        offsets = np.column_stack([wrap_longitude(array[:, 1] - longitude), array[:, 0]])
        if fast is not None and fast.covers(offsets):
            return fast(offsets)
        return np.column_stack(exact_projection(latitude, longitude).transform(array[:, 1], array[:, 0]))

    def from_metres(self, xy: FloatArray) -> FloatArray:
        """Invert `to_metres`; points beyond the region's box of meters are moved to its edge first."""
        half, (latitude, longitude) = self.half_extent_m, self.centre
        inside = np.clip(xy, np.negative(half), half)
        fast = fast_inverse(latitude, *half)
        if fast is not None:
            offsets = fast(inside)
            return np.column_stack([offsets[:, 1], wrap_longitude(longitude + offsets[:, 0])])
        east, north = exact_projection(latitude, longitude).transform(inside[:, 0], inside[:, 1], direction="INVERSE")
        return np.column_stack([north, east])

    def location_to_metres(self, latitude: float, longitude: float) -> tuple[float, float]:
        """Project one location, quickly; the error of one outside the region names no coordinate."""
        (south_north, west_east), half_height, half_width = self.centre, self.height_deg / 2, self.width_deg / 2
        is_near = abs(latitude - south_north) <= half_height + _EDGE_TOLERANCE_DEG and abs(longitude) <= 360.0
        if not (is_near and abs(wrap_longitude(longitude - west_east)) <= half_width + _EDGE_TOLERANCE_DEG):
            raise DataError(f"the location is outside the region {self}")
        x_m, y_m = exact_projection(*self.centre).transform(float(longitude), float(latitude))
        return x_m, y_m

    # -- degrees <-> square ----------------------------------------------------------------------------------

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


class _WholeEarth(Region):
    """All locations: what is published without a region is checked and rounded by it. It has no flat map."""

    def __post_init__(self) -> None:
        """Skip the checks of a region that is drawn on a map."""

    def __str__(self) -> str:
        return str(self.name)

    @property
    def is_whole_earth(self) -> bool:
        """Whether it is no box on a map, but contains every location."""
        return True

    @property
    def half_extent_m(self) -> tuple[float, float]:
        """No flat map has one."""
        raise UsageError("this needs a region; give one, such as region='berlin', a box, or a GeoJSON file")

    @property
    def radius_m(self) -> float:
        """No flat map has one."""
        return self.half_extent_m[0]

    def contains(self, points: object) -> BoolArray:
        """Every location on Earth."""
        latitude, longitude = as_points(points).T
        return np.asarray((np.abs(latitude) <= 90.0) & (longitude >= -180.0) & (longitude <= 360.0))

    def publish(self, points: FloatArray) -> FloatArray:
        """Round points to the public grid."""
        rounded = np.rint(points * 10.0**PUBLISHED_DECIMALS) / 10.0**PUBLISHED_DECIMALS
        rounded[rounded[:, 1] >= 180.0, 1] -= 360.0
        return rounded

    def to_metres(self, points: object) -> FloatArray:
        """Refuse to project."""
        del points
        return np.array(self.half_extent_m)


WHOLE_EARTH: Region = _WholeEarth(-90.0, -180.0, 90.0, 180.0, name="the whole Earth")


@lru_cache(maxsize=64)
def _shape(south: float, width_deg: float, north: float) -> tuple[float, float, float]:
    """Half width, half height and radius in meters, from the projected outline (longitude does not matter)."""
    steps = np.linspace(-width_deg / 2, width_deg / 2, 65)
    # The equator is where a box that straddles it is widest.
    rise = np.append(np.linspace(south, north, 65), np.clip(0.0, south, north))
    longitude = np.concatenate([steps, steps, np.full(66, steps[0]), np.full(66, steps[-1])])
    latitude = np.concatenate([np.full(65, south), np.full(65, north), rise, rise])
    x, y = exact_projection((south + north) / 2, 0.0).transform(longitude, latitude)
    return float(np.abs(x).max()), float(np.abs(y).max()), float(np.hypot(x, y).max())


# From what an operator writes to a Region: a name, four numbers, or a GeoJSON file.


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
    if name not in NAMED_REGIONS:
        raise UsageError(
            f"there is no region named {name!r}; use one of {', '.join(NAMED_REGIONS)}, four numbers "
            "south,west,north,east, or a GeoJSON file"
        )
    return Region(*NAMED_REGIONS[name], scaling=scaling, name=name)


def parse_region(text: str, scaling: Scaling = "isotropic") -> Region:
    """Read a region from a name, ``"south,west,north,east"`` in degrees, or the path of a GeoJSON file.

    Examples
    --------
    >>> parse_region("37.5,-122.6,37.9,-122.2").north
    37.9
    """
    if text.endswith((".geojson", ".json")):
        west, south, east, north = _box_in_geojson(Path(text))
        return Region(south, west, north, east, scaling=scaling, name=Path(text).stem)
    if "," not in text:
        return named_region(text, scaling)
    try:
        south, west, north, east = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError("a region in numbers is south,west,north,east in degrees, four numbers") from None
    return Region(south, west, north, east, scaling=scaling)


def as_region(region: Region | str) -> Region:
    """Return a Region, reading it with `parse_region` if it is given as text."""
    return parse_region(region) if isinstance(region, str) else region


def region_around(points: FloatArray, margin: float = 0.05) -> Region:
    """Return a box around locations, for experiments and pictures alone: its edges tell where they are.

    Examples
    --------
    >>> region_around(np.array([[-17.0, 179.5], [-18.0, -179.5]])).west
    179.45
    """
    around = np.sort(points[:, 1])
    # The widest gap between neighbors, around the Earth, is outside.
    gaps = np.append(np.diff(around), around[0] + 360 - around[-1])
    first = int(np.argmax(gaps) + 1) % len(around)
    width = 360 - float(gaps.max())
    south, north = float(points[:, 0].min()), float(points[:, 0].max())
    aside, above = (max(margin * extent, 10 * _LEAST_EXTENT_DEG) for extent in (width, north - south))
    west = wrap_longitude(float(around[first]) - aside)
    east = wrap_longitude(west + width + 2 * aside)
    return Region(max(south - above, -90.0), west, min(north + above, 90.0), east)


def _box_in_geojson(path: Path) -> tuple[float, float, float, float]:
    """West, south, east, north of a GeoJSON file: its own bbox, else the box around its polygons."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if "bbox" in document:
            # RFC 7946: west, south[, height], east, north[, height]; west > east across the antimeridian.
            box = [float(edge) for edge in document["bbox"]]
            west, south, east, north = box if len(box) == 4 else (*box[:2], *box[3:5])
            return west, south, east, north
        longitudes, latitudes = np.array(list(_positions(document)), dtype=float).T
    except OSError as error:
        raise UsageError(f"the region file {path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        raise UsageError(
            f"the region file {path} is no GeoJSON with a polygon or a bbox; export the area as a GeoJSON polygon"
        ) from None
    if longitudes.max() > 180 or (longitudes.min() == -180 and longitudes.max() == 180):
        # Across the antimeridian: drawn on beyond 180, or cut in two there, as RFC 7946 asks for.
        longitudes %= 360
    west, east = (float(edge) - 360 * bool(edge > 180) for edge in (longitudes.min(), longitudes.max()))
    return west, float(latitudes.min()), east, float(latitudes.max())


def _positions(node: Any) -> Iterator[tuple[float, float]]:
    """Every corner of the polygons in a GeoJSON object, however deep; not points, as these may be users."""
    if isinstance(node, list) and node and not isinstance(node[0], list | dict):
        yield node[0], node[1]
    elif isinstance(node, list):
        for part in node:
            yield from _positions(part)
    elif node["type"] in ("Polygon", "MultiPolygon"):
        yield from _positions(node["coordinates"])
    else:
        children = {"FeatureCollection": "features", "Feature": "geometry", "GeometryCollection": "geometries"}
        yield from _positions(node[children[node["type"]]])
