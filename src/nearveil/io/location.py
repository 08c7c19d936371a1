"""Where a file or a frame has its locations, and how it writes them: found, read as degrees, and written the same way.

Works on NumPy arrays, so that frames of pandas and Polars need neither pyarrow nor shapely.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from nearveil.errors import DataError, UsageError
from nearveil.points import check_points
from nearveil.region import Region
from nearveil.types import FloatArray

Values = npt.NDArray[Any]
"""Values of a column: numbers, or objects of Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Which columns of a file or a frame are what.

    ``latitude`` and ``longitude`` are the coordinate columns where they are not called as usual (with ``crs``, northing
    and easting), ``location`` is one that holds both: WKT, WKB, GeoJSON or "latitude, longitude". ``crs`` is their
    reference system, such as EPSG:25833; WGS84 degrees if not given. Of a text file, ``columns`` are the names of all
    columns where there is no header line, ``delimiter`` is detected, and ``encoding`` UTF-8, if not given.
    """

    latitude: str | None = None
    longitude: str | None = None
    location: str | None = None
    columns: tuple[str, ...] = ()
    crs: str | None = None
    delimiter: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(map(str, self.columns)))
        if (self.latitude is None) != (self.longitude is None):
            raise UsageError("name both coordinate columns, with latitude= and longitude=")
        if self.location is not None and self.latitude is not None:
            raise UsageError("location= names the column that holds both coordinates; leave out latitude=")
        mark = {"tab": "\t", "space": " ", "\\t": "\t"}.get(self.delimiter or "", self.delimiter)
        if mark is not None and (len(mark) != 1 or mark in '"\r\n.-+' or not mark.isascii() or mark.isalnum()):
            raise UsageError("delimiter= takes one character such as ; or |, or the word tab")
        object.__setattr__(self, "delimiter", mark)
        if self.crs is not None:
            epsg_name(self.crs)


class Style(StrEnum):
    """How locations are written; the value is what an error asks for."""

    NUMBERS = "degrees as decimal numbers, with a minus sign instead of S or W"
    PAIR = "latitude, longitude"
    WKT = "POINT (longitude latitude)"
    HEX = "points in well-known binary, in hexadecimal digits"
    WKB = "points in well-known binary"
    OBJECT = "GeoJSON points"


# The words of a column's name, without accents. The first pair that a file has counts.
_PAIRS = (
    ("latitude lat latitud breitengrad latdeg", "longitude lon lng long longitud langengrad laengengrad londeg lngdeg"),
    ("breite", "lange laenge"),
    (
        "y northing north ycoord ycoordinate hochwert utmnorthing utmy",
        "x easting east xcoord xcoordinate rechtswert utmeasting utmx",
    ),
)
_BOTH = (
    "location loc latlon latlng latlong point position pos coordinates coords coordinate geometry geom thegeom wkt "
    "ewkt wkb ewkb geo gps place geojson standort ubicacion"
)
_WITH_IDS = ("", "u", "user", "username", "email", "member", "customer", "account", "device", "person")


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """How a file or a frame writes locations down."""

    columns: tuple[str, ...]
    """Latitude and longitude (or northing and easting), or one column that holds both."""
    style: Style = Style.NUMBERS
    crs: str | None = None
    """Their reference system, as EPSG:number; WGS84 degrees if not given."""
    srid: int | None = None
    """The EPSG number that each value states (EWKT, EWKB)."""
    decimal_comma: bool = False
    is_geometry: bool = False
    """Whether the column is the geometry of a format that has one."""

    def decode(self, values: Sequence[Values]) -> FloatArray:
        """Return latitude and longitude in WGS84 degrees of the values of the columns; NaN where none can be read."""
        if self.style is Style.NUMBERS:
            points = np.column_stack([numbers(column, decimal_comma=self.decimal_comma) for column in values])
        else:
            points, stated = _decode(self.style, values[0])
            points[(stated > 0) & (stated != (self.srid or 4326))] = np.nan
        if self.crs is not None:
            from nearveil.geodesy import degrees_from, reference_system  # noqa: PLC0415 - loads pyproj

            if reference_system(self.crs).is_projected and (np.abs(points) <= (90, 360)).all():
                raise DataError("the coordinates look like degrees, and not like those of crs=; leave it out")
            points = degrees_from(self.crs, points)
        else:
            # Some count longitudes from 0 to 360.
            beyond = (points[:, 1] > 180) & (points[:, 1] <= 360)
            points[beyond, 1] -= 360
        points[~np.isfinite(points).all(axis=1)] = np.nan
        return points

    def encode(self, points: FloatArray) -> list[Values]:
        """Return published locations as this file or frame writes them, a value for each of its columns."""
        rounded = self.numbers_of(points)
        if self.style is Style.NUMBERS:
            return [*np.ascontiguousarray(rounded.T)]
        return [_encode(self.style, rounded, self.srid)]

    def numbers_of(self, points: FloatArray) -> FloatArray:
        """Return rows of (y, x) in the own reference system, rounded to 6 decimals of a degree or 2 of a meter."""
        if self.crs is None:
            return points.round(6)
        from nearveil.geodesy import degrees_to  # noqa: PLC0415 - loads pyproj

        return degrees_to(self.crs, points)

    def check(self, points: FloatArray, region: Region | None = None, *, rows_before: int = 0) -> None:
        """Raise for the first row that has no location on Earth, or none in the region, with its number."""
        unread = np.isnan(points).any(axis=1)
        if unread.any():
            raise self._bad_row(rows_before + int(np.argmax(unread)) + 1)
        check_points(points, region, rows_before=rows_before)

    def _bad_row(self, row: int) -> DataError:
        if self.style is not Style.NUMBERS:
            return DataError(f"row {row}: {self.columns[0]!r} holds no point that can be read; give {self.style}")
        latitude, longitude = self.columns
        wanted = self.style if self.crs is None else f"numbers of {self.crs}, with a decimal point"
        return DataError(
            f"row {row}: {latitude!r} or {longitude!r} is empty or not a number that can be read, or the row has more "
            f"or fewer values than there are columns; give {wanted}"
        )


def find_location(
    names: Sequence[str],
    read: ReadOptions | None = None,
    values: Callable[[str], Values] = lambda _name: objects([]),
    geometry: Location | None = None,
) -> Location:
    """Find the location's columns: those that are named, else by their usual names and first values.

    ``values`` gives the first values of a column; ``geometry`` is what the format itself says.
    """
    read = read or ReadOptions()
    crs = None if read.crs is None else epsg_name(read.crs)
    if read.latitude is not None and read.longitude is not None:
        pair = tuple(only_column(names, name) for name in (read.latitude, read.longitude))
        return _numbers_in(pair, crs, values)
    if read.location is not None:
        name = only_column(names, read.location)
        found = geometry if geometry and name == geometry.columns[0] else location_in_column(name, crs, values)
        if found is None:
            raise DataError(
                f"column {name!r} holds no points that can be read; give POINT (longitude latitude), well-known "
                "binary, GeoJSON points or 'latitude, longitude'"
            )
        return found
    pairs = _usual_pairs(names, projected=crs is not None)
    both = [geometry] if geometry else []
    own = [name for name in names if not (geometry and name in geometry.columns)]
    for name in filter(lambda name: not geometry and looks_like_names([name]), own):
        # Without coordinate columns it may have any name, unless it is two numbers, which may be anything.
        if (has_usual_name := set(_words(name)) & set(_BOTH.split())) or not pairs:
            found = location_in_column(name, crs, values)
            if found is not None and (has_usual_name or found.style is not Style.PAIR):
                both.append(found)
    candidates = [*(location.columns for location in both), *pairs]
    if len(candidates) > 1:
        listed = [" and ".join(map(repr, columns)) for columns in candidates]
        raise DataError(
            f"several columns hold locations: {'; '.join(listed[:4])}; name one with location=, or two with latitude= "
            "and longitude="
        )
    if not candidates:
        raise DataError(
            f"there is no location; {_listed(names)}; name two with latitude= and longitude=, or one that holds both "
            "with location="
        )
    return both[0] if both else _numbers_in(pairs[0], crs, values)


def location_in_column(name: str, crs: str | None, values: Callable[[str], Values]) -> Location | None:
    """Return how a column holds whole locations, if most of its first values are some."""
    filled = objects([value for value in values(name) if not (value is None or value == "")])
    for style in (Style.PAIR, Style.OBJECT, Style.WKT, Style.HEX, Style.WKB) if len(filled) else ():
        if style not in (Style.PAIR, Style.OBJECT) and find_spec("shapely") is None:
            continue
        points, stated = _decode(style, filled)
        if 2 * np.isfinite(points).all(axis=1).sum() > len(filled):
            srid = int(stated.max()) or None
            own = None if srid in (None, 4326) else epsg_name(f"EPSG:{srid}")
            return Location(columns=(name,), style=style, crs=crs if srid is None else own, srid=srid)
    return None


def _numbers_in(pair: tuple[str, ...], crs: str | None, values: Callable[[str], Values]) -> Location:
    texts = [v for name in pair for v in values(name) if isinstance(v, str)]
    # A comma before three digits of meters may as well separate thousands.
    with_comma = r"\s*[-+]?\d{1,3},\d+\s*°?\s*" if crs is None else r"\s*[-+]?\d+,(\d{1,2}|\d{4,})\s*"
    decimal_comma = any(re.fullmatch(with_comma, text) for text in texts)
    return Location(columns=pair, crs=crs, decimal_comma=decimal_comma)


def _usual_pairs(names: Sequence[str], *, projected: bool) -> list[tuple[str, ...]]:
    """Return pairs of columns whose names differ in latitude and longitude only; one without further words is first."""
    for usual in reversed(_PAIRS) if projected else _PAIRS:
        found: dict[tuple[str, ...], tuple[list[str], list[str]]] = {}
        for name in names:
            words = _words(name)
            for axis, known in enumerate(usual):
                if hits := {word for word in words if word in known.split()}:
                    rest = tuple(word for word in words if word not in hits)
                    found.setdefault(rest, ([], []))[axis].append(name)
        pairs = {rest: pair for rest, pair in found.items() if all(pair)}
        for same in (same for pair in pairs.values() for same in pair if len(same) > 1):
            raise DataError(
                f"several columns could be the same coordinate: {', '.join(map(repr, same))}; name them with latitude= "
                "and longitude="
            )
        if pairs:
            chosen = [pairs[()]] if () in pairs else pairs.values()
            return [(latitude[0], longitude[0]) for latitude, longitude in chosen]
    return []


def id_columns(names: Sequence[str]) -> list[str]:
    """Return the columns that are called like the id of a user."""
    return [name for name in names if (word := "".join(_words(name))) and word.removesuffix("id") in _WITH_IDS]


def only_column(names: Sequence[str], name: str) -> str:
    """Return a name that exactly one column has, or say why that is not so."""
    count = list(names).count(name)
    if count > 1:
        raise DataError(f"there are {count} columns named {name!r}; rename all but one")
    if count == 0:
        raise DataError(f"there is no column {name!r}; {_listed(names)}")
    return name


def looks_like_names(names: Sequence[str]) -> bool:
    """Whether all can only be names of columns: none may be a location, a number, a geohash or an address."""
    return not any(
        re.match(r"[-+.\d]", name.strip())
        or re.search(r"\d{4}|\d[^\d.,]+\d|\d[.,]\d\d|°|point\s*z?m?\s*\(", name, re.I)
        for name in names
    )


def epsg_name(crs: str) -> str | None:
    """Return a reference system as EPSG:number, or None for WGS84 degrees.

    One without a number may be centered on a user, and would be published with the file.
    """
    from nearveil.geodesy import reference_system  # noqa: PLC0415 - loads pyproj

    authority, code = reference_system(crs).to_authority() or ("", "")
    if (authority, code) in {("OGC", "CRS84"), ("EPSG", "4326")}:
        return None
    if authority != "EPSG":
        raise DataError(
            "the reference system has no EPSG number; reproject the file to EPSG:4326, or name one with crs="
        )
    return f"EPSG:{code}"


def _listed(names: Sequence[str]) -> str:
    if not looks_like_names(names):
        return "the first line seems to hold data; name its columns, such as columns=id,latitude,longitude"
    return f"the columns are {', '.join(map(repr, names[:12]))}{', …' if len(names) > 12 else ''}"


def _words(name: str) -> list[str]:
    """Return the words of a name in lower case and without accents: homeLat, home_lat and Home Lat have two."""
    parted = re.sub(r"([^\W\d_A-Z])(?=[A-Z])", r"\1 ", unicodedata.normalize("NFC", name))
    plain = "".join(one for one in unicodedata.normalize("NFKD", parted.casefold()) if not unicodedata.combining(one))
    return re.findall(r"[a-z0-9]+", plain)


# Values.


def objects(values: Sequence[Any]) -> Values:
    """Return values as an array of one dimension, whatever they are."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def numbers(values: Values, *, decimal_comma: bool = False) -> FloatArray:
    """Return values as numbers; NaN where there is none. A decimal comma may be read, and a degree sign left out."""
    if values.dtype != object:
        return values.astype(np.float64) if values.dtype.kind in "iuf" else np.full(len(values), np.nan)

    def number(value: Any) -> float:
        if isinstance(value, bool) or value is None:
            return np.nan
        if isinstance(value, str):
            value = value.strip(" °")
            value = value.replace(",", ".") if decimal_comma else value
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            return np.nan

    return np.fromiter(map(number, values), np.float64, len(values))


_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_PAIR = re.compile(rf"\s*[(\[]?\s*({_NUMBER})(?:\s*[,;]\s*|\s+)({_NUMBER})\s*[)\]]?\s*")
_SRID = re.compile(r"\s*SRID\s*=\s*(\d+)\s*;", re.IGNORECASE)


def _decode(style: Style, values: Values) -> tuple[FloatArray, FloatArray]:
    """Return rows of (y, x), and the EPSG number that each states (0 where it does not)."""
    stated = np.zeros(len(values))
    if style in (Style.PAIR, Style.OBJECT):
        read = _from_pair if style is Style.PAIR else _from_object
        return np.array([read(value) for value in values], dtype=np.float64).reshape(-1, 2), stated
    import shapely  # noqa: PLC0415 - frames without geometries do without

    kind = bytes if style is Style.WKB else str
    typed = objects([value if isinstance(value, kind) else None for value in values])
    if style is Style.WKT:
        typed[:] = [value if value is not None and "(" in value else None for value in typed]
        for row, value in enumerate(typed):
            if value is not None and (found := _SRID.match(value)):
                typed[row], stated[row] = value[found.end() :], int(found[1])
        shapes = shapely.from_wkt(typed, on_invalid="ignore")
    else:
        if style is Style.HEX:
            typed[:] = [None if value is None else value.strip().removeprefix("\\x") for value in typed]
        shapes = shapely.from_wkb(typed, on_invalid="ignore")
        stated = np.maximum(shapely.get_srid(shapes), 0).astype(np.float64)
    return np.column_stack([shapely.get_y(shapes), shapely.get_x(shapes)]), stated


_NOWHERE = (np.nan, np.nan)


def _from_pair(value: Any) -> tuple[float, float]:
    found = _PAIR.fullmatch(value) if isinstance(value, str) else None
    return _NOWHERE if found is None else (float(found[1]), float(found[2]))


def _from_object(value: Any) -> tuple[float, float]:
    """Return the (y, x) of a point of GeoJSON."""
    try:
        x, y = value["coordinates"][:2] if value["type"] == "Point" else _NOWHERE
        return _NOWHERE if isinstance(x, bool | str) or isinstance(y, bool | str) else (float(y), float(x))
    except (TypeError, KeyError, ValueError, IndexError, OverflowError):
        return _NOWHERE


def _encode(style: Style, points: FloatArray, srid: int | None) -> Values:
    """Return rows of (y, x) as points."""
    written: list[Any]
    if style is Style.PAIR:
        written = [f"{y}, {x}" for y, x in points.tolist()]
    elif style is Style.WKT:
        before = "" if srid is None else f"SRID={srid};"
        written = [f"{before}POINT ({x} {y})" for y, x in points.tolist()]
    elif style is Style.OBJECT:
        written = [{"type": "Point", "coordinates": [x, y]} for y, x in points.tolist()]
    else:
        import shapely  # noqa: PLC0415 - frames without geometries do without

        shapes = shapely.points(points[:, ::-1])
        shapes = shapes if srid is None else shapely.set_srid(shapes, srid)
        binary: Values = shapely.to_wkb(shapes, hex=style is Style.HEX, include_srid=srid is not None)
        return binary
    return objects(written)
