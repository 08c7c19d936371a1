"""Files read and written a batch at a time: the same as at once, whatever the batch, and damage is noticed."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearveil.errors import DataError
from nearveil.io.files import open_people, people_writer, read_people, write_people
from tests.io.samples import CSV, FEATURES, geojson, geoparquet, write


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearveil.io.parquet_file._BATCH_ROWS", 7)
    monkeypatch.setattr("nearveil.io.parquet_file._LEAST_BATCH_ROWS", 1)
    monkeypatch.setattr("nearveil.io.csv_file._BLOCK_BYTES", 100)
    monkeypatch.setattr("nearveil.io.parquet_file._ROW_GROUP_ROWS", 20)


def many(rows: int = 100) -> pa.Table:
    numbers = np.arange(rows)
    return pa.table(
        {
            "name": [f"n{number}" if number % 3 else None for number in numbers],
            "lat": 37.6 + numbers / 1000,
            "when": pa.array(numbers, pa.timestamp("ms")),
            "lon": -122.5 + numbers / 1000,
            "tags": [[int(number)] for number in numbers],
            "kind": pa.array([f"k{number % 4}" for number in numbers]).dictionary_encode(),
        }
    )


def test_parquet_in_batches_is_parquet_at_once(tmp_path: Path, small_batches: None) -> None:
    pq.write_table(many(), tmp_path / "in.parquet", row_group_size=30)
    stream = open_people(tmp_path / "in.parquet")
    batches = list(stream.batches())
    assert len(batches) > 10
    assert stream.rows == sum(map(len, batches)) == 100
    assert len(list(stream.batches())) == len(batches)
    with people_writer(tmp_path / "out.parquet") as writer:
        for batch in batches:
            writer.write(writer.prepared(batch))
    out = pq.read_table(tmp_path / "out.parquet")
    assert out.column_names == many().column_names
    # Categories are written as their values.
    place = many().column_names.index("kind")
    expected = many().set_column(place, "kind", many()["kind"].cast(pa.string()))
    assert out.replace_schema_metadata(None).equals(expected)
    assert pq.ParquetFile(tmp_path / "out.parquet").num_row_groups == 5


@pytest.mark.parametrize("target", ["out.csv", "out.csv.gz", "out.geojson", "out.parquet", "out.geoparquet"])
@pytest.mark.parametrize("source", ["in.csv", "in.parquet", "geo.parquet", "in.geojson"])
def test_every_format_in_batches(source: str, target: str, tmp_path: Path, small_batches: None) -> None:
    table = many().drop_columns(["tags"])
    if source == "in.csv":
        lines = [f"n{row},{37.6 + row / 1000:.3f},{-122.5 + row / 1000:.3f}" for row in range(100)]
        write(tmp_path / source, "\n".join(["name,lat,lon", *lines]))
    elif source == "in.geojson":
        geojson(tmp_path / source, [FEATURES[1]] * 30)
    else:
        pq.write_table(table, tmp_path / "in.parquet")
        if source == "geo.parquet":
            write_people(read_people(tmp_path / "in.parquet"), tmp_path / "geo.geoparquet")
            (tmp_path / "geo.geoparquet").rename(tmp_path / "geo.parquet")
    stream = open_people(tmp_path / source)
    with people_writer(tmp_path / target) as writer:
        for batch in stream.batches():
            writer.write(writer.prepared(batch))
    whole, again = read_people(tmp_path / source), read_people(tmp_path / target)
    assert (again.points == whole.points).all()
    if source != "in.geojson":
        assert [str(name) for name in again.carried["name"].to_pylist()][1::3] == [
            f"n{row}" for row in range(1, 100, 3)
        ]


def test_some_columns_only(tmp_path: Path, small_batches: None) -> None:
    pq.write_table(many(), tmp_path / "in.parquet")
    write(tmp_path / "in.csv", "a,a,lat,b,lon\n" + "1,2,37.7,3,-122.4\n" * 40)
    geojson(tmp_path / "in.geojson", [{**FEATURES[1], "properties": {"p": 1, "q": 2}}])
    wanted = {"in.parquet": ([1], ["when"]), "in.csv": ([2, 0], ["b", "a"]), "in.geojson": ([1], ["q"])}
    for name, (positions, names) in wanted.items():
        stream = open_people(tmp_path / name)
        for batch in stream.batches(positions):
            assert batch.carried.column_names == names
            assert len(batch.points) > 0
        assert all(batch.carried.num_columns == 0 for batch in stream.batches(()))


def test_a_plain_parquet_file_stays_plain_and_others_get_what_they_are_for(tmp_path: Path) -> None:
    pq.write_table(many(), tmp_path / "in.parquet")
    write(tmp_path / "in.csv", CSV)
    geoparquet(tmp_path / "geo.parquet")
    for source, target, has_geometry in [
        ("in.parquet", "plain.parquet", False),
        ("in.parquet", "named.geoparquet", True),
        ("in.csv", "from-csv.parquet", True),
        ("geo.parquet", "from-geo.parquet", True),
    ]:
        write_people(read_people(tmp_path / source), tmp_path / target)
        schema = pq.read_schema(tmp_path / target)
        assert ("geometry" in schema.names) is has_geometry
        assert (b"geo" in schema.metadata) is has_geometry


def test_faults_name_the_row_of_the_file(tmp_path: Path, small_batches: None) -> None:
    lines = ["lat,lon"] + ["37.7,-122.4"] * 100
    lines[83] = "37.7,west"
    with pytest.raises(DataError, match="row 83: the longitude"):
        read_people(write(tmp_path / "in.csv", "\n".join(lines)))
    lines[83] = "37.7,-122.4,1"
    with pytest.raises(DataError, match=r"row 83 of .* has more or fewer values"):
        read_people(write(tmp_path / "in.csv", "\n".join(lines)))
    table = pq.read_table(geoparquet(tmp_path / "geo.parquet"))
    longer = pa.concat_tables([table] * 50).append_column("lat", [[37.7, 37.8] * 49 + [37.7, 1.0]])
    longer = longer.append_column("lon", [[-122.4, -122.5] * 50]).replace_schema_metadata(table.schema.metadata)
    pq.write_table(longer, tmp_path / "apart.parquet")
    with pytest.raises(DataError, match="row 100: the geometry and the coordinate columns differ"):
        read_people(tmp_path / "apart.parquet")
    broken = longer.drop_columns(["lat", "lon"]).slice(0, 60)
    broken = broken.set_column(1, "geometry", [[*broken["geometry"].to_pylist()[:-1], None]])
    pq.write_table(broken.replace_schema_metadata(table.schema.metadata), tmp_path / "missing.parquet")
    with pytest.raises(DataError, match="row 60: the geometry is missing"):
        read_people(tmp_path / "missing.parquet")


def test_damage_at_the_end_is_noticed(tmp_path: Path, small_batches: None) -> None:
    pq.write_table(many(3000), tmp_path / "in.parquet", row_group_size=100)
    data = bytearray((tmp_path / "in.parquet").read_bytes())
    group = pq.ParquetFile(tmp_path / "in.parquet").metadata.row_group(25).column(1)
    start = group.dictionary_page_offset or group.data_page_offset
    data[start : start + group.total_compressed_size] = b"\xff" * group.total_compressed_size
    (tmp_path / "in.parquet").write_bytes(data)
    stream = open_people(tmp_path / "in.parquet")
    with pytest.raises(DataError, match="damaged"):
        list(stream.batches())
    text = ("lat,lon,note\n" + "".join(f"37.7,-122.4,{row}\n" for row in range(20_000))).encode()
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(text)[:-200])
    with pytest.raises(DataError, match="damaged"):
        list(open_people(tmp_path / "cut.csv.gz").batches())
    (tmp_path / "late.csv").write_bytes(text + b"37.7,-122.4,\xff\n")
    late = open_people(tmp_path / "late.csv")
    with pytest.raises(DataError, match="UTF-8"):
        list(late.batches())


def test_a_row_group_larger_than_the_buffer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearveil.io.parquet_file._BUFFER_BYTES", 1 << 10)
    pq.write_table(many(5000), tmp_path / "in.parquet")
    assert (read_people(tmp_path / "in.parquet").points[:, 0] == many(5000)["lat"].to_numpy()).all()


def test_wide_rows_come_in_smaller_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearveil.io.parquet_file._LEAST_BATCH_ROWS", 1)
    monkeypatch.setattr("nearveil.io.parquet_file._BATCH_BYTES", 10_000)
    table = pa.table({"lat": [37.7] * 50, "lon": [-122.4] * 50, "note": [f"{row}" * 500 for row in range(50)]})
    pq.write_table(table, tmp_path / "in.parquet", compression=None, use_dictionary=False)
    sizes = [len(batch) for batch in open_people(tmp_path / "in.parquet").batches()]
    assert sum(sizes) == 50
    assert max(sizes) <= 12
