"""Columns of a file: finding the coordinates, refusing others that reveal the location, and conversion to numbers."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from nearveil.errors import BadRowError, DataError
from nearveil.types import BoolArray, FloatArray, IntArray

# Names as `_squashed` writes them, without accents.
_LATITUDE = {"latitude", "lat", "latitudedeg", "latdeg", "ylat", "latitud", "breitengrad"}
_LONGITUDE = {
    "longitude", "lon", "lng", "long", "longitudedeg", "londeg", "lngdeg", "xlon", "longitud", "langengrad",
    "laengengrad",
}  # fmt: skip
# German for latitude and longitude, and for width and length: they count where there are no others.
_BREITE = {"breite"}
_LAENGE = {"lange", "laenge"}
# Coordinates of a map in metres: north and east.
_NORTHING = {"northing", "north", "y", "ycoord", "ycoordinate", "hochwert", "utmnorthing", "utmy"}
_EASTING = {"easting", "east", "x", "xcoord", "xcoordinate", "rechtswert", "utmeasting", "utmx"}
# A column of these names may hold both, as text.
_LOCATION = frozenset(
    """
    location loc latlon latlng latlong point position pos coordinates coords coordinate geometry geom thegeom wkt ewkt
    geo gps place
    """.split()  # noqa: SIM905
)
_COUNTS = {"count", "people", "population"}
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

# Words of a column's name that suggest a location, in English, German, French and Spanish, without accents.
_REVEALING_WORDS = frozenset(
    """
    address addr street road house housenumber building apartment postcode postalcode postal zip zipcode plz
    geohash h3 s2 quadkey pluscode olc what3words w3w mgrs utm tile cell easting northing altitude elevation
    lat latitude lon lng longitude latlon latlng latlong lonlat gps position pos coord coords coordinate coordinates
    point geom geometry wkt geo center centre bbox location loc locationid place placeid venue venueid poi checkin spot
    city town village suburb district neighborhood neighborhood borough county region
    ip ipaddress ssid bssid wifi cellid tower
    adresse anschrift wohnadresse wohnanschrift strasse strassenname hausnummer hausnr wohnung postleitzahl wohnort
    wohnsitz ort ortsteil stadt stadtteil bezirk landkreis gemeinde standort koordinate koordinaten breitengrad
    langengrad laengengrad
    rue domicile logement batiment ville commune quartier arrondissement departement lieu localite
    emplacement coordonnees
    direccion calle domicilio vivienda edificio ciudad pueblo barrio colonia municipio provincia lugar localidad
    ubicacion coordenadas latitud longitud
    """.split()  # noqa: SIM905 - a list of a hundred strings is harder to read
)
_REVEALING_PAIRS = {("post", "code"), ("postal", "code"), ("zip", "code"), ("plus", "code"), ("geo", "hash")}
_PERSON = frozenset(
    """
    id person personid user userid uid username email member memberid customer customerid account accountid
    device deviceid
    """.split()  # noqa: SIM905
)

_PAIR_MESSAGE = "name them with latitude= and longitude="


@dataclass(frozen=True, slots=True)
class CoordinateColumns:
    """Positions of the latitude and the longitude column."""

    latitude: int
    longitude: int


def find_coordinates(
    names: Sequence[str], latitude: str | None = None, longitude: str | None = None, *, projected: bool = False
) -> CoordinateColumns | None:
    """Find the coordinate columns by the names given or by their usual names; None if there are none.

    With ``projected`` they are those of a map, northing and easting.

    Raises
    ------
    DataError
        If a name given is not there, only one of the pair is found, or several could be meant.
    """
    if (latitude is None) != (longitude is None):
        raise DataError("name both coordinate columns, with latitude= and longitude=")
    if latitude is not None and longitude is not None:
        return CoordinateColumns(column_position(names, latitude), column_position(names, longitude))
    usual = {"northing": _NORTHING, "easting": _EASTING} if projected else {}
    usual = usual or {"latitude": _LATITUDE, "longitude": _LONGITUDE}
    if not projected and not any(_squashed(name) in _LATITUDE | _LONGITUDE for name in names):
        usual = {"latitude": _BREITE, "longitude": _LAENGE}
    first, second = (_usual(names, known, what) for what, known in usual.items())
    if first is None and second is None:
        return None
    if first is None or second is None:
        if _BREITE in usual.values():
            # One alone is a width or a length.
            return None
        missing = list(usual)[first is not None]
        raise DataError(f"there is no {missing} column; {_perhaps(names, missing)}{_PAIR_MESSAGE}")
    return CoordinateColumns(first, second)


def _perhaps(names: Sequence[str], *wanted: str) -> str:
    """Ask whether columns that are nearly called so are meant."""
    own = {_squashed(name): name for name in names if _is_plain(name) and _squashed(name) != "altitude"}
    close = [own[found] for name in wanted for found in get_close_matches(name, own, n=1, cutoff=0.8)]
    return f"did you mean {' and '.join(map(repr, close))}? If so, " if close else ""


def may_be_location(name: str) -> bool:
    """Whether a column of text may hold both coordinates, by its name."""
    return _squashed(name) in _LOCATION


def no_coordinates(names: Sequence[str], *, projected: bool = False) -> DataError:
    """Say which columns there are, where none holds the location; a first line of data is not shown."""
    if looks_like_data(names):
        return DataError(
            f"the file has no header line: its first line holds data, {len(names)} values; name its columns with "
            f"columns=, such as columns={','.join(_example_names(names))}"
        )
    usual = "'northing' and 'easting'" if projected else "'latitude' and 'longitude'"
    if not all(map(_is_plain, names)):
        return DataError(
            f"there are no coordinate columns such as {usual}, and the first line, with {len(names)} values, may hold "
            "data instead of names; if it does, name the columns with columns=, else name those that hold the "
            "location with latitude= and longitude=, or with location="
        )
    if not projected and _usual_pair(names, _NORTHING, _EASTING):
        return DataError(
            f"there are no coordinate columns in degrees; the columns are {_listed(names)}: if two of them are metres "
            "of a map, say in which reference system with crs=, such as EPSG:32610 (UTM) or EPSG:3857 (web maps)"
        )
    if len(names) == 1 and re.search(r"\S\W+\S", names[0]):
        return DataError(f"the header names one column, {names[0]!r}; say what separates values with delimiter=")
    return DataError(
        f"there are no coordinate columns such as {usual}; the columns are {_listed(names)}: "
        f"{_perhaps(names, 'latitude', 'longitude')}name two of them with latitude= and longitude=, or one that "
        "holds both with location="
    )


def _usual_pair(names: Sequence[str], *pair: set[str]) -> bool:
    return all(any(_squashed(name) in usual for name in names) for usual in pair)


def looks_like_data(names: Sequence[str]) -> bool:
    """Whether what stands where the names of columns should be is somebody's data."""
    return any(_is_number(name.strip().replace(",", ".")) or _A_LOCATION.search(name) for name in names)


# Two numbers with decimals, one with a degree sign or a compass point, and geometries.
_A_LOCATION = re.compile(
    r"\d[.,]\d.*\d[.,]\d|\d\s*[°º]|^\s*[-+]?\d+[.,]\d+\s*[NSEWO]\s*$|point\s*z?m?\s*\(|\b0[01][0-9a-f]{30}",
    re.IGNORECASE,
)


def _is_plain(name: str) -> bool:
    """Whether a name can only be one, and may be shown: not a geohash, an address or a number of somebody's."""
    return re.match(r"[-+.\d]", name.strip()) is None and re.search(r"\d{4}|\d[^\d.,]+\d|\d[.,]\d\d", name) is None


def _example_names(names: Sequence[str]) -> list[str]:
    """Names for columns of which the first two with decimals are taken for the coordinates."""
    bare = [name.strip().rstrip("NSEWOnsewo°º ").replace(",", ".") for name in names]
    numbers = [place for place, name in enumerate(bare) if _is_number(name) and "." in name]
    latitude, longitude = [*numbers, -1, -1][:2]
    special = {latitude: "latitude", longitude: "longitude"}
    return [special.get(place, f"column{place + 1}") for place in range(len(names))]


def find_counts(names: Sequence[str], wanted: str | None = None) -> int | None:
    """Find the column of counts by the name given or by its usual name; None if there is none.

    Examples
    --------
    >>> find_counts(["latitude", "longitude", "Population"])
    2
    """
    if wanted is not None:
        return column_position(names, wanted)
    found = [place for place, name in enumerate(names) if _squashed(name) in _COUNTS]
    if len(found) > 1:
        listed = _listed([names[place] for place in found])
        raise DataError(f"several columns could be the counts: {listed}; name one with column=")
    return found[0] if found else None


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


def column_position(names: Sequence[str], wanted: str) -> int:
    """Return where the only column of a name is."""
    found = [place for place, name in enumerate(names) if name == wanted]
    if not found:
        if looks_like_data(names):
            # The "header" is somebody's data, which must not get into a message.
            raise DataError(
                f"there is no column {wanted!r}; the file seems to have no header line: name its columns with columns="
            )
        if not all(map(_is_plain, names)):
            raise DataError(
                f"there is no column {wanted!r} among the {len(names)} of the first line; if the file has no header "
                "line, name its columns with columns="
            )
        raise DataError(f"there is no column {wanted!r}; the columns are {_listed(names)}")
    if len(found) > 1:
        raise DataError(f"there are {len(found)} columns named {wanted!r}; rename all but one")
    return found[0]


def refuse_repeated(names: Sequence[str]) -> None:
    """Raise if several columns have one name, by which none of them can be meant."""
    ((name, count),) = Counter(names).most_common(1) or [("", 0)]
    if count > 1:
        called = f"named {name!r}" if _is_plain(name) else "with the same name"
        raise DataError(f"there are {count} columns {called}; rename all but one")


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _usual(names: Sequence[str], usual: set[str], what: str) -> int | None:
    found = [place for place, name in enumerate(names) if _squashed(name) in usual]
    if len(found) > 1:
        own = [names[place] for place in found]
        refuse_repeated(own)
        raise DataError(f"several columns could be the {what}: {_listed(own)}; {_PAIR_MESSAGE}")
    return found[0] if found else None


def _is_revealing(name: str) -> bool:
    parted = _without_accents(re.sub(r"([a-zß-ÿ])([A-ZÀ-Þ])", r"\1 \2", unicodedata.normalize("NFC", name)))
    words = [word for word in re.split(r"[^a-z0-9]+", parted) if word]
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


def _without_accents(text: str) -> str:
    """Return small letters, with ss for ß and without accents."""
    return "".join(each for each in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(each))


def _squashed(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", _without_accents(name))


def _listed(names: Iterable[str]) -> str:
    listed = [repr(name) for name in names]
    return ", ".join(listed[:12]) + (", …" if len(listed) > 12 else "")


# Points in well-known binary, a whole column at a time.


_POINT = np.dtype([("order", "u1"), ("kind", "<u4"), ("x", "<f8"), ("y", "<f8")])
_LITTLE_ENDIAN = 1
_POINT_KIND = 1
_ROWS_PER_CHUNK = 1 << 24


def wkb_from_points(points: FloatArray) -> pa.ChunkedArray:
    """Return latitude, longitude as a column of WKB points (x longitude, y latitude)."""
    chunks = [_chunk_from_points(points[at : at + _ROWS_PER_CHUNK]) for at in range(0, len(points), _ROWS_PER_CHUNK)]
    return pa.chunked_array(chunks, pa.binary())


def points_from_wkb(column: pa.ChunkedArray, rows_before: int = 0, *, lenient: bool = False) -> FloatArray:
    """Return latitude, longitude of a column of WKB points; name the row that is none, or make it NaN."""
    parts = []
    for chunk in column.chunks:
        parts.append(_chunk_to_points(chunk, rows_before, lenient=lenient))
        rows_before += len(chunk)
    return np.vstack(parts)


def _chunk_from_points(points: FloatArray) -> pa.Array:
    records = np.empty(len(points), dtype=_POINT)
    records["order"], records["kind"] = _LITTLE_ENDIAN, _POINT_KIND
    records["x"], records["y"] = points[:, 1], points[:, 0]
    offsets = np.arange(len(points) + 1, dtype=np.int32) * _POINT.itemsize
    return pa.Array.from_buffers(pa.binary(), len(points), [None, pa.py_buffer(offsets), pa.py_buffer(records)])


def _chunk_to_points(chunk: pa.Array, rows_before: int, *, lenient: bool) -> FloatArray:
    if not pa.types.is_large_binary(chunk.type):
        try:
            chunk = chunk.cast(pa.large_binary())
        except pa.ArrowException:
            raise DataError("the geometry column holds no well-known binary; give one point per person") from None
    offsets = np.frombuffer(chunk.buffers()[1], dtype=np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
    good = np.diff(offsets) == _POINT.itemsize
    if good.all() and len(chunk):
        data = memoryview(chunk.buffers()[2])[offsets[0] : offsets[-1]]
        records = np.frombuffer(data, dtype=_POINT)
        good = (records["order"] == _LITTLE_ENDIAN) & (records["kind"] == _POINT_KIND)
        if good.all():
            return np.column_stack([records["y"], records["x"]])
    if not len(chunk):
        return np.empty((0, 2))
    if lenient:
        return _points_where(np.diff(offsets) == _POINT.itemsize, memoryview(chunk.buffers()[2]), offsets[:-1])
    row = rows_before + int(np.argmin(good)) + 1
    raise BadRowError(
        f"row {row}: the geometry is missing or no plain two-dimensional point; give one point per person"
    )


def _points_where(good: BoolArray, data: memoryview, starts: IntArray) -> FloatArray:
    """Return the points that can be read, and NaN for the others."""
    points = np.full((len(good), 2), np.nan)
    if good.any():
        records = np.frombuffer(data, np.uint8)[starts[good, None] + np.arange(_POINT.itemsize)]
        found = np.ascontiguousarray(records).view(_POINT)[:, 0]
        points[good] = np.column_stack([found["y"], found["x"]])
        plain = (found["order"] == _LITTLE_ENDIAN) & (found["kind"] == _POINT_KIND)
        points[np.flatnonzero(good)[~plain]] = np.nan
    return points


# From a column as a file has it to numbers, naming the row where that fails.


_NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$|^[-+]?(?i:nan|inf|infinity)$"


def degrees_column(column: pa.ChunkedArray, what: str, rows_before: int = 0, *, lenient: bool = False) -> FloatArray:
    """Return a coordinate column as floats; a missing value becomes NaN, text is refused with its row."""
    wanted = "degrees as decimal numbers, with a minus sign instead of S or W"
    return numbers_column(column, what, wanted, rows_before, lenient=lenient, decimal_comma=_DEGREES_WITH_COMMA)


def metres_column(column: pa.ChunkedArray, what: str, rows_before: int = 0, *, lenient: bool = False) -> FloatArray:
    """Return a coordinate column of a map as floats, as `degrees_column` does."""
    wanted = "metres as decimal numbers with a point"
    return numbers_column(column, what, wanted, rows_before, lenient=lenient, decimal_comma=_METRES_WITH_COMMA)


_DEGREES_WITH_COMMA = r"^[-+]?\d{1,3},\d+$"
# A comma before three digits may as well separate thousands.
_METRES_WITH_COMMA = r"^[-+]?\d+,(\d{1,2}|\d{4,})$"


def numbers_column(
    column: pa.ChunkedArray,
    what: str,
    wanted: str,
    rows_before: int = 0,
    *,
    lenient: bool = False,
    decimal_comma: str | None = None,
) -> FloatArray:
    """Return a column as floats; a missing value becomes NaN, text is refused with its row and what is wanted.

    With ``lenient`` text becomes NaN, too. Numbers that match ``decimal_comma`` are read as if they had a point.
    """
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = _parsed(column, what, wanted, rows_before, lenient=lenient, decimal_comma=decimal_comma)
    try:
        return floats_from_arrow(column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(f"the {what} column does not hold numbers; give {wanted}") from None


def _parsed(
    column: pa.ChunkedArray, what: str, wanted: str, rows_before: int, *, lenient: bool, decimal_comma: str | None
) -> pa.ChunkedArray:
    import pyarrow.compute as pc  # noqa: PLC0415 - takes long to load, and Parquet does without

    try:
        return column.cast(pa.float64())
    except pa.ArrowInvalid:
        text = pc.utf8_rtrim(pc.utf8_trim_whitespace(column), " °")
    if decimal_comma is not None:
        with_point = pc.replace_substring(text, ",", ".")
        text = pc.if_else(pc.match_substring_regex(text, decimal_comma), with_point, text)
    try:
        return text.cast(pa.float64())
    except pa.ArrowInvalid:
        is_number = pc.fill_null(pc.match_substring_regex(text, _NUMBER), True)
        if lenient:
            return pc.if_else(is_number, text, pa.scalar(None, text.type)).cast(pa.float64())
        good = is_number.to_numpy(zero_copy_only=False)
        row = rows_before + int(np.argmin(good)) + 1
        raise BadRowError(f"row {row}: the {what} is empty or not a number; give {wanted}") from None


def kept_columns(names: list[str], drop: tuple[str, ...]) -> tuple[int, ...]:
    """Return the positions of the columns that are left without those to drop, of which there may be several each."""
    for name in drop:
        if name not in names:
            raise DataError(f"there is no column {name!r} to drop")
    return tuple(place for place, name in enumerate(names) if name not in drop)


# Numbers between Arrow and NumPy by their buffers: without a copy, and without loading pandas, which takes long.


def arrow_floats(values: FloatArray) -> pa.Array:
    """Return numbers as an Arrow array."""
    whole = np.ascontiguousarray(values, dtype=np.float64)
    return pa.Array.from_buffers(pa.float64(), len(whole), [None, pa.py_buffer(whole)])


def floats_from_arrow(column: pa.ChunkedArray) -> FloatArray:
    """Return a column as floats, if its type allows; what is missing becomes NaN."""
    parts = [_chunk(chunk) for chunk in column.chunks]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0), *parts])


def _chunk(chunk: pa.Array) -> FloatArray:
    if not (pa.types.is_float64(chunk.type) or pa.types.is_int64(chunk.type)) or chunk.null_count:
        chunk = chunk.cast(pa.float64()).fill_null(float("nan"))
    return numbers_from_arrow(chunk).astype(np.float64, copy=False)


def numbers_from_arrow(array: pa.Array) -> np.ndarray[Any, Any]:
    """Return whole numbers or floats of which none is missing."""
    buffer = array.buffers()[1]
    kind = np.dtype(array.type.to_pandas_dtype())
    return np.frombuffer(buffer or b"", dtype=kind)[array.offset : array.offset + len(array)]


def taken_rows(table: pa.Table, rows: IntArray) -> pa.Table:
    """Return these rows of a table, in this order."""
    return pa.Table.from_arrays([_taken(column, rows) for column in table.columns], schema=table.schema)


def _taken(column: pa.ChunkedArray, rows: IntArray) -> pa.Array:
    kind = column.type
    if (pa.types.is_integer(kind) or pa.types.is_floating(kind)) and not column.null_count:
        parts = [numbers_from_arrow(chunk) for chunk in column.chunks]
        whole = parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, kind.to_pandas_dtype()), *parts])
        return pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(whole[rows])])
    return _without_hidden(column.combine_chunks().take(pa.array(rows)))


def _without_hidden(array: pa.Array) -> pa.Array:
    """Return an array without the values that stand below a structure that is missing."""
    if not pa.types.is_struct(array.type) or not array.null_count:
        return array
    rows = pa.array(np.arange(len(array)))
    # Flattening makes the parts missing, too, and taking rows leaves the values of those behind.
    parts = [_without_hidden(part.take(rows)) for part in array.flatten()]
    return pa.StructArray.from_arrays(parts, fields=list(array.type), mask=array.is_null())


# Arrow types without what a file says of them besides: bounds and centres of true places may hide there.


def plain_field(field: pa.Field) -> pa.Field:
    """Return a column's or a part's name and type alone.

    Categories become their values: a dictionary lists them in the order in which they first came. Extension types
    become what they store, since their parameters may be any text; a UUID has none. Views of text and bytes become
    text and bytes, because Arrow cannot take rows of them.

    Examples
    --------
    >>> part = pa.field("age", pa.dictionary(pa.int8(), pa.string_view()), metadata={"centre": "37.7749"})
    >>> plain_field(pa.field("person", pa.struct([part])))
    pyarrow.Field<person: struct<age: large_string>>
    """
    return pa.field(field.name, _plain(field.type), field.nullable)


def _plain(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_dictionary(kind):
        return _plain(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return kind if isinstance(kind, pa.UuidType) else _plain(kind.storage_type)
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_union(kind) or types.is_run_end_encoded(kind):
        raise DataError("a column of unions, or encoded by runs, cannot be carried; cast it to a plain type or drop it")
    if types.is_struct(kind):
        return pa.struct([plain_field(part) for part in kind])
    if types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if types.is_fixed_size_list(kind):
        return pa.list_(plain_field(kind.value_field), kind.list_size)
    for is_list, list_of in _LISTS:
        if is_list(kind):
            return list_of(plain_field(kind.value_field))
    return kind


_LISTS = (
    (pa.types.is_list, pa.list_),
    (pa.types.is_large_list, pa.large_list),
    (pa.types.is_list_view, pa.list_view),
    (pa.types.is_large_list_view, pa.large_list_view),
)
