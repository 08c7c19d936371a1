"""Region: a public box on the ground, and the way between degrees, metres and the square [-1, 1]²."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nearveil.errors import BadRowError, DataError, UsageError, without_context
from nearveil.geodesy import (
    Faults,
    GridBox,
    and_others,
    as_points,
    clamped,
    evaluate_at,
    exact_projection,
    fast_forward,
    fast_inverse,
    faults_of,
    offsets_from,
    on_grid,
    points_at,
    refuse_no_places,
    wrap_longitude,
)
from nearveil.kernels import brief_kernel
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

    Three coordinate systems meet here. *Degrees* are WGS84 (latitude, longitude). *Metres* are (x, y), east and
    north of the centre, in a local azimuthal equidistant projection. The *square* is [-1, 1]²: metres divided by
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
        if not all(math.isfinite(edge) for edge in edges):
            raise UsageError("a region's edges must be numbers in degrees: south, west, north, east")
        if not (-90 <= self.south <= 90 and -90 <= self.north <= 90):
            raise UsageError(
                "a region's south and north must lie between -90 and 90 degrees (the order is south, west, north, east)"
            )
        if not (-180 <= self.west <= 180 and -180 <= self.east <= 180):
            raise UsageError("a region's west and east must lie between -180 and 180 degrees")
        if self.south >= self.north or self.width_deg <= 0:
            raise UsageError(
                "the region has no area: south must be less than north and west must differ from east "
                "(the order is south, west, north, east)"
            )
        if min(self.height_deg, self.width_deg) < _LEAST_EXTENT_DEG:
            raise UsageError(
                "the region is smaller than about 100 m; choose a larger one, people are published within it"
            )
        if self.scaling not in ("isotropic", "per-axis"):
            raise UsageError("a region's scaling is either 'isotropic' or 'per-axis'")
        if self.width_deg > 180 or self.radius_m > _MAX_RADIUS_M:
            raise UsageError(
                "the region reaches farther than 5,000 km from its centre, where one flat map bends distances too "
                "much; choose a smaller region (across the antimeridian, west is greater than east: 177 to -178)"
            )

    # -- shape -----------------------------------------------------------------------------------------------

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
        """Latitude and longitude of the middle, the origin of metres."""
        longitude = self.west + self.width_deg / 2
        return (self.south + self.north) / 2, wrap_longitude(longitude)

    @property
    def half_extent_m(self) -> tuple[float, float]:
        """Half width and half height of the box of metres that holds the whole region."""
        return _shape(self.south, self.width_deg, self.north)[:2]

    @property
    def radius_m(self) -> float:
        """Distance from the centre to the farthest point of the region."""
        return _shape(self.south, self.width_deg, self.north)[2]

    @property
    def half_extent_square(self) -> tuple[float, float]:
        """Half width and half height of the region in the square."""
        if self.scaling == "per-axis":
            return 1.0, 1.0
        half_width, half_height = self.half_extent_m
        longest = max(half_width, half_height)
        return half_width / longest, half_height / longest

    @property
    def metres_per_unit(self) -> float:
        """Metres on the ground for one unit of the square (per-axis: of its longer axis)."""
        return max(self.half_extent_m)

    @property
    def largest_stretch(self) -> float:
        """Upper bound on metres in the projection per meter on the ground, for any two points of the region."""
        angle = self.radius_m / _LEAST_CURVATURE_RADIUS_M
        return angle / math.sin(angle)

    def same_edges(self, other: Region) -> bool:
        """Whether the other is the same box, whatever it is called and however it is scaled."""
        own, others = ((box.south, box.west, box.north, box.east) for box in (self, other))
        return own == others

    def with_scaling(self, scaling: Scaling) -> Region:
        """Return the same box with the other scaling of the square."""
        return replace(self, scaling=scaling)

    def __str__(self) -> str:
        box = ",".join(f"{edge:.9g}" for edge in (self.south, self.west, self.north, self.east))
        return f"{self.name} ({box})" if self.name else box

    # -- membership ------------------------------------------------------------------------------------------

    def contains(self, points: object) -> BoolArray:
        """Whether each (latitude, longitude) lies in the region, edges included."""
        latitude, offset = self._from_centre(as_points(points))
        inside: BoolArray = (np.abs(latitude) <= self.height_deg / 2 + _EDGE_TOLERANCE_DEG) & (
            np.abs(offset) <= self.width_deg / 2 + _EDGE_TOLERANCE_DEG
        )
        return inside

    def faults(self, points: FloatArray) -> Faults:
        """Count what keeps points from being places inside the region."""
        half_extent = (self.height_deg / 2 + _EDGE_TOLERANCE_DEG, self.width_deg / 2 + _EDGE_TOLERANCE_DEG)
        faults = faults_of(points, self.centre, half_extent)
        return faults._replace(known_regions=self._others_with(points)) if faults.outside else faults

    def _others_with(self, points: FloatArray) -> frozenset[str]:
        """Names of the built-in regions that hold all points which this one does not."""
        places = points[(np.abs(points) <= (90.0, 180.0)).all(axis=1)]
        outside = places[~self.contains(places)]
        return frozenset(name for name in NAMED_REGIONS if named_region(name).contains(outside).all())

    def refuse(self, faults: Faults, *, clip: bool = False) -> None:
        """Raise if points have faults; being outside is none if they are to be clipped.

        The error names the first row (counted from 1) and no coordinate.
        """
        refuse_no_places(faults, self.centre, self._exchanged() if faults.exchangeable == faults.rows else "")
        if faults.outside and not clip:
            # Where nobody is inside, the region is the wrong one. It is named to the operator, and never taken.
            fitting = sorted(faults.known_regions) if faults.outside == faults.rows else []
            hint = f" such as region={fitting[0]}" if fitting else " with region="
            error = DataError if faults.outside == faults.rows else BadRowError
            raise error(
                f"row {faults.first_outside + 1} lies outside the region {self}{and_others(faults.outside)}; "
                f"choose a region that holds everybody{hint}, or move them to its edge (clip=True)"
            )

    def _exchanged(self) -> str:
        """Say that the region's numbers may be exchanged, and not the people's; a name and a file have the order."""
        if self.name is not None:
            return ""
        meant = ",".join(f"{edge:.9g}" for edge in (self.west, self.south, self.east, self.north))
        return (
            f"either the region {self} has latitude and longitude exchanged (the order is south,west,north,east; "
            f"perhaps region={meant} is meant), or "
        )

    @without_context()
    def check(self, points: object) -> FloatArray:
        """Return the points as an array; raise if one is not a place inside the region."""
        return self._checked(points, clip=False)

    def check_place(self, place: tuple[float, float], name: str, *, chosen: bool) -> FloatArray:
        """Return one place as an array of one row; raise if it is not inside the region.

        The error calls it by ``name``, such as ``truth=``, and names another region if the region was ``chosen``.
        """
        array = as_points([place])
        faults = self.faults(array)
        if faults.exchangeable:
            raise UsageError(f"{name} has latitude and longitude exchanged; give the latitude first")
        if faults.no_places:
            raise UsageError(f"{name} is no place on earth; give latitude and longitude in degrees")
        if faults.outside:
            fitting = f"such as region={min(faults.known_regions)}" if faults.known_regions else "with region="
            way_out = f"choose a region that holds it, {fitting}" if chosen else "correct it"
            raise UsageError(f"{name} lies outside the region {self}; {way_out}")
        return array

    @without_context()
    def clip(self, points: object) -> FloatArray:
        """Move points outside the region to its edge; refuse what is not a place."""
        return self.to_edge(self._checked(points, clip=True))

    def to_edge(self, points: FloatArray) -> FloatArray:
        """Move places outside the region to its edge."""
        latitude = np.clip(points[:, 0], self.south, self.north)
        _, offset = self._from_centre(points)
        half = self.width_deg / 2
        longitude = wrap_longitude(self.centre[1] + np.clip(offset, -half, half))
        # Points inside stay exactly where they are.
        clipped: FloatArray = np.where(self.contains(points)[:, None], points, np.column_stack([latitude, longitude]))
        return clipped

    def publish(self, points: FloatArray) -> FloatArray:
        """Clamp points to the region and round them to the public grid: the last step of every release."""
        return on_grid(points, self._published_grid)

    @property
    def _published_grid(self) -> GridBox:
        # The last grid lines inside the region, so that rounding cannot leave it.
        scale, longitude, half = 10.0**PUBLISHED_DECIMALS, self.centre[1], self.width_deg / 2
        return GridBox(
            longitude,
            scale,
            south=float(math.ceil(self.south * scale)),
            north=float(math.floor(self.north * scale)),
            west=float(math.ceil((longitude - half) * scale)),
            east=float(math.floor((longitude + half) * scale)),
        )

    def _checked(self, points: object, *, clip: bool) -> FloatArray:
        array = as_points(points)
        if len(array) == 0:
            raise DataError("there are no points; give at least one row")
        self.refuse(self.faults(array), clip=clip)
        return array

    def _from_centre(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        latitude, longitude = self.centre
        return points[:, 0] - latitude, wrap_longitude(points[:, 1] - longitude)

    # -- degrees <-> metres ----------------------------------------------------------------------------------

    def to_metres(self, points: object) -> FloatArray:
        """Project (latitude, longitude) to metres (x, y) east and north of the centre."""
        array = as_points(points)
        fast = fast_forward(self.centre[0], self.height_deg / 2, self.width_deg / 2)
        if fast is not None:
            offsets = offsets_from(self.centre[1], array)
            if fast.covers(offsets):
                return fast(offsets)
        x, y = exact_projection(*self.centre).transform(array[:, 1], array[:, 0])
        return np.column_stack([x, y])

    def from_metres(self, xy: FloatArray) -> FloatArray:
        """Invert `to_metres`; points beyond the region's box of metres are moved to its edge first."""
        half_width, half_height = self.half_extent_m
        inside = clamped(xy, half_width, half_height)
        fast = fast_inverse(self.centre[0], half_width, half_height)
        if fast is not None:
            return points_at(self.centre[1], fast(inside))
        longitude, latitude = exact_projection(*self.centre).transform(inside[:, 0], inside[:, 1], direction="INVERSE")
        return np.column_stack([latitude, longitude])

    # -- degrees <-> square ----------------------------------------------------------------------------------

    def to_square(self, points: object) -> FloatArray:
        """Map (latitude, longitude) of the region to (x, y) in [-1, 1]²."""
        if self.scaling == "isotropic":
            xy = self.to_metres(points) / self.metres_per_unit
        else:
            latitude, offset = self._from_centre(as_points(points))
            xy = np.column_stack([offset / (self.width_deg / 2), latitude / (self.height_deg / 2)])
        return clamped(xy, *self.half_extent_square)

    def from_square(self, xy: FloatArray) -> FloatArray:
        """Invert `to_square`; points beyond the region are moved to its edge."""
        if self.scaling == "isotropic":
            return self.from_metres(xy * self.metres_per_unit)
        latitude, longitude = self.centre
        clipped = np.clip(xy, -1.0, 1.0)
        return np.column_stack(
            [
                latitude + clipped[:, 1] * (self.height_deg / 2),
                wrap_longitude(longitude + clipped[:, 0] * (self.width_deg / 2)),
            ]
        )


class _WholeEarth(Region):
    """All locations: what is published without a region is checked and rounded by it. It has no flat map."""

    def __post_init__(self) -> None:
        """Skip the checks of a region that is drawn on a map."""

    def __str__(self) -> str:
        return str(self.name)

    @property
    def half_extent_m(self) -> tuple[float, float]:
        """No flat map has one."""
        raise UsageError("this needs a region; give one, such as region='berlin', a box, or a GeoJSON file")

    @property
    def radius_m(self) -> float:
        """No flat map has one."""
        return self.half_extent_m[0]

    def faults(self, points: FloatArray) -> Faults:
        """Count faults; that coordinates were exchanged is no more than possible where all locations are inside."""
        return super().faults(points)._replace(exchangeable=0)

    def to_metres(self, points: object) -> FloatArray:
        """Refuse to project."""
        del points
        return np.array(self.half_extent_m)

    def from_metres(self, xy: FloatArray) -> FloatArray:
        """Refuse to project."""
        return self.to_metres(xy)


WHOLE_EARTH: Region = _WholeEarth(-90.0, -180.0, 90.0, 180.0, name="the whole Earth")


class PointProjection:
    """`Region.to_metres` for one place, which must lie in the region.

    Examples
    --------
    >>> x_m, y_m = PointProjection(named_region("san-francisco"))(37.77, -122.42)
    >>> round(x_m), round(y_m)
    (-1762, 7770)
    """

    def __init__(self, region: Region) -> None:
        self._region = region
        latitude, longitude = region.centre
        self._box = np.array([latitude, longitude, region.height_deg / 2, region.width_deg / 2])
        fast = fast_forward(latitude, region.height_deg / 2, region.width_deg / 2)
        # Without a polynomial the kernel checks the place, and PROJ projects it.
        self._exact = exact_projection(latitude, longitude) if fast is None else None
        self._coefficients = np.zeros((2, 1, 1)) if fast is None else fast.coefficients

    def __call__(self, latitude: float, longitude: float) -> tuple[float, float]:
        """Return metres east and north of the centre; the error of a place outside the region names no coordinate."""
        x_m, y_m = _project(float(latitude), float(longitude), self._box, self._coefficients)
        if math.isnan(x_m):
            raise DataError(f"the place lies outside the service's region {self._region}")
        if self._exact is not None:
            x_m, y_m = self._exact.transform(float(longitude), float(latitude))
        return x_m, y_m


@brief_kernel
def _project(latitude: float, longitude: float, box: FloatArray, coefficients: FloatArray) -> tuple[float, float]:
    """Metres, or not a number for what is not a place in the box."""
    north, east = latitude - box[0], (longitude - box[1] + 180.0) % 360.0 - 180.0
    # Written so that it is also false for what is not a number.
    inside = (
        abs(longitude) <= 180.0
        and abs(north) <= box[2] + _EDGE_TOLERANCE_DEG
        and abs(east) <= box[3] + _EDGE_TOLERANCE_DEG
    )
    if not inside:
        return math.nan, math.nan
    x_m, y_m = evaluate_at(east / box[3], north / box[2], coefficients)
    return x_m, y_m


@lru_cache(maxsize=64)
def _shape(south: float, width_deg: float, north: float) -> tuple[float, float, float]:
    """Half width, half height and radius in metres, from the projected outline (longitude does not matter)."""
    steps = np.linspace(-width_deg / 2, width_deg / 2, 65)
    rise = np.linspace(south, north, 65)
    # The equator is where a box that straddles it is widest.
    rise = np.append(rise, np.clip(0.0, south, north))
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
    try:
        return Region(*NAMED_REGIONS[name], scaling=scaling, name=name)
    except KeyError:
        meant = _meant(name)
        raise UsageError(
            f"there is no region named {name!r}; "
            + (f"did you mean {meant}? Otherwise use" if meant else "use")
            + f" one of {', '.join(sorted(NAMED_REGIONS))}, four numbers south,west,north,east, or a GeoJSON file"
        ) from None


_SHORT_NAMES = {"sf": "san-francisco", "nyc": "new-york", "ny": "new-york"}


def _meant(name: str) -> str | None:
    """Return the built-in region whose name is nearly this one."""
    written = re.sub(r"[\s_]+", "-", name.strip().lower())
    close = get_close_matches(written, NAMED_REGIONS, n=1, cutoff=0.7)
    return _SHORT_NAMES.get(written) or (close[0] if close else None)


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


def metres(text: str, option: str) -> float:
    """Read a length: ``500m``, ``0.5km`` or plain metres.

    Examples
    --------
    >>> metres("0.5km", "--noise")
    500.0
    """
    match = re.fullmatch(r"\s*([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*(m|km)?\s*", text)
    try:
        number = float(match[1]) if match else None
    except ValueError:
        number = None
    if match is None or number is None or not 0 < number < 1e9:
        raise UsageError(f"{option} takes a length greater than 0 such as 500m or 0.5km")
    return number * (1000.0 if match[2] == "km" else 1.0)


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
