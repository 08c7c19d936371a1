"""Latitude and longitude: checks, metres on the ground, and conversions for millions of points."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np
import pyproj
import pyproj.exceptions
from numpy.polynomial import chebyshev

from nearveil.errors import BadRowError, DataError, UsageError
from nearveil.kernels import kernel
from nearveil.types import FloatArray


def as_points(points: object) -> FloatArray:
    """Return points as an (n, 2) array of latitude and longitude, or say why that is not possible.

    A frame of pandas, GeoPandas, Polars or Arrow has them in its columns or geometries.
    """
    if hasattr(points, "columns"):
        from nearveil.io.frames import points_in_frame  # noqa: PLC0415 - for frames only

        return points_in_frame(points)
    try:
        array = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("points must be numbers: one row per person, latitude and longitude in degrees") from None
    if array.ndim != 2 or array.shape[1] != 2:
        raise DataError(f"points must have two columns, latitude and longitude; got an array of shape {array.shape}")
    return array


# No angle is written with such numbers, and hardly any map in metres has smaller ones.
_MORE_THAN_DEGREES = 1000.0


class Faults(NamedTuple):
    """How many points are wrong in which way, and the first of each (-1 where there is none)."""

    not_finite: int = 0
    first_not_finite: int = -1
    off_range: int = 0
    first_off_range: int = -1
    outside: int = 0
    first_outside: int = -1
    exchangeable: int = 0
    """Of those off range or outside, how many lie inside with their two numbers exchanged."""
    off_latitude: bool = False
    """Whether it is the latitude of the first point off range that is wrong."""
    like_metres: int = 0
    """Of those off range, how many have numbers as metres have them."""
    rows: int = 0
    """How many points were looked at."""
    known_regions: frozenset[str] = frozenset()
    """Names of the built-in regions that hold all of those outside."""

    @property
    def no_places(self) -> int:
        """Number of points that are not places on earth."""
        return self.not_finite + self.off_range

    def followed_by(self, later: Faults, rows_before: int) -> Faults:
        """Return the faults of these rows and of later ones, of which ``rows_before`` come before the first."""

        def first(own: int, other: int) -> int:
            return own if own >= 0 or other < 0 else rows_before + other

        return Faults(
            self.not_finite + later.not_finite,
            first(self.first_not_finite, later.first_not_finite),
            self.off_range + later.off_range,
            first(self.first_off_range, later.first_off_range),
            self.outside + later.outside,
            first(self.first_outside, later.first_outside),
            self.exchangeable + later.exchangeable,
            self.off_latitude if self.off_range else later.off_latitude,
            self.like_metres + later.like_metres,
            self.rows + later.rows,
            self.known_regions & later.known_regions
            if self.outside and later.outside
            else self.known_regions | later.known_regions,
        )


def faults_of(points: FloatArray, centre: tuple[float, float], half_extent: tuple[float, float]) -> Faults:
    """Count the faults of points against a box: its centre and half its height and width, in degrees."""
    return Faults(*count_faults(points, *centre, *half_extent))._replace(rows=len(points))


@kernel
def count_faults(
    points: FloatArray, latitude: float, longitude: float, half_height: float, half_width: float
) -> tuple[int, int, int, int, int, int, int, bool, int]:
    """Count the faults of `Faults`, in its order, against a box around (latitude, longitude)."""
    not_finite = off_range = outside = exchangeable = like_metres = 0
    first_not_finite = first_off_range = first_outside = -1
    off_latitude = False
    for i in range(len(points)):
        phi, lam = points[i, 0], points[i, 1]
        # Almost all points are inside and need no further check.
        near = abs(phi - latitude) <= half_height and abs(lam - longitude) <= half_width
        if near and abs(phi) <= 90.0 and abs(lam) <= 180.0:
            continue
        if not (math.isfinite(phi) and math.isfinite(lam)):
            not_finite += 1
            if not_finite == 1:
                first_not_finite = i
            continue
        if abs(phi) > 90.0 or abs(lam) > 180.0:
            off_range += 1
            like_metres += abs(phi) > _MORE_THAN_DEGREES or abs(lam) > _MORE_THAN_DEGREES
            if off_range == 1:
                first_off_range = i
                off_latitude = abs(phi) > 90.0
        elif _is_inside(phi, lam, latitude, longitude, half_height, half_width):
            continue
        else:
            outside += 1
            if outside == 1:
                first_outside = i
        if abs(lam) <= 90.0 and abs(phi) <= 180.0:
            exchangeable += _is_inside(lam, phi, latitude, longitude, half_height, half_width)
    return (
        not_finite,
        first_not_finite,
        off_range,
        first_off_range,
        outside,
        first_outside,
        exchangeable,
        off_latitude,
        like_metres,
    )


@kernel
def _is_inside(
    phi: float, lam: float, latitude: float, longitude: float, half_height: float, half_width: float
) -> bool:
    return abs(phi - latitude) <= half_height and abs((lam - longitude + 180.0) % 360.0 - 180.0) <= half_width


def refuse_no_places(faults: Faults, near: tuple[float, float], either: str = "") -> None:
    """Raise if some point is not a place on earth, or the columns were exchanged.

    ``near`` is the latitude and longitude of a public place nearby, for a hint at the map that metres may be of.
    ``either`` is what may be exchanged instead of the columns, to be said first.
    """
    if faults.not_finite:
        raise BadRowError(
            f"row {faults.first_not_finite + 1} has a missing or infinite coordinate{and_others(faults.not_finite)}; "
            "remove or complete such rows"
        )
    suspicious = faults.off_range + faults.outside
    if suspicious and faults.exchangeable == suspicious:
        row = min(first for first in (faults.first_off_range, faults.first_outside) if first >= 0)
        raise DataError(
            f"{either}row {row + 1} has latitude and longitude exchanged{and_others(suspicious)}; name the right "
            "columns with latitude= and longitude=, in one column write POINT (longitude latitude), and in GeoJSON "
            "[longitude, latitude]"
        )
    if faults.off_range and faults.like_metres == faults.off_range:
        raise DataError(
            f"row {faults.first_off_range + 1} has coordinates that look like metres{and_others(faults.off_range)}; "
            f"say in which reference system with crs=, such as EPSG:{utm_number(*near)} (UTM) or EPSG:3857 (web maps)"
        )
    if faults.off_range:
        column, limit = ("latitude", 90) if faults.off_latitude else ("longitude", 180)
        raise BadRowError(
            f"row {faults.first_off_range + 1}: the {column} is not between -{limit} and {limit} degrees"
            f"{and_others(faults.off_range)}; correct the row"
            + (", or name the columns with latitude= and longitude= if they are exchanged" * faults.off_latitude)
        )


def and_others(count: int) -> str:
    """Say how many more rows share a fault, if any."""
    return "" if count <= 1 else " (and 1 more row)" if count == 2 else f" (and {count - 1:,} more rows)"


_Degrees = TypeVar("_Degrees", float, FloatArray)


def wrap_longitude(longitude: _Degrees) -> _Degrees:
    """Bring longitudes, or differences of them, into [-180, 180)."""
    return (longitude + 180.0) % 360.0 - 180.0


# Other coordinate reference systems: latitude and longitude of WGS84 from their numbers, and back.


PROJECTED_DECIMALS = 2
"""Published coordinates of a projected system are rounded to a hundredth of its unit."""


def utm_number(latitude: float, longitude: float) -> int:
    """Return the EPSG number of the UTM zone of a place.

    Examples
    --------
    >>> utm_number(52.5, 13.4)
    32633
    """
    zone = min(int((longitude + 180.0) // 6.0) + 1, 60)
    return (32600 if latitude >= 0 else 32700) + zone


@lru_cache(maxsize=16)
def reference_system(name: str) -> pyproj.CRS:
    """Return a coordinate reference system for points on the ground, such as ``EPSG:25833``."""
    try:
        crs = pyproj.CRS.from_user_input(name)
    except (pyproj.exceptions.CRSError, TypeError, ValueError):
        raise UsageError(
            f"the reference system {name!r} is not known; give an EPSG number, such as EPSG:25833"
        ) from None
    if not (crs.is_projected or crs.is_geographic):
        raise UsageError(f"the reference system {name!r} is not one of places on a map; give one that is")
    return crs


@lru_cache(maxsize=16)
def _to_wgs84(name: str) -> pyproj.Transformer:
    return pyproj.Transformer.from_crs(reference_system(name), "OGC:CRS84", always_xy=True)


def degrees_from(crs: str, points: FloatArray) -> FloatArray:
    """Return latitude and longitude of rows of (y, x) in another system; infinite where there are none.

    Examples
    --------
    >>> degrees_from("EPSG:25833", np.array([[5_820_000.0, 390_000.0]])).round(3).tolist()
    [[52.519, 13.379]]
    """
    longitude, latitude = _to_wgs84(crs).transform(points[:, 1], points[:, 0])
    return np.column_stack([latitude, longitude])


def degrees_to(crs: str, points: FloatArray) -> FloatArray:
    """Return rows of (y, x) in another system for published latitudes and longitudes, rounded."""
    x, y = _to_wgs84(crs).transform(points[:, 1], points[:, 0], direction="INVERSE")
    decimals = 6 if reference_system(crs).is_geographic else PROJECTED_DECIMALS
    return np.column_stack([y, x]).round(decimals)


# Degrees to metres and back around a centre: PROJ's azimuthal equidistant projection, and a fast copy of it.
#
# PROJ solves a geodesic for every point, which takes most of the time of protecting millions of people. Over a region
# the projection is so smooth that a polynomial follows it: fitted to PROJ once, checked against PROJ on other points,
# and used only if it is nowhere off by more than a tenth of a millimetre.


_TOLERANCE_M = 1e-4
_TOLERANCE_DEG = 1e-9
_DEGREES = (6, 8, 10, 13, 16)
# Points that go through the polynomial side by side, so that one instruction serves several of them.
_LANES = 128


@lru_cache(maxsize=64)
def exact_projection(latitude: float, longitude: float) -> pyproj.Transformer:
    """Return PROJ's projection: longitude, latitude to metres east and north of the centre."""
    local = pyproj.CRS.from_dict(
        {"proj": "aeqd", "lat_0": latitude, "lon_0": longitude, "ellps": "WGS84", "units": "m"}
    )
    geographic = pyproj.CRS.from_dict({"proj": "longlat", "ellps": "WGS84"})
    return pyproj.Transformer.from_crs(geographic, local, always_xy=True)


@dataclass(frozen=True, slots=True, eq=False)
class FastMap:
    """A polynomial in two variables for each of two outputs, on a box."""

    middle: FloatArray
    half: FloatArray
    coefficients: FloatArray

    def covers(self, points: FloatArray) -> bool:
        """Whether all points lie in the box the polynomial was fitted on."""
        return bool(_covers(points, self.middle, self.half * (1 + 1e-9)))

    def __call__(self, points: FloatArray) -> FloatArray:
        """Evaluate both outputs at every row."""
        values: FloatArray = _evaluate(np.ascontiguousarray(points), self.middle, self.half, self.coefficients)
        return values


@lru_cache(maxsize=64)
def fast_forward(centre_latitude: float, half_height_deg: float, half_width_deg: float) -> FastMap | None:
    """Fit (degrees east of the centre, latitude) to metres; None where no polynomial is good enough."""
    transformer = exact_projection(centre_latitude, 0.0)

    def project(points: FloatArray) -> FloatArray:
        return np.column_stack(transformer.transform(points[:, 0], points[:, 1]))

    return _fit(project, (0.0, centre_latitude), (half_width_deg, half_height_deg), _TOLERANCE_M)


@lru_cache(maxsize=64)
def fast_inverse(centre_latitude: float, half_width_m: float, half_height_m: float) -> FastMap | None:
    """Fit metres to (degrees east of the centre, latitude); None where no polynomial is good enough."""
    transformer = exact_projection(centre_latitude, 0.0)

    def unproject(points: FloatArray) -> FloatArray:
        return np.column_stack(transformer.transform(points[:, 0], points[:, 1], direction="INVERSE"))

    return _fit(unproject, (0.0, 0.0), (half_width_m, half_height_m), _TOLERANCE_DEG)


def _fit(function: object, middle: tuple[float, float], half: tuple[float, float], tolerance: float) -> FastMap | None:
    """Interpolate at Chebyshev points with growing degree until points in between agree."""
    centre, extent = np.array(middle), np.array(half)
    steps = np.linspace(-1, 1, 41)
    check = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    wanted = function(centre + extent * check)  # type: ignore[operator]
    for degree in _DEGREES:
        nodes = chebyshev.chebpts1(degree + 1)
        grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
        values = function(centre + extent * grid)  # type: ignore[operator]
        basis = chebyshev.chebvander2d(grid[:, 0], grid[:, 1], [degree, degree])
        coefficients = np.linalg.solve(basis, values).T.reshape(2, degree + 1, degree + 1)
        fitted = FastMap(centre, extent, np.ascontiguousarray(coefficients))
        if np.abs(fitted(centre + extent * check) - wanted).max() < tolerance / 2:
            return fitted
    return None


@kernel
def _evaluate(points: FloatArray, middle: FloatArray, half: FloatArray, coefficients: FloatArray) -> FloatArray:
    size, count = coefficients.shape[1], len(points)
    out = np.empty((count, 2))
    first, second = np.ones((size, _LANES)), np.ones((size, _LANES))
    x, y = np.empty(_LANES), np.empty(_LANES)
    inner_x, inner_y = np.empty(_LANES), np.empty(_LANES)
    for start in range(0, count, _LANES):
        lanes = min(_LANES, count - start)
        for lane in range(lanes):
            first[1, lane] = np.divide(points[start + lane, 0] - middle[0], half[0])
            second[1, lane] = np.divide(points[start + lane, 1] - middle[1], half[1])
        for n in range(2, size):
            for lane in range(lanes):
                first[n, lane] = 2.0 * first[1, lane] * first[n - 1, lane] - first[n - 2, lane]
                second[n, lane] = 2.0 * second[1, lane] * second[n - 1, lane] - second[n - 2, lane]
        x[:], y[:] = 0.0, 0.0
        for i in range(size):
            inner_x[:], inner_y[:] = 0.0, 0.0
            for j in range(size):
                of_x, of_y = coefficients[0, i, j], coefficients[1, i, j]
                for lane in range(lanes):
                    inner_x[lane] += of_x * second[j, lane]
                    inner_y[lane] += of_y * second[j, lane]
            for lane in range(lanes):
                x[lane] += inner_x[lane] * first[i, lane]
                y[lane] += inner_y[lane] * first[i, lane]
        for lane in range(lanes):
            out[start + lane, 0], out[start + lane, 1] = x[lane], y[lane]
    return out


@kernel
def _covers(points: FloatArray, middle: FloatArray, reach: FloatArray) -> bool:
    outside = 0
    for i in range(len(points)):
        # Comparisons with NaN are false.
        east = abs(points[i, 0] - middle[0]) <= reach[0]
        north = abs(points[i, 1] - middle[1]) <= reach[1]
        outside += 1 - (east & north)
    return outside == 0


@kernel
def evaluate_at(first: float, second: float, coefficients: FloatArray) -> tuple[float, float]:
    """Evaluate both outputs at one point of the square [-1, 1]², by Clenshaw's recurrence and without arrays."""
    x = x_before = y = y_before = 0.0
    for i in range(coefficients.shape[1] - 1, -1, -1):
        inner_x = inner_x_before = inner_y = inner_y_before = 0.0
        for j in range(coefficients.shape[2] - 1, 0, -1):
            inner_x, inner_x_before = coefficients[0, i, j] + 2.0 * second * inner_x - inner_x_before, inner_x
            inner_y, inner_y_before = coefficients[1, i, j] + 2.0 * second * inner_y - inner_y_before, inner_y
        row_x = coefficients[0, i, 0] + second * inner_x - inner_x_before
        row_y = coefficients[1, i, 0] + second * inner_y - inner_y_before
        # The last step, that of the constant term, counts the argument once instead of twice.
        twice = 2.0 if i > 0 else 1.0
        x, x_before = row_x + twice * first * x - x_before, x
        y, y_before = row_y + twice * first * y - y_before, y
    return x, y


# Degrees around a centre, for millions of points: offsets from it, clamping, and the public grid.


class GridBox(NamedTuple):
    """A box of a public grid: the centre's longitude, grid lines per degree, and the outermost lines of the box."""

    centre_longitude: float
    lines_per_degree: float
    south: float
    north: float
    west: float
    east: float


def offsets_from(longitude: float, points: FloatArray) -> FloatArray:
    """Return degrees east of a longitude, and latitude, of points of latitude and longitude."""
    offsets: FloatArray = _offsets(longitude, points)
    return offsets


def points_at(longitude: float, offsets: FloatArray) -> FloatArray:
    """Invert `offsets_from`."""
    points: FloatArray = _points(longitude, offsets)
    return points


def clamped(xy: FloatArray, half_width: float, half_height: float) -> FloatArray:
    """Move points beyond a box around the origin to its edge."""
    inside: FloatArray = _clamped(xy, half_width, half_height)
    return inside


def on_grid(points: FloatArray, box: GridBox) -> FloatArray:
    """Round points to the grid, within the box."""
    rounded: FloatArray = _on_grid(points, *box)
    return rounded


@kernel
def _wrapped(longitude: float) -> float:
    turned = longitude + 180.0
    # The remainder is slow and changes nothing for almost all points.
    if turned < 0.0 or turned >= 360.0:
        turned = turned % 360.0
    return turned - 180.0


@kernel
def _offsets(longitude: float, points: FloatArray) -> FloatArray:
    out = np.empty((len(points), 2))
    for i in range(len(points)):
        out[i, 0] = _wrapped(points[i, 1] - longitude)
        out[i, 1] = points[i, 0]
    return out


@kernel
def _points(longitude: float, offsets: FloatArray) -> FloatArray:
    out = np.empty((len(offsets), 2))
    for i in range(len(offsets)):
        out[i, 0] = offsets[i, 1]
        out[i, 1] = _wrapped(offsets[i, 0] + longitude)
    return out


@kernel
def _clamped(xy: FloatArray, half_width: float, half_height: float) -> FloatArray:
    out = np.empty((len(xy), 2))
    for i in range(len(xy)):
        out[i, 0] = min(max(xy[i, 0], -half_width), half_width)
        out[i, 1] = min(max(xy[i, 1], -half_height), half_height)
    return out


@kernel
def _on_grid(
    points: FloatArray, longitude: float, scale: float, south: float, north: float, west: float, east: float
) -> FloatArray:
    out = np.empty((len(points), 2))
    for i in range(len(points)):
        out[i, 0] = np.divide(min(max(np.rint(points[i, 0] * scale), south), north), scale)
        line = np.rint((longitude + _wrapped(points[i, 1] - longitude)) * scale)
        out[i, 1] = np.divide(np.rint(_wrapped(np.divide(min(max(line, west), east), scale)) * scale), scale)
    return out
