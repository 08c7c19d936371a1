"""CSV, GeoJSON and GeoParquet in and out: everything but the location is carried over unchanged."""

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearveil.errors import DataError, OutputError, UsageError
from nearveil.io.columns import points_from_wkb, wkb_from_points
from nearveil.io.files import read_people, write_people
from nearveil.io.people import People, ReadOptions
from tests.io.samples import CSV, FEATURES, MOVED, geojson, geoparquet, write

# -- CSV -----------------------------------------------------------------------------------------------------------


def test_csv_keeps_every_other_value_as_it_is(tmp_path: Path) -> None:
    people = read_people(write(tmp_path / "in.csv", CSV))
    assert people.points.tolist() == [[37.7, -122.4], [37.8, -122.5]]
    write_people(people.with_points(MOVED), tmp_path / "out.csv")
    expected = CSV.replace("37.7,", "37.123456,").replace("-122.4,", "-122.654321,")
    expected = expected.replace("37.8,", "37.5,").replace("-122.5,", "-122.25,")
    assert (tmp_path / "out.csv").read_text() == expected


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\ufeff"), max_size=12),
            st.floats(-90, 90).map(lambda value: round(value, 6)),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_csv_there_and_back(rows: list[tuple[str, float]]) -> None:
    import tempfile

    points = np.array([[value, value] for _, value in rows])
    table = pa.table({"note": [text for text, _ in rows]})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p.csv"
        from nearveil.io.people import Layout, LocationColumn

        write_people(People(points, table, Layout(LocationColumn("lat", 1), LocationColumn("lon", 2))), path)
        back = read_people(path)
    assert back.carried["note"].to_pylist() == [text for text, _ in rows]
    assert (back.points == points).all()


def test_gzipped_csv_in_and_out(tmp_path: Path) -> None:
    (tmp_path / "in.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    people = read_people(tmp_path / "in.csv.gz")
    write_people(people, tmp_path / "out.csv.gz")
    assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()).decode() == CSV


def test_byte_order_mark_and_crlf(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes(b"\xef\xbb\xbflat,lon\r\n37.7,-122.4\r\n")
    assert read_people(tmp_path / "in.csv").points.tolist() == [[37.7, -122.4]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("\n", "is empty or no CSV"),
        ("lat,lon\n", "no rows"),
        ("a,b\n1,2\n", "no coordinate columns"),
        ("id\n1,37.7,-122.4\n", "row 1 of .* several values, and the header names one column"),
        ("lat,lon\n37.7,-122.4\n37.7,west\n", "row 2: the longitude is empty or not a number"),
        ("lat,lon\n37.7,-122.4\n,-122.4\n", "row 2: the latitude is empty or not a number"),
        ('lat,lon\n"37,7,1",-122.4\n', "row 1: the latitude"),
        ("lat,lon\n1,2\n3,4,5\n", "row 2 of .* more or fewer values"),
        ("lat,lon,wkt\n1,2,POINT(2 1)\n", "column 'wkt' holds a second exact location"),
    ],
)
def test_bad_csv_names_the_row_and_no_value(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read_people(write(tmp_path / "in.csv", text))
    for secret in ("west", "122", "POINT"):
        # Of the path, which may have any number in it, nothing is looked at.
        assert secret not in str(caught.value).replace(str(tmp_path), "")


def test_rows_are_counted_across_blocks(tmp_path: Path) -> None:
    lines = ["lat,lon"] + ["37.7,-122.4"] * 200_000
    lines[150_001] = "37.7,-122.4,1"
    with pytest.raises(DataError, match="row 150001 of"):
        read_people(write(tmp_path / "in.csv", "\n".join(lines)))


# -- GeoJSON -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ([], "no features"),
        ([{"type": "Feature", "geometry": None}], "row 1: the feature has no point"),
        ([*FEATURES, {"type": "Feature", "geometry": {"type": "LineString", "coordinates": []}}], "row 3"),
        ([{"type": "Feature", "geometry": {"type": "Point", "coordinates": ["1", "2"]}}], "row 1"),
        ([{"type": "Feature", "geometry": {"type": "Point", "coordinates": [1]}}], "row 1"),
        ("no", "FeatureCollection"),
    ],
)
def test_bad_geojson(features: object, words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=words):
        read_people(geojson(tmp_path / "in.geojson", features))


def test_damaged_geojson(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="damaged"):
        read_people(write(tmp_path / "in.geojson", '{"type": "FeatureCollection", "fea'))
    with pytest.raises(DataError, match="leave out latitude="):
        read_people(geojson(tmp_path / "fine.geojson"), ReadOptions(latitude="a", longitude="b"))


# -- Parquet -------------------------------------------------------------------------------------------------------

PLAIN = pa.table(
    {"id": [1, 2], "lat": [37.7, 37.8], "lon": [-122.4, -122.5], "when": pa.array([1, 2], pa.timestamp("s"))}
)


def test_plain_parquet_keeps_types_and_gains_a_geometry_if_its_name_says_so(tmp_path: Path) -> None:
    pq.write_table(PLAIN, tmp_path / "in.parquet")
    people = read_people(tmp_path / "in.parquet")
    write_people(people.with_points(MOVED), tmp_path / "out.geoparquet", metadata={"seeded": False})
    out = pq.read_table(tmp_path / "out.geoparquet")
    assert out.column_names == ["id", "lat", "lon", "when", "geometry"]
    assert out.schema.field("when").type == pa.timestamp("s") or out.schema.field("when").type == pa.timestamp("ms")
    assert out["lat"].to_pylist() == MOVED[:, 0].tolist()
    assert (points_from_wkb(out["geometry"]) == MOVED).all()
    assert json.loads(out.schema.metadata[b"nearveil"]) == {"seeded": False}
    # What was written can be read again: the two ways of writing the place agree.
    assert (read_people(tmp_path / "out.geoparquet").points == MOVED).all()


def test_geoparquet_is_what_others_read(tmp_path: Path) -> None:
    """GeoPandas' own reader checks the metadata; shapely decodes the points."""
    geopandas = pytest.importorskip("geopandas", reason="the extra 'geo' is not installed")
    write_people(read_people(geoparquet(tmp_path / "in.parquet")).with_points(MOVED), tmp_path / "out.parquet")
    frame = geopandas.read_parquet(tmp_path / "out.parquet")
    assert frame.crs == "OGC:CRS84"
    assert frame.geometry.y.tolist() == MOVED[:, 0].tolist()
    frame.to_parquet(tmp_path / "theirs.parquet")
    assert (read_people(tmp_path / "theirs.parquet").points == MOVED).all()


def test_geometry_and_columns_that_disagree_are_refused(tmp_path: Path) -> None:
    people = read_people(geoparquet(tmp_path / "geo.parquet"))
    table = pq.read_table(tmp_path / "geo.parquet")
    table = table.append_column("lat", [[37.7, 30.0]]).append_column("lon", [[-122.4, -122.5]])
    pq.write_table(table, tmp_path / "in.parquet")
    with pytest.raises(DataError, match="row 2: the geometry and the coordinate columns differ"):
        read_people(tmp_path / "in.parquet")
    kept = read_people(tmp_path / "in.parquet", ReadOptions(drop=("lat", "lon")))
    assert (kept.points == people.points).all()


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"crs": {"id": {"authority": "OGC", "code": "CRS27"}}}, "without an EPSG number"),
        ({"crs": None}, "reference system is unknown"),
        ({"encoding": "polygon"}, "not points"),
    ],
)
def test_other_reference_systems_and_shapes_are_refused(column: dict[str, object], words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=words):
        read_people(geoparquet(tmp_path / "in.parquet", **column))


def test_epsg_4326_is_read_as_longitude_latitude(tmp_path: Path) -> None:
    people = read_people(geoparquet(tmp_path / "in.parquet", crs={"id": {"authority": "EPSG", "code": 4326}}))
    assert people.points[0].tolist() == [37.7, -122.4]


def test_native_point_encoding(tmp_path: Path) -> None:
    points = pa.array([{"x": -122.4, "y": 37.7}])
    geo = {
        "version": "1.1.0",
        "primary_column": "p",
        "columns": {"p": {"encoding": "point", "geometry_types": ["Point"]}},
    }
    pq.write_table(pa.table({"p": points}).replace_schema_metadata({b"geo": json.dumps(geo)}), tmp_path / "in.parquet")
    assert read_people(tmp_path / "in.parquet").points.tolist() == [[37.7, -122.4]]


def test_truncated_parquet_and_missing_geometry(tmp_path: Path) -> None:
    data = geoparquet(tmp_path / "in.parquet").read_bytes()
    for part in (data[: len(data) // 2], data[4:], b"PAR1"):
        (tmp_path / "cut.parquet").write_bytes(part)
        with pytest.raises(DataError, match="damaged, cut short or no Parquet"):
            read_people(tmp_path / "cut.parquet")
    with pytest.raises(DataError, match="row 2: the geometry is missing"):
        points_from_wkb(pa.chunked_array([[wkb_from_points(MOVED)[0].as_py()], [None]], pa.binary()))


# -- across formats, and the rest ------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["in.csv", "in.geojson", "in.parquet"])
@pytest.mark.parametrize("target", ["out.csv", "out.geojson", "out.parquet", "out.csv.gz"])
def test_every_format_to_every_format(source: str, target: str, tmp_path: Path) -> None:
    if source.endswith("csv"):
        write(tmp_path / source, CSV)
    elif source.endswith("geojson"):
        geojson(tmp_path / source)
    else:
        geoparquet(tmp_path / source)
    write_people(read_people(tmp_path / source).with_points(MOVED), tmp_path / target)
    again = read_people(tmp_path / target)
    assert (again.points == MOVED).all()
    if source.endswith("csv"):
        assert again.carried["note"].to_pylist() == ['a, "quoted" b', "two\nlines"]


def test_unknown_formats_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"format of people\.xlsx is not known"):
        read_people(tmp_path / "people.xlsx")
    with pytest.raises(DataError, match="there is no file"):
        read_people(tmp_path / "people.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        read_people(tmp_path / "folder.csv")


def test_dropped_columns_are_gone(tmp_path: Path) -> None:
    people = read_people(write(tmp_path / "in.csv", CSV), ReadOptions(drop=("note", "empty")))
    assert people.carried.column_names == ["id"]
    with pytest.raises(DataError, match="no column 'nope'"):
        read_people(tmp_path / "in.csv", ReadOptions(drop=("nope",)))


def test_nothing_is_overwritten_and_nothing_half_written(tmp_path: Path) -> None:
    people = read_people(write(tmp_path / "in.csv", CSV))
    (tmp_path / "out.csv").write_text("precious")
    with pytest.raises(OutputError, match="exists already"):
        write_people(people, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "precious"
    write_people(people, tmp_path / "out.csv", force=True)
    assert (tmp_path / "out.csv").read_text() == CSV
    with pytest.raises(OutputError, match="folder does not exist"):
        write_people(people, tmp_path / "nowhere" / "out.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "out.csv"]


def test_a_failure_while_writing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    people = read_people(write(tmp_path / "in.csv", CSV))

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OutputError, match="the disk is full"):
        write_people(people, tmp_path / "out.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_a_file_made_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    from nearveil.io.atomic import replacing

    with pytest.raises(OutputError, match="exists already"), replacing(tmp_path / "out.txt", force=False) as partial:
        partial.write_text("mine")
        (tmp_path / "out.txt").write_text("theirs")
    assert (tmp_path / "out.txt").read_text() == "theirs"
    assert len(list(tmp_path.iterdir())) == 1


def test_gzip_is_recognised_by_its_content(tmp_path: Path) -> None:
    for name in ("IN.CSV.GZ", "plain.csv"):
        (tmp_path / name).write_bytes(gzip.compress(CSV.encode()))
        assert len(read_people(tmp_path / name)) == 2


def test_what_a_format_cannot_hold_is_said(tmp_path: Path) -> None:
    pq.write_table(pa.table({"lat": [37.7], "lon": [-122.4], "tags": [["a"]], "raw": [b"x"]}), tmp_path / "in.parquet")
    people = read_people(tmp_path / "in.parquet")
    with pytest.raises(DataError, match="column 'tags' holds lists"):
        write_people(people, tmp_path / "out.csv")
    with pytest.raises(DataError, match="bytes, which GeoJSON cannot hold"):
        write_people(people, tmp_path / "out.geojson")
    twice = read_people(write(tmp_path / "in.csv", "a,a,lat,lon\n1,2,37.7,-122.4\n"))
    with pytest.raises(DataError, match="same name"):
        write_people(twice, tmp_path / "out.geojson")
    write_people(twice, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().startswith("a,a,lat,lon\n1,2,")
    assert read_people(tmp_path / "in.csv", ReadOptions(drop=("a",))).carried.num_columns == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "in.parquet", "out.csv"]


def test_numbers_and_letters_that_json_has_no_room_for(tmp_path: Path) -> None:
    pq.write_table(pa.table({"lat": [37.7], "lon": [-122.4], "score": [float("nan")]}), tmp_path / "in.parquet")
    write_people(read_people(tmp_path / "in.parquet"), tmp_path / "out.geojson")
    assert json.loads((tmp_path / "out.geojson").read_text())["features"][0]["properties"] == {"score": None}
    odd = [
        {**FEATURES[1], "properties": {"s": "\ud800", "n": 10**30, "mixed": 1}},
        {**FEATURES[1], "properties": {"mixed": "x"}},
    ]
    people = read_people(geojson(tmp_path / "odd.geojson", odd))
    assert people.carried["mixed"].to_pylist() == ["1", "x"]
    write_people(people, tmp_path / "odd-out.geojson")
    assert json.loads((tmp_path / "odd-out.geojson").read_text())["features"][0]["properties"]["n"] == 10**30


def test_points_alone_become_any_format(tmp_path: Path) -> None:
    people = read_people(geojson(tmp_path / "in.geojson", [FEATURES[1]]))
    for name in ("out.csv", "out.parquet"):
        write_people(people, tmp_path / name)
        assert read_people(tmp_path / name).points.tolist() == [[37.8, -122.5]]


def test_other_reference_systems_in_geojson_are_refused(tmp_path: Path) -> None:
    document = {"type": "FeatureCollection", "crs": {"properties": {"name": "my own"}}, "features": FEATURES}
    with pytest.raises(DataError, match="without an EPSG number"):
        read_people(write(tmp_path / "in.geojson", json.dumps(document)))


def test_links_and_modes_survive_replacement(tmp_path: Path) -> None:
    people = read_people(write(tmp_path / "in.csv", CSV))
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "real.csv").chmod(0o600)
    (tmp_path / "link.csv").symlink_to("real.csv")
    write_people(people, tmp_path / "link.csv", force=True)
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == CSV
    assert (tmp_path / "real.csv").stat().st_mode & 0o777 == 0o600
    with pytest.raises(OutputError, match="name is too long"):
        write_people(people, tmp_path / ("x" * 300 + ".csv"))
    write_people(people, tmp_path / ("x" * 240 + ".csv"))


@pytest.mark.parametrize("extension", ["parquet", "csv", "geojson"])
def test_views_of_text_are_carried_as_text(tmp_path: Path, extension: str) -> None:
    names = pa.array(["a", None, "a text of more than twelve letters"], pa.string_view())
    table = pa.table({"name": names, "lat": [37.7, 37.8, 37.9], "lon": [-122.4, -122.5, -122.6]})
    if extension == "parquet":
        table = table.append_column("raw", names.cast(pa.large_string()).cast(pa.binary_view()))
    pq.write_table(table, tmp_path / "in.parquet")
    people = read_people(tmp_path / "in.parquet").taken(np.array([2, 0]))
    write_people(people, tmp_path / f"out.{extension}")
    again = read_people(tmp_path / f"out.{extension}").carried
    assert again["name"].to_pylist() == ["a text of more than twelve letters", "a"]
    if extension == "parquet":
        assert again["raw"].to_pylist() == [b"a text of more than twelve letters", b"a"]
