"""No trace of a true place gets through: not in other columns, members or metadata, nor in messages."""

import base64
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearveil import protect_file
from nearveil.errors import DataError
from nearveil.io.columns import points_from_wkb
from nearveil.io.files import read_people, write_people
from nearveil.io.people import ReadOptions
from nearveil.types import IntArray
from tests.io.samples import CSV, FEATURES, MOVED, geojson, geoparquet, write


def test_geojson_keeps_members_and_drops_every_trace_of_the_place(tmp_path: Path) -> None:
    people = read_people(geojson(tmp_path / "in.geojson"))
    write_people(people.with_points(MOVED), tmp_path / "out.geojson", metadata={"seeded": True})
    text = (tmp_path / "out.geojson").read_text(encoding="utf-8")
    document = json.loads(text)
    first, second = document["features"]
    assert first["geometry"] == {"type": "Point", "coordinates": [-122.654321, 37.123456]}
    assert (first["id"], first["properties"]) == (7, {"name": "Zoë", "tags": ["a", 1]})
    assert second["properties"] is None
    # A member beside the properties might hold the place: left out, and said so.
    assert "extra" not in first
    assert any("'extra'" in warning for warning in people.warnings)
    assert document["nearveil"] == {"seeded": True}
    for trace in ("bbox", "-122.4", "37.7", "12.0", "37.8"):
        assert trace not in text


@pytest.mark.parametrize("drop", [(), ("id",)])
def test_the_id_of_a_feature_does_not_hide_behind_a_property_of_that_name(
    tmp_path: Path, drop: tuple[str, ...]
) -> None:
    """The property is the column that is checked; the member would travel unseen, even if few features have both."""
    first, second = ({**feature, "type": "at 37", "id": f"at 37.{row}"} for row, feature in enumerate(FEATURES))
    source = geojson(tmp_path / "in.geojson", [{**first, "properties": {"id": 5, "name": "a"}}, second])
    people = read_people(source, ReadOptions(drop=drop))
    write_people(people.with_points(MOVED), tmp_path / "out.geojson")
    features = json.loads((tmp_path / "out.geojson").read_text(encoding="utf-8"))["features"]
    assert not any("id" in feature or feature["type"] != "Feature" for feature in features)
    assert features[0]["properties"] == ({"name": "a"} if drop else {"id": 5, "name": "a"})
    assert any("'id'" in warning for warning in people.warnings) == (not drop)


def test_geoparquet_loses_every_trace_of_the_place(tmp_path: Path) -> None:
    people = read_people(geoparquet(tmp_path / "in.parquet"))
    assert people.points.tolist() == [[37.7, -122.4], [37.8, -122.5]]
    write_people(people.with_points(MOVED), tmp_path / "out.parquet")
    out = pq.read_table(tmp_path / "out.parquet")
    assert out.column_names == ["id", "geometry"]
    assert set(out.schema.metadata) == {b"geo", b"nearveil"}
    assert "bbox" not in json.loads(out.schema.metadata[b"geo"])["columns"]["geometry"]
    assert (points_from_wkb(out["geometry"]) == MOVED).all()


def test_locations_in_disguise_are_noticed(tmp_path: Path) -> None:
    """A copy of a coordinate under another name is refused; nested and half-hidden ones are warned of."""
    copied = write(tmp_path / "copy.csv", "lat,lon,note\n37.7,-122.4,37.7\n37.8,-122.5,37.8\n")
    with pytest.raises(DataError, match="column 'note' holds a second exact location"):
        read_people(copied)
    assert read_people(copied, carry=False).warnings == ()
    nested = [{**FEATURES[1], "properties": {"a": {"lat": 37.7, "lon": -122.4}, "b": 1}}]
    warnings = read_people(geojson(tmp_path / "n.geojson", nested)).warnings
    assert len(warnings) == 1
    assert "'a'" in warnings[0]


def test_every_geometry_of_a_geoparquet_file_is_a_location(tmp_path: Path) -> None:
    table = pq.read_table(geoparquet(tmp_path / "one.parquet"))
    geo = json.loads(table.schema.metadata[b"geo"])
    geo["columns"]["home"] = geo["columns"]["geometry"]
    table = table.append_column("home", table["geometry"]).replace_schema_metadata({b"geo": json.dumps(geo)})
    pq.write_table(table, tmp_path / "two.parquet")
    with pytest.raises(DataError, match="column 'home' holds a second geometry"):
        read_people(tmp_path / "two.parquet")
    assert read_people(tmp_path / "two.parquet", ReadOptions(drop=("home",))).carried.column_names == ["id"]


def test_metadata_of_columns_and_of_pandas_is_left_out(tmp_path: Path) -> None:
    field = pa.field("id", pa.int64(), metadata={b"stats": b"centroid 37.7749"})
    schema = pa.schema(
        [field, pa.field("lat", pa.float64()), pa.field("lon", pa.float64())], {b"pandas": b'{"a": 37.7749}'}
    )
    pq.write_table(pa.table([[1], [37.7], [-122.4]], schema=schema), tmp_path / "in.parquet")
    write_people(read_people(tmp_path / "in.parquet").with_points(MOVED[:1]), tmp_path / "out.parquet")
    assert b"37.7749" not in (tmp_path / "out.parquet").read_bytes()
    out = pq.read_schema(tmp_path / "out.parquet")
    assert set(out.metadata) == {b"nearveil"}
    assert not (out.field("id").metadata or {}).get(b"stats")


@pytest.mark.parametrize("rows", [None, np.array([1, 0])])
def test_metadata_within_columns_is_left_out(tmp_path: Path, rows: IntArray | None) -> None:
    """Whether the order of rows is kept or not."""
    part = pa.field("n", pa.int64(), metadata={b"stats": b"centroid 37.7749"})
    struct, pair = {"n": 1}, [{"n": 1}, {"n": 2}]
    tensor = pa.fixed_shape_tensor(pa.int64(), (2,), dim_names=["37.7749"])
    columns = {
        "struct": pa.array([struct] * 2, pa.struct([part])),
        "list": pa.array([pair] * 2, pa.list_(pa.field("e", pa.struct([part]), metadata={b"near": b"37.7749"}))),
        "large": pa.array([[1]] * 2, pa.large_list(part)),
        "fixed": pa.array([[1, 2]] * 2, pa.list_(part, 2)),
        "view": pa.array([[1]] * 2, pa.list_view(part)),
        "map": pa.array([[("a", struct)]] * 2, pa.map_(pa.string(), pa.struct([part]))),
        "tensor": pa.ExtensionArray.from_storage(tensor, pa.array([[1, 2]] * 2, pa.list_(pa.int64(), 2))),
        "deep": pa.array([{"a": [{"b": [1]}]}] * 2, pa.struct([("a", pa.list_(pa.struct([("b", pa.list_(part))])))])),
    }
    table = pa.table({**columns, "lat": [37.7, 37.8], "lon": [-122.4, -122.5]})
    pq.write_table(table, tmp_path / "in.parquet")
    people = read_people(tmp_path / "in.parquet").with_points(MOVED)
    write_people(people if rows is None else people.taken(rows), tmp_path / "out.parquet")
    out = pq.read_table(tmp_path / "out.parquet")
    assert "37.7749" not in out.schema.to_string(show_field_metadata=True)
    assert b"37.7749" not in (tmp_path / "out.parquet").read_bytes()
    assert b"37.7749" not in base64.b64decode(pq.read_metadata(tmp_path / "out.parquet").metadata[b"ARROW:schema"])
    for name, column in columns.items():
        stored = column.storage if name == "tensor" else column
        assert out[name].to_pylist() == stored.to_pylist()


def test_people_do_not_print_their_places(tmp_path: Path) -> None:
    assert "37.7" not in repr(read_people(write(tmp_path / "in.csv", CSV)))


def test_a_file_without_a_header_does_not_end_up_in_a_message(tmp_path: Path) -> None:
    source = write(tmp_path / "in.csv", "37.7,-122.4\n37.71,-122.41\n")
    with pytest.raises(DataError, match="no header line") as caught:
        read_people(source, ReadOptions(latitude="lat", longitude="lon"))
    # Of the path, which may have any number in it, nothing is looked at.
    assert "122" not in str(caught.value).replace(str(tmp_path), "")


@pytest.mark.parametrize(
    "line",
    [
        "ann;37.7749°;-122.4194°",
        "ann,37.7749 N,122.4194 W",
        "ann,9q8yyk8ytpxr,12 Main St",
        "ann,u33dc0cppz7d,Main St",
        "ann~37.7749 N",
        "ann,POINT Z (-122.4194 37.7749 3)",
        "ann,37° 46′ 29″,122° 25′ 10″",
        "37.7749°|-122.4194°|ann",
    ],
)
@pytest.mark.parametrize(
    "read", [ReadOptions(), ReadOptions(location="geom"), ReadOptions(latitude="a", longitude="b")]
)
def test_a_first_line_of_data_is_not_shown(tmp_path: Path, line: str, read: ReadOptions) -> None:
    source = write(tmp_path / "in.csv", f"{line}\n{line}\n")
    with pytest.raises(DataError, match=r"columns=|no header line") as caught:
        read_people(source, read)
    assert not any(part in str(caught.value) for part in ("37.77", "122.4", "46", "9q8", "u33", "Main", "ann"))


def test_names_of_columns_are_shown(tmp_path: Path) -> None:
    source = write(tmp_path / "in.csv", "id,Höhe,L\u00e4nge,pm2.5,col_1\n1,37.7,-122.4,3,4\n")
    with pytest.raises(DataError, match=r"'id', 'Höhe', 'Länge', 'pm2.5', 'col_1'"):
        read_people(source)


@pytest.mark.parametrize(
    ("content", "read"),
    [
        (b"id,latitude,longitude\n1,37.774911 N,-122.4\n", ReadOptions()),
        (b'id,latitude,longitude\n1,37.7,-122.4\n2,"37.774911,-122.4\n3,37.7,-122.4\n', ReadOptions()),
        ("id,latitude,longitude\n\u00e9,37.774911,-122.4\n".encode("latin-1"), ReadOptions(encoding="utf-8")),
        (b"id,latitude,longitude\n1,37.774911,-122.4\n", ReadOptions(encoding="utf-16")),
    ],
)
def test_an_error_holds_no_line_of_the_file(tmp_path: Path, content: bytes, read: ReadOptions) -> None:
    (tmp_path / "in.csv").write_bytes(content)
    for act in (
        lambda: read_people(tmp_path / "in.csv", read),
        lambda: protect_file(tmp_path / "in.csv", tmp_path / "out.csv", read=read),
    ):
        with pytest.raises(DataError) as caught:
            act()
        assert "37.77" not in str(caught.value)
        assert caught.value.__context__ is None
