"""Which columns are the place: both ways of writing it must agree, and what is not understood is refused."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearveil.errors import DataError
from nearveil.io.files import open_people, read_people
from tests.io.samples import geoparquet, write


@pytest.mark.parametrize(
    ("lat", "lon"),
    [([37.7, 37.8], [-122.4, -122.6]), ([37.7, 37.9], [-122.4, -122.5]), ([37.7, None], [-122.4, -122.5])],
)
def test_either_coordinate_apart_from_the_geometry_is_refused(
    lat: list[float | None], lon: list[float], tmp_path: Path
) -> None:
    table = pq.read_table(geoparquet(tmp_path / "geo.parquet"))
    pq.write_table(table.append_column("lat", [lat]).append_column("lon", [lon]), tmp_path / "in.parquet")
    with pytest.raises(DataError, match="row 2: the geometry and the coordinate columns differ") as caught:
        read_people(tmp_path / "in.parquet")
    assert not any(digits in str(caught.value) for digits in ("37.", "122."))


@pytest.mark.parametrize("identity", [("OGC", 4326), ("ESRI", 4326), ("EPSG", "CRS84")])
def test_only_one_reference_system_is_taken_for_the_usual(identity: tuple[str, object], tmp_path: Path) -> None:
    crs = {"id": dict(zip(("authority", "code"), identity, strict=True))}
    with pytest.raises(DataError, match="without an EPSG number"):
        read_people(geoparquet(tmp_path / "in.parquet", crs=crs))


def test_a_bounding_box_of_each_row_is_left_out_under_any_name(tmp_path: Path) -> None:
    covering = {"bbox": {"xmin": ["extent", "xmin"], "ymin": ["extent", "ymin"]}}
    table = pq.read_table(geoparquet(tmp_path / "geo.parquet", covering=covering))
    renamed = table.rename_columns(["id", "geometry", "extent"]).replace_schema_metadata(table.schema.metadata)
    pq.write_table(renamed, tmp_path / "in.parquet")
    assert read_people(tmp_path / "in.parquet").carried.column_names == ["id"]


def test_a_structure_that_is_no_point_is_refused(tmp_path: Path) -> None:
    geo = {"version": "1.1.0", "primary_column": "p", "columns": {"p": {"encoding": "point"}}}
    table = pa.table({"p": pa.array([{"east": -122.4, "north": 37.7}])})
    pq.write_table(table.replace_schema_metadata({b"geo": json.dumps(geo)}), tmp_path / "in.parquet")
    with pytest.raises(DataError, match="holds no points"):
        read_people(tmp_path / "in.parquet")


def test_a_header_alone_is_no_file_of_people(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no rows"):
        open_people(write(tmp_path / "in.csv", "lat,lon\n"))
    pq.write_table(
        pa.table({"lat": pa.array([], pa.float64()), "lon": pa.array([], pa.float64())}), tmp_path / "p.parquet"
    )
    with pytest.raises(DataError, match="no rows"):
        open_people(tmp_path / "p.parquet")


def test_a_file_that_lost_its_rows_since_it_was_opened(tmp_path: Path) -> None:
    stream = open_people(write(tmp_path / "in.csv", "lat,lon\n37.7,-122.4\n"))
    write(tmp_path / "in.csv", "lat,lon\n")
    with pytest.raises(DataError, match="no rows"):
        list(stream.batches())


def test_a_row_that_does_not_end_is_said_without_its_text(tmp_path: Path) -> None:
    """A quotation mark that is not closed makes one row of all that follows."""
    rows = "37.7,-122.4,a\n" * 100_000
    source = write(tmp_path / "in.csv", f'lat,lon,note\n37.7,-122.4,"open\n{rows}{rows}')
    with pytest.raises(DataError, match="row of more than 1 MB; is a quotation mark missing") as caught:
        read_people(source)
    # Of the path, which may have any number in it, nothing is looked at.
    assert "122" not in str(caught.value).replace(str(tmp_path), "")


def test_columns_of_one_name_are_told_apart_by_their_position(tmp_path: Path) -> None:
    write(tmp_path / "in.csv", "a,a,lat,b,lon\n1,2,37.7,3,-122.4\n4,5,37.8,6,-122.5\n")
    arrays = [pa.array(values) for values in (["1", "4"], ["2", "5"], [37.7, 37.8], ["3", "6"], [-122.4, -122.5])]
    pq.write_table(pa.table(arrays, names=["a", "a", "lat", "b", "lon"]), tmp_path / "in.parquet")
    for name in ("in.csv", "in.parquet"):
        stream = open_people(tmp_path / name)
        for position, values in enumerate((["1", "4"], ["2", "5"], ["3", "6"])):
            found = next(iter(stream.batches([position])))
            assert found.carried.column(0).to_pylist() == values
            assert found.points.tolist() == [[37.7, -122.4], [37.8, -122.5]]


def test_values_with_line_ends_are_whole_wherever_a_block_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearveil.io.csv_file._BLOCK_BYTES", 150)
    notes = [f"first {row}\nsecond, {row}\r\n" for row in range(60)]
    lines = [f'37.7,-122.4,"{note}"\n' for note in notes]
    with (tmp_path / "in.csv").open("w", encoding="utf-8", newline="") as file:
        file.write("lat,lon,note\n" + "".join(lines))
    stream = open_people(tmp_path / "in.csv")
    assert len(list(stream.batches())) > 5
    assert stream.read_all().carried["note"].to_pylist() == notes
