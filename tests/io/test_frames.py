"""Frames of pandas, GeoPandas, Polars and Arrow: locations out of them, and published ones back."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nearveil.errors import DataError, UsageError
from nearveil.io.frames import (
    columns_of_frame,
    frame_of_points,
    is_frame,
    points_in_frame,
    published_frame,
    true_points,
    users_in_frame,
)
from nearveil.io.readers import ReadOptions
from tests.io.samples import MOVED, PLACES

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
geopandas = pytest.importorskip("geopandas")
ORDER = np.array([1, 0])
DATA: dict[str, list[Any]] = {"id": ["a", "b"], "lat": [37.7, 37.8], "age": [30, 40], "lon": [-122.4, -122.5]}


def geo_frame(crs: str | None = "EPSG:4326") -> Any:
    geometry = geopandas.points_from_xy(PLACES[:, 1], PLACES[:, 0], crs=crs and "EPSG:4326")
    frame = geopandas.GeoDataFrame({"id": ["a", "b"], "age": [30, 40]}, geometry=geometry)
    return frame.to_crs(crs) if crs else frame


KINDS: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pandas.DataFrame(DATA, index=["at 37.7", "at 37.8"]),
    "polars": lambda: polars.DataFrame(DATA),
    "arrow": lambda: pa.table(DATA).replace_schema_metadata({"secret": "37.7"}),
    "geopandas": geo_frame,
    "geopandas in meters": lambda: geo_frame("EPSG:32610"),
    "geopandas without crs": lambda: geo_frame(None),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_there_and_back(kind: str) -> None:
    frame = KINDS[kind]()
    assert is_frame(frame)
    assert points_in_frame(frame) == pytest.approx(PLACES)
    assert set(columns_of_frame(frame)) == {"id", "age"}
    assert users_in_frame(frame, "id") == ["a", "b"]
    assert users_in_frame(frame, "age") == ["30", "40"]
    published = published_frame(frame, MOVED, ["age"], ORDER)
    assert type(published) is type(frame)
    assert points_in_frame(published) == pytest.approx(MOVED[ORDER], abs=1e-6)
    assert columns_of_frame(published) == ("age",)
    assert users_in_frame(published, "age") == ["40", "30"]
    assert columns_of_frame(frame_of_points(MOVED, frame)) == ()
    if kind.startswith("geo"):
        assert published.crs == frame.crs
    if hasattr(published, "index"):
        assert list(published.index) == [0, 1]
    if kind == "arrow":
        assert not published.schema.metadata


def test_styles_of_columns() -> None:
    """Text, also with a decimal comma, points as text, other names, and columns that are called by numbers."""
    texts = pandas.DataFrame({"lat": ["37,7", "37,8"], "lon": ["-122,4", "-122,5"]})
    assert points_in_frame(texts).tolist() == PLACES.tolist()
    wkt = polars.DataFrame({"p": ["POINT (-122.4 37.7)", "POINT (-122.5 37.8)"]})
    assert points_in_frame(wkt, ReadOptions(location="p")).tolist() == PLACES.tolist()
    assert published_frame(wkt, MOVED, (), ORDER, ReadOptions(location="p"))["p"][1] == "POINT (-122.654321 37.123456)"
    numbered = pandas.DataFrame({0: [37.7, 37.8], 1: [-122.4, -122.5], 2: [1, 2]})
    read = ReadOptions(latitude="0", longitude="1")
    assert list(published_frame(numbered, MOVED, ["2"], ORDER, read).columns) == [0, 1, 2]


def test_rows_that_cannot_be_read() -> None:
    frame = polars.DataFrame({"lat": ["37.7", "x"], "lon": [-122.4, -122.5]})
    assert np.isnan(true_points(frame)).any(axis=1).tolist() == [False, True]
    for bad in (frame, geo_frame().assign(geometry=[None, None])):
        with pytest.raises(DataError, match=r"row [12]: "):
            points_in_frame(bad)
    with pytest.raises(UsageError, match="a lazy one after collect"):
        points_in_frame(polars.DataFrame(DATA).lazy())
    with pytest.raises(DataError, match="there is no location; the columns are 'a', 'b'"):
        points_in_frame(polars.DataFrame({"a": [37.7], "b": [-122.4]}))


@pytest.mark.parametrize("ids", [[None, "a"], ["", "a"], [1.5, 2.0], [True, False], [float("nan"), 1.0]])
def test_ids_that_are_none(ids: list[Any]) -> None:
    with pytest.raises(DataError, match="row 1: 'id' is missing or neither text nor a whole number"):
        users_in_frame(polars.DataFrame({"id": ids}), "id")
    with pytest.raises(DataError, match="there is no column 'user'"):
        users_in_frame(polars.DataFrame({"id": ids}), "user")


def test_nothing_hidden_travels_along() -> None:
    """Categories of other rows, attributes, and values that stand under missing ones."""
    frame = pandas.DataFrame(DATA)
    frame["kind"] = pandas.Categorical(["k", "k"], categories=["at 37.7", "k"])
    frame["masked"] = pandas.arrays.IntegerArray(np.array([377, 378]), np.array([True, False]))
    frame.attrs["center"] = 37.7
    frame["arrow"] = pandas.array(["k", "at 37.7"], pandas.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))
    published = published_frame(frame, MOVED, ["kind", "masked"], ORDER)
    first = published_frame(frame, MOVED, ["arrow"], np.array([0]))["arrow"]
    assert (list(first), "dictionary" in str(first.dtype)) == (["k"], False)
    assert published.attrs == {}
    assert list(published["kind"]) == ["k", "k"]
    assert not hasattr(published["kind"], "cat")
    assert 377 not in published["masked"].array._data
    with pytest.raises(DataError, match="the reference system has no EPSG number") as caught:
        published_frame(geo_frame("+proj=aeqd +lat_0=37.7 +lon_0=-122.4"), MOVED, [], ORDER)
    assert "37.7" not in str(caught.value)
    hidden = pa.StructArray.from_arrays([pa.array([377, 378])], ["lat"], mask=pa.array([True, False]))
    table = pa.table({**DATA, "s": hidden}).append_column("d", pa.array(["x", "y"]).dictionary_encode())
    for some in (table, polars.from_arrow(table)):
        out = published_frame(some, MOVED, ["s", "d"], np.array([0]))
        out = out if isinstance(out, pa.Table) else out.to_arrow()
        column = out["s"].combine_chunks()
        assert column.to_pylist() == [None]
        assert pa.types.is_null(column.type) or 377 not in column.field(0).to_pylist()
        assert b"y" not in b"".join(bytes(part) for part in out["d"].combine_chunks().buffers() if part)
