"""Which columns hold the location, and which give it away besides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from nearveil.errors import DataError

_LATITUDE = {"latitude", "lat", "latitudedeg", "latdeg", "ylat"}
_LONGITUDE = {"longitude", "lon", "lng", "long", "longitudedeg", "londeg", "lngdeg", "xlon"}
_EXACT_GEOMETRY = {
    "geometry",
    "geom",
    "thegeom",
    "wkt",
    "wkb",
    "geojson",
    "coordinates",
    "coords",
    "bbox",
    "latlon",
    "latlng",
}

# Words in a column's name that speak of where someone is.
_REVEALING_WORDS = frozenset(
    """
    address addr street road house housenumber building apartment postcode postalcode postal zip zipcode plz
    geohash h3 s2 quadkey pluscode olc what3words w3w mgrs utm tile cell easting northing altitude elevation
    lat latitude lon lng longitude latlon latlng latlong lonlat gps position pos coord coords coordinate coordinates
    point geom geometry wkt geo center centre bbox location loc locationid place placeid venue venueid poi checkin spot
    city town village suburb district neighbourhood neighborhood borough county region
    ip ipaddress ssid bssid wifi cellid tower
    """.split()  # noqa: SIM905 - a list of a hundred strings is harder to read
)
_REVEALING_PAIRS = {("post", "code"), ("postal", "code"), ("zip", "code"), ("plus", "code"), ("geo", "hash")}
_PERSON = frozenset(
    """
    id person personid user userid uid username email member memberid customer customerid account accountid
    device deviceid
    """.split()  # noqa: SIM905
)

_PAIR_MESSAGE = "name them with --latitude and --longitude"


@dataclass(frozen=True, slots=True)
class CoordinateColumns:
    """Positions of the latitude and the longitude column."""

    latitude: int
    longitude: int


def find_coordinates(
    names: Sequence[str], latitude: str | None = None, longitude: str | None = None
) -> CoordinateColumns | None:
    """Find the coordinate columns by the names given or by their usual names; None if there are none.

    Raises
    ------
    DataError
        If a name given is not there, only one of the pair is found, or several could be meant.
    """
    if (latitude is None) != (longitude is None):
        raise DataError("name both coordinate columns, with --latitude and --longitude")
    if latitude is not None and longitude is not None:
        return CoordinateColumns(_position(names, latitude), _position(names, longitude))
    first, second = _usual(names, _LATITUDE, "latitude"), _usual(names, _LONGITUDE, "longitude")
    if first is None and second is None:
        return None
    if first is None or second is None:
        missing = "latitude" if first is None else "longitude"
        raise DataError(f"there is no {missing} column; {_PAIR_MESSAGE}")
    return CoordinateColumns(first, second)


def exact_location_columns(names: Iterable[str]) -> list[str]:
    """Return the names of columns that would hold an exact location once more."""
    return [name for name in names if _squashed(name) in _LATITUDE | _LONGITUDE | _EXACT_GEOMETRY]


def revealing_columns(names: Iterable[str]) -> list[str]:
    """Return the names of columns that look as if they gave the location away.

    Examples
    --------
    >>> revealing_columns(["name", "home_address", "ZIP code", "geohash7", "age"])
    ['home_address', 'ZIP code', 'geohash7']
    """
    return [name for name in names if _is_revealing(name)]


def person_columns(names: Iterable[str]) -> list[str]:
    """Return the names of columns that look like the id of a person."""
    return [name for name in names if _squashed(name) in _PERSON]


def _position(names: Sequence[str], wanted: str) -> int:
    found = [place for place, name in enumerate(names) if name == wanted]
    if not found:
        if any(_is_number(name) for name in names):
            # The "header" is somebody's data, which must not get into a message.
            raise DataError(f"there is no column {wanted!r}; the file seems to have no header line, give it one")
        raise DataError(f"there is no column {wanted!r}; the columns are {_listed(names)}")
    if len(found) > 1:
        raise DataError(f"there are {len(found)} columns named {wanted!r}; rename all but one")
    return found[0]


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _usual(names: Sequence[str], usual: set[str], what: str) -> int | None:
    found = [place for place, name in enumerate(names) if _squashed(name) in usual]
    if len(found) > 1:
        listed = _listed([names[place] for place in found])
        raise DataError(f"several columns could be the {what}: {listed}; {_PAIR_MESSAGE}")
    return found[0] if found else None


def _is_revealing(name: str) -> bool:
    words = [word for word in re.split(r"[^a-z0-9]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()) if word]
    # "geohash7", "h3_9" and the like carry a resolution.
    stems = {word.rstrip("0123456789") for word in words} | set(words)
    pairs = set(pairwise(words))
    # A single letter is only a coordinate if it is the whole name.
    return bool(
        _squashed(name) in ("x", "y")
        or stems & _REVEALING_WORDS
        or pairs & _REVEALING_PAIRS
        or _squashed(name) in _REVEALING_WORDS
    )


def _squashed(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _listed(names: Iterable[str]) -> str:
    listed = [repr(name) for name in names]
    return ", ".join(listed[:12]) + (", …" if len(listed) > 12 else "")
