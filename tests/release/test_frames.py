"""Frames in, frames of the same kind out: names, types, index and reference system; and what types would give away."""

import warnings
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from nearveil import PlanarLaplace, ReadOptions, protect_frame
from nearveil.errors import DataError, UsageError
from nearveil.geodesy import as_points, degrees_to
from nearveil.sphere import great_circle_m
from nearveil.types import FloatArray

ROWS = 60


@pytest.fixture
def places() -> FloatArray:
    return np.random.default_rng(1).uniform([37.6, -122.5], [37.8, -122.3], (ROWS, 2))


def pandas_frame(places: FloatArray) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    numbers = rng.permutation(ROWS)
    text = [f"n{number}" for number in numbers]
    sizes = pd.CategoricalDtype(["small", "large", "huge"], ordered=True)
    return pd.DataFrame(
        {
            "name": text,
            "lat": places[:, 0],
            "lon": places[:, 1],
            "big": pd.array([2**60 + number if number else None for number in numbers], dtype="Int64"),
            "short": numbers.astype("int16"),
            "flag": pd.array(rng.integers(0, 2, ROWS), dtype="boolean"),
            "when": pd.to_datetime(numbers, unit="D", origin="2020-01-01").tz_localize("Europe/Berlin"),
            "word": pd.array(text, dtype="string"),
            "arrow": pd.array(numbers, dtype="int32[pyarrow]"),
            "things": pd.Series(text, dtype=object),
            "month": pd.PeriodIndex.from_ordinals(numbers, freq="M"),
            "size": pd.Series(rng.choice(["large", "small"], ROWS)).astype(sizes),
            "group": pd.Categorical(rng.choice(["b", "a"], ROWS), categories=["b", "secret", "a"]),
            7: numbers,
        }
    )


def test_pandas_keeps_names_types_and_values(places: FloatArray) -> None:
    frame = pandas_frame(places)
    frame.attrs["centre"] = "37.7, -122.4"
    published = protect_frame(frame)
    assert list(published.columns) == list(frame.columns)
    same = [name for name in frame.columns if name not in ("size", "group")]
    assert published.dtypes[same].to_dict() == frame.dtypes[same].to_dict()
    # In a random order, with the same values beside each other.
    assert list(published["name"]) != list(frame["name"])
    back = published.set_index("name").loc[frame["name"]].reset_index()
    others = [name for name in frame.columns if name not in ("lat", "lon", "group", "size")]
    pd.testing.assert_frame_equal(back[others], frame[others], check_column_type=False)
    assert back["group"].astype(str).tolist() == frame["group"].astype(str).tolist()
    assert back["size"].astype(str).tolist() == frame["size"].astype(str).tolist()
    assert published.attrs == {}


def test_categories_tell_of_no_other_row(places: FloatArray) -> None:
    published = protect_frame(pandas_frame(places))
    assert list(published["group"].cat.categories) == ["a", "b"]
    assert list(published["size"].cat.categories) == ["small", "large"]
    assert published["size"].cat.ordered
    for native in (pl.DataFrame, pa.table):
        table = pa.table({"g": pa.array(["b"] * ROWS).dictionary_encode(), "lat": places[:, 0], "lon": places[:, 1]})
        out = protect_frame(native(table))
        assert (out.to_arrow() if isinstance(out, pl.DataFrame) else out).schema.field("g").type in (
            pa.string(), pa.large_string(), pa.string_view(),
        )  # fmt: skip


def test_a_frame_in_metres_or_text_comes_back_so(places: FloatArray) -> None:
    metres = degrees_to("EPSG:32610", places)
    frame = pl.DataFrame({"id": range(ROWS), "x": metres[:, 1], "y": metres[:, 0]})
    with pytest.warns(UserWarning, match="order of the rows is kept"):
        published = protect_frame(frame, read=ReadOptions(crs="EPSG:32610"), keep_order=True)
    assert published.columns == ["id", "x", "y"]
    apart = np.hypot(*(published[axis].to_numpy() - frame[axis].to_numpy() for axis in "xy"))
    assert 240 < apart.mean() < 760
    text = pa.table({"where": [f"POINT ({longitude} {latitude})" for latitude, longitude in places]})
    assert protect_frame(text)["where"][0].as_py().startswith("POINT (-122.")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delimiter": ";"}, "delimiter is for files"),
        ({"skip_bad": "bad.csv"}, "skip_bad is for files"),
    ],
)
def test_options_of_files_are_refused(options: dict[str, Any], words: str, places: FloatArray) -> None:
    with pytest.raises(UsageError, match=words):
        protect_frame(pandas_frame(places), read=ReadOptions(**options))


def test_what_is_no_frame_is_refused(places: FloatArray) -> None:
    for frame in (pl.LazyFrame({"lat": places[:, 0], "lon": places[:, 1]}), places, "people.csv"):
        with pytest.raises(UsageError, match="not a frame that Nearveil knows"):
            protect_frame(frame)


def test_repeated_names_are_refused(places: FloatArray) -> None:
    frame = pd.DataFrame(np.column_stack([places, places]), columns=["lat", "lon", "a", "a"])
    points = geopandas.points_from_xy(places[:, 1], places[:, 0])
    geo = geopandas.GeoDataFrame(frame[["a"]].set_axis(["a", "a"], axis=1), geometry=points)
    for each in (frame, geo, pa.table(list(frame.to_numpy().T), names=list(frame.columns))):
        with pytest.raises(DataError, match="there are 2 columns named 'a'; rename all but one"):
            protect_frame(each)
    with pytest.raises(DataError, match="there are 2 columns named 'a'"):
        PlanarLaplace().perturb(frame)


def test_columns_called_by_numbers(places: FloatArray) -> None:
    frame = pd.DataFrame({0: places[:, 0], 1: places[:, 1], 2: range(ROWS)})
    with pytest.raises(DataError, match=r"^the frame has no coordinate columns .*ReadOptions\(latitude=") as caught:
        protect_frame(frame)
    assert "--" not in str(caught.value)
    published = protect_frame(frame, read=ReadOptions(latitude=0, longitude=1, drop=(2,)))  # type: ignore[arg-type]
    assert list(published.columns) == [0, 1]
    geo = geopandas.GeoDataFrame({2: range(ROWS)}, geometry=geopandas.points_from_xy(places[:, 1], places[:, 0]))
    assert list(protect_frame(geo, read=ReadOptions(drop=(2,))).columns) == ["geometry"]  # type: ignore[arg-type]


def test_a_missing_geometry_is_named_by_its_row(places: FloatArray) -> None:
    geo = geopandas.GeoDataFrame(geometry=[*geopandas.points_from_xy(places[:2, 1], places[:2, 0]), None])
    with pytest.raises(DataError, match="row 3: the geometry is missing"):
        protect_frame(geo)


def test_a_pandas_index_in_arrow_is_left_out_unless_the_order_is_kept(places: FloatArray) -> None:
    frame = pd.DataFrame({"lat": places[:, 0], "lon": places[:, 1]}, index=[f"n{row}" for row in range(ROWS)])
    table = pa.Table.from_pandas(frame)
    assert protect_frame(table).column_names == ["lat", "lon"]
    assert protect_frame(table, read=ReadOptions(drop=("__index_level_0__",))).column_names == ["lat", "lon"]
    with pytest.warns(UserWarning, match="order"):
        assert protect_frame(table, keep_order=True).column_names == ["lat", "lon", "__index_level_0__"]


# -- mechanisms -----------------------------------------------------------------------------------------------------


def frames(places: FloatArray) -> dict[str, Any]:
    columns = {"id": range(ROWS), "lon": places[:, 1], "lat": places[:, 0]}
    points = geopandas.points_from_xy(places[:, 1], places[:, 0], crs="EPSG:4326")
    return {
        "pandas": pd.DataFrame(columns, index=range(100, 100 + ROWS)),
        "polars": pl.DataFrame(columns),
        "arrow": pa.table({name: list(values) for name, values in columns.items()}),
        "geopandas": geopandas.GeoDataFrame({"id": range(ROWS)}, geometry=points).to_crs("EPSG:3857"),
    }


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "geopandas"])
def test_mechanisms_take_frames(kind: str, places: FloatArray) -> None:
    frame, mechanism = frames(places)[kind], PlanarLaplace(noise_m=500, seed=3)
    published = mechanism.fit_transform(frame)
    assert type(published) is type(frame)
    # What an array gives, in the order of the rows, and nothing else.
    assert great_circle_m(as_points(published), mechanism.transform(places)).max() < 0.2
    assert "id" not in getattr(published, "column_names", published.columns)
    if kind in ("pandas", "geopandas"):
        assert published.index.equals(frame.index)
    if kind == "geopandas":
        assert published.crs == frame.crs


def test_frames_without_locations_are_refused(places: FloatArray) -> None:
    with pytest.raises(DataError, match="no coordinate columns"):
        PlanarLaplace().perturb(pd.DataFrame({"a": [1], "b": [2], "c": [3]}))
    with pytest.raises(DataError, match="do not hold numbers"):
        PlanarLaplace().perturb(pl.DataFrame({"lat": ["here"], "lon": ["there"]}))
    # Two columns are latitude and longitude, whatever they are called.
    assert PlanarLaplace().perturb(pd.DataFrame(places)).shape == (ROWS, 2)


def test_an_index_that_holds_the_location_is_refused(places: FloatArray) -> None:
    frame = pd.DataFrame({"latitude": places[:, 0], "longitude": places[:, 1]})
    mechanism = PlanarLaplace()
    for index in (["latitude", "longitude"], "longitude"):
        with pytest.raises(DataError, match="index holds a second exact location"):
            mechanism.transform(frame.set_index(index, drop=False))
    named = frame.set_index(pd.Index([f"person {row}" for row in range(len(frame))]))
    assert mechanism.transform(named).index.equals(named.index)


def test_an_ordered_category_that_follows_the_places_is_named(places: FloatArray) -> None:
    """Sorted by it, published rows would be in the old order again. False alarm: one in three million."""
    frame = pd.DataFrame({"latitude": places[:, 0], "longitude": places[:, 1]}).sort_values("latitude")
    ids = [f"{number:05d}" for number in np.random.default_rng(1).permutation(len(frame))]
    frame["id"] = pd.Categorical(ids, categories=ids, ordered=True)
    with pytest.warns(UserWarning, match="values of column 'id' follow people's places"):
        protect_frame(frame)
    frame["id"] = pd.Categorical(ids, categories=sorted(ids), ordered=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        protect_frame(frame)


def test_values_below_a_missing_structure_do_not_go_along(places: FloatArray) -> None:
    hidden = pa.StructArray.from_arrays(
        [pa.array(places[:, 0]), pa.array(places[:, 1])], names=["a", "b"], mask=pa.array([True] * len(places))
    )
    table = pa.table({"latitude": places[:, 0], "longitude": places[:, 1], "note": hidden})
    note = protect_frame(table).column("note").combine_chunks()
    assert note.null_count == len(places)
    for part in (note.field(0), note.field(1)):
        values = np.frombuffer(part.buffers()[1] or b"", np.float64)
        assert not np.isin(values, places).any()


@pytest.mark.parametrize("text", ["37.774911 N", "37.774911,-122.41"])
def test_an_error_holds_no_value_of_the_frame(text: str) -> None:
    frames = [
        pd.DataFrame({"latitude": ["37.7", text], "longitude": [-122.4, -122.4]}),
        pd.DataFrame({"latitude": [37.7, text], "longitude": [-122.4, -122.4]}),
    ]
    for frame in frames:
        for act in (protect_frame, PlanarLaplace().transform, PlanarLaplace().perturb):
            with pytest.raises(DataError) as caught:
                act(frame)
            error = caught.value
            assert "37.77" not in str(error)
            assert error.__context__ is None
            assert error.__cause__ is None
