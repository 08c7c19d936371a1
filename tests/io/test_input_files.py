"""Files as people have them: other delimiters, encodings, reference systems, locations as text, and bad rows."""

import csv
import gzip
import io
import json
import os
import stat
import struct
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearveil.errors import DataError, NearveilError, OutputError, UsageError
from nearveil.geodesy import degrees_from, degrees_to
from nearveil.io.columns import points_from_wkb, wkb_from_points
from nearveil.io.files import open_people, people_writer, read_people, write_people
from nearveil.io.people import ReadOptions
from nearveil.region import Region
from tests.io.samples import MOVED, geojson, geoparquet, write

HERE = [[37.7, -122.4]]


def hex_point(start: str, form: str, *values: float) -> str:
    return start + struct.pack(form, *values).hex().upper()


# The same place as PostGIS writes it; in another system, where it is somewhere else; and with a height.
HEX = {
    "postgis": hex_point("0101000020", "<Idd", 4326, -122.4, 37.7),
    "wkb": hex_point("0101000000", "<dd", -122.4, 37.7),
    "big-endian": hex_point("0020000001", ">Idd", 4326, -122.4, 37.7),
    "3857": hex_point("0101000020", "<Idd", 3857, -122.4, 37.7),
    "z": hex_point("01010000A0", "<Iddd", 4326, -122.4, 37.7, 9.0),
}


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("in.csv", "id;lat;lon\nZoë;37.7;-122.4\n", {}),
        ("in.csv", "id;lat;lon\nZoë;37,7;-122,4\n", {}),
        ("in.csv", 'id,lat,lon\nZoë,"37,7","-122,4"\n', {}),
        ("in.tsv", "id\tlat\tlon\nZoë\t37.7\t-122.4\n", {}),
        ("in.txt", "id|lat|lon\nZoë|37.7|-122.4\n", {}),
        ("in.csv", "id:lat:lon\nZoë:37.7:-122.4\n", {"delimiter": ":"}),
        ("in.csv", "id\tlat\tlon\nZoë\t37.7\t-122.4\n", {"delimiter": "tab"}),
        ("in.csv", "a,b;lat;lon\nZoë;37.7;-122.4\n", {}),
        ("in.csv", "Zoë,37.7,-122.4\n", {"columns": ("id", "lat", "lon")}),
        ("in.csv", "Zoë;37,7;-122,4\n", {"columns": ("id", "lat", "lon")}),
        ("in.csv", "id,lat,lon\nZoë,37.7,-122.4\n".encode("latin-1"), {"encoding": "latin-1"}),
        ("in.csv", "id,lat,lon\nZoë,37.7,-122.4\n".encode("utf-16"), {}),
        ("in.csv", "id,lat,lon\nZoë,37.7,-122.4\n".encode("utf-16-be"), {"encoding": "utf-16-be"}),
        ("in.csv", "id,where\nZoë,POINT(-122.4 37.7)\n", {}),
        ("in.csv", "id,where\nZoë,Srid=4326; point ( -122.4  37.7 )\n", {}),
        ("in.csv", 'id,location\nZoë,"37.7, -122.4"\n', {}),
        ("in.csv", "id,location\nZoë,(37.7 -122.4)\n", {}),
        ("in.csv", 'id,home\nZoë,"37.7,-122.4"\n', {"location": "home"}),
        ("in.csv", "id,lat,lon\r\nZoë,37.7°,-122.4 °\r\n\r\n", {}),
        ("in.csv", 'id, Lat , Long \n"Zoë"," 37.7 "," -122.4"\n', {}),
        ("in.csv", gzip.compress("id,lat,lon\nZoë,37.7,-122.4\n".encode(), mtime=0), {}),
        ("in.csv", "sep=:\r\nid:lat:lon\r\nZoë:37.7:-122.4\r\n", {}),
        ("in.csv", '\ufeff"SEP=;"\nid;lat;lon\nZoë;37.7;-122.4\n', {}),
        ("in.csv", "sep=;\nid;lat;lon\nZoë;37,7;-122,4\n".encode("utf-16"), {}),
        (
            "in.csv",
            gzip.compress("sep=,\nZoë;37,7;-122,4\n".encode(), mtime=0),
            {"columns": ("id", "lat", "lon"), "delimiter": ";"},
        ),
        ("in.csv", f"id,geom\nZoë,{HEX['postgis']}\n", {}),
        ("in.csv", f"id,geom\nZoë,{HEX['wkb'].lower()}\n", {}),
        ("in.csv", f"id,geom\nZoë,\\x{HEX['big-endian']}\n", {}),
    ],
)
def test_the_same_person_in_many_files(
    name: str, content: str | bytes, options: dict[str, object], tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    people = read_people(tmp_path / name, ReadOptions(**options))  # type: ignore[arg-type]
    assert people.points.tolist() == HERE
    assert people.carried.column(0).to_pylist() == ["Zoë"]
    # What is written can be read, without saying anything of it but the column of a location that has no usual name.
    write_people(people.with_points(MOVED[:1]), tmp_path / "out.csv")
    back = read_people(tmp_path / "out.csv", ReadOptions(location=options.get("location")))  # type: ignore[arg-type]
    assert back.points.tolist() == MOVED[:1].tolist()
    assert back.carried.column(0).to_pylist() == ["Zoë"]


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (b"id,lat,lon\nZo\xeb,37.7,-122.4\n", {}, "not UTF-8 text; .*encoding=latin-1"),
        ("id,lat,lon\nZoë,37.7,-122.4\n".encode("utf-16-le"), {}, "encoding=utf-16-le"),
        (b"id,lat,lon\nZo\xeb,37.7,-122.4\n", {"encoding": "utf-8"}, "not text in the encoding utf-8"),
        ("id,lat,lon\nZoë,37.7,-122.4\n".encode(), {"encoding": "ascii"}, "not text in the encoding ascii"),
        (b"lat,lon\n37.7,-122.4\n", {"encoding": "klingon"}, "no text encoding 'klingon'"),
        (b"lat,lon\n37.7,-122.4\n", {"delimiter": "ab"}, "delimiter= takes one character"),
        (b"1,37.7,-122.4\n2,37.7,-122.4\n", {}, "no header line.*columns=column1,latitude,longitude"),
        (b"1,37.7,-122.4\n", {"columns": ("lat", "lon")}, "columns= names 2 columns, .* has 3 values"),
        (b"a,b\n1,2\n", {}, "the columns are 'a', 'b'.*location="),
        (b"a,b\n1,2\n", {"location": "c"}, "no column 'c'; the columns are 'a', 'b'"),
        (b"a,b\n1,2\n", {"location": "b"}, "'b' does not hold locations"),
        (b"a,b\n1,2\n", {"location": "b", "latitude": "a", "longitude": "b"}, "leave out latitude="),
        (b"home,work\nPOINT(1 2),POINT(3 4)\n", {}, "'home' and 'work'; name one with location="),
        (b"home,work\nPOINT(1 2),POINT(3 4)\n", {"location": "home"}, "column 'work' holds a second exact"),
        (b"lat,lon,spot\n37.7,-122.4,37.7 -122.4\n", {}, "column 'spot' holds a second exact"),
        (b"id,where\n1,POINT(-122.4 37.7)\n2,POINT(1 2)\n3,here\n", {}, "row 3: the location is empty or not written"),
        (b"id,where\n1,POINT Z(-122.4 37.7 9)\n", {"location": "where"}, "does not hold locations"),
        (b"w\nSRID=25833;POINT(1 2)\n", {}, "row 1 says that it is in EPSG:25833"),
        (
            f"id,geom\n1,{HEX['postgis']}\n2,{HEX['postgis'][:-2]}\n3,{HEX['wkb']}\n".encode(),
            {},
            "row 2: the location .*PostGIS",
        ),
        (f"id,geom\n1,{HEX['3857']}\n".encode(), {}, "row 1 says that it is in EPSG:3857"),
        (f"id,geom\n1,{HEX['z']}\n".encode(), {}, r"column 'geom' holds geometries .*ST_AsText\(ST_Force2D"),
        (f"1,{HEX['postgis']}\n2,{HEX['postgis']}\n".encode(), {}, "no header line"),
        (f"lat,lon,shape\n37.7,-122.4,{HEX['postgis']}\n".encode(), {}, "column 'shape' holds a second exact"),
        (b"id,x,y\n1,551100,4178000\n", {}, "in which reference system with crs="),
        (b"id lat lon\n1 37.7 -122.4\n", {}, "one column, 'id lat lon'; say what separates values with delimiter="),
        (b"id,lat,lat,lon\n1,37.7,37.7,-122.4\n", {}, "there are 2 columns named 'lat'; rename all but one"),
        (b'id,geom\n1,\n2,"POLYGON((1 2, 3 4, 5 6, 1 2))"\n', {}, "column 'geom' holds polygons; give one point"),
        (b"id,lat,lon\n1,37.7 N,122.4 W\n", {}, "row 1: the latitude .* minus sign instead of S or W"),
        (b"id,lat,lon\n1,37.7,-122.4\n2,37.7,\n3,,-122.4\n", {}, "row 2: the longitude is empty"),
        (b"id,lat,lon\n", {}, "no rows; give at least one person"),
        (b"", {}, "is empty; give at least one person"),
        (b'{"type": "FeatureCollection", "features": []}', {}, "holds GeoJSON, .*rename it to end in .geojson"),
        (b"PK\x03\x04 and so on", {}, "is an Excel or zip file, .*; save it as CSV"),
        (b'id,lat,lon\n1,"37.7,-122.4\n2,37.7,-122.4\n', {}, "row 1 of .* a quotation mark may be missing"),
        (b"sep=;\nid;lat;lon\n1;37.7;-122.4\n2;37.7\n", {}, "row 2 of .* more or fewer values"),
        (b"PAR1 and so on", {}, "holds GeoParquet, .*rename it to end in .parquet"),
        (gzip.compress(b"id,lat,lon\n1,37.7,-122.4\n", mtime=0)[:25], {}, "is damaged; export it again"),
        (b"x,y\n1,2\n", {"crs": "EPSG:0"}, "reference system 'EPSG:0' is not known"),
        (b"x,y\n1,2\n", {"crs": "EPSG:5703"}, "not one of places on a map"),
        (b"a,b\n1,2\n", {"crs": "EPSG:25833"}, "'northing' and 'easting'"),
        (b'x,y\n"551,100",5000000\n', {"crs": "EPSG:25833"}, "row 1: the easting"),
    ],
)
def test_what_is_wrong_is_one_sentence_without_a_place(
    content: bytes, options: dict[str, object], words: str, tmp_path: Path
) -> None:
    (tmp_path / "in.csv").write_bytes(content)
    with pytest.raises(NearveilError, match=words) as caught:
        read_people(tmp_path / "in.csv", ReadOptions(**options))  # type: ignore[arg-type]
    said = str(caught.value).replace(str(tmp_path), "")
    assert not any(secret in said for secret in ("37.7", "122.4", "POINT(", "Zo", HEX["wkb"][-16:]))


# -- reference systems ----------------------------------------------------------------------------------------------


def test_metres_come_back_as_metres(tmp_path: Path) -> None:
    there = degrees_to("EPSG:32610", np.array([[37.7, -122.4], [37.8, -122.5]]))
    rows = "".join(f"{number},{x!r},{y!r}\n" for number, (y, x) in enumerate(there.tolist()))
    people = read_people(write(tmp_path / "in.csv", f"id,x,y\n{rows}"), ReadOptions(crs="EPSG:32610"))
    # A hundredth of a metre is 1e-7 degrees.
    assert np.abs(people.points - [[37.7, -122.4], [37.8, -122.5]]).max() < 2e-7
    write_people(people.with_points(MOVED), tmp_path / "out.csv")
    back = read_people(tmp_path / "out.csv", ReadOptions(crs="EPSG:32610"))
    assert np.abs(back.points - MOVED).max() < 2e-7
    assert (tmp_path / "out.csv").read_text().startswith("id,x,y\n0,5")
    # Formats for degrees get degrees.
    write_people(people.with_points(MOVED), tmp_path / "out.geojson")
    assert read_people(tmp_path / "out.geojson").points.tolist() == MOVED.tolist()


def test_a_copy_of_the_metres_is_a_second_location(tmp_path: Path) -> None:
    source = write(tmp_path / "in.csv", "x,y,rechts\n551000.25,4180000.5,551000.25\n551100.25,4180100.5,551100.25\n")
    with pytest.raises(DataError, match="'rechts' holds a second exact location"):
        read_people(source, ReadOptions(crs="EPSG:32610"))


def test_geoparquet_in_metres_stays_in_metres(tmp_path: Path) -> None:
    system = {"id": {"authority": "EPSG", "code": 32610}}
    table = pq.read_table(geoparquet(tmp_path / "degrees.parquet", crs=system))
    metres = degrees_to("EPSG:32610", points_from_wkb(table["geometry"]))
    moved = table.set_column(1, "geometry", wkb_from_points(metres)).replace_schema_metadata(table.schema.metadata)
    pq.write_table(moved.drop_columns("bbox"), tmp_path / "in.parquet")
    people = read_people(tmp_path / "in.parquet")
    assert np.abs(people.points - [[37.7, -122.4], [37.8, -122.5]]).max() < 2e-7
    write_people(people.with_points(MOVED), tmp_path / "out.parquet")
    out = pq.read_table(tmp_path / "out.parquet")
    geo = json.loads(out.schema.metadata[b"geo"])
    assert geo["columns"]["geometry"]["crs"]["id"] == {"authority": "EPSG", "code": 32610}
    assert np.abs(degrees_from("EPSG:32610", points_from_wkb(out["geometry"])) - MOVED).max() < 2e-7
    with pytest.raises(DataError, match="leave out crs="):
        read_people(tmp_path / "in.parquet", ReadOptions(crs="EPSG:32610"))


def test_geoparquet_without_a_system_is_in_degrees_and_an_unknown_one_is_asked_for(tmp_path: Path) -> None:
    places = [[37.7, -122.4], [37.8, -122.5]]
    assert read_people(geoparquet(tmp_path / "degrees.parquet")).points.tolist() == places
    unknown = geoparquet(tmp_path / "unknown.parquet", crs=None)
    with pytest.raises(DataError, match=r"reference system is unknown .*crs=, such as EPSG:4326"):
        read_people(unknown)
    for crs in ("EPSG:4326", "OGC:CRS84"):
        people = read_people(unknown, ReadOptions(crs=crs))
        assert people.points.tolist() == places
        assert people.layout.geometry_crs is None
    assert read_people(unknown, ReadOptions(crs="EPSG:4269")).layout.geometry_crs == "EPSG:4269"
    with pytest.raises(DataError, match="without an EPSG number"):
        read_people(unknown, ReadOptions(crs="+proj=aeqd +lat_0=37 +lon_0=-122"))


def test_geojson_in_metres_is_read_in_degrees(tmp_path: Path) -> None:
    metres = degrees_to("EPSG:3857", np.array(HERE))[0].tolist()
    features = [{"type": "Feature", "geometry": {"type": "Point", "coordinates": metres[::-1]}}]
    document = {"type": "FeatureCollection", "crs": {"properties": {"name": "urn:ogc:def:crs:EPSG::3857"}}}
    source = write(tmp_path / "in.geojson", json.dumps({**document, "features": features}))
    assert np.abs(read_people(source).points - HERE).max() < 2e-7
    plain = geojson(tmp_path / "plain.geojson", features)
    assert np.abs(read_people(plain, ReadOptions(crs="EPSG:3857")).points - HERE).max() < 2e-7


# -- regions --------------------------------------------------------------------------------------------------------


def test_a_region_is_named_where_all_are_in_it(san_francisco: Region) -> None:
    berlin = [52.5, 13.4]
    with pytest.raises(DataError, match="region=berlin"):
        san_francisco.check([berlin, berlin])
    for others in ([37.7, -122.4], [48.8, 2.35]):
        with pytest.raises(DataError, match=r"holds everybody with region="):
            san_francisco.check([berlin, others])


# -- rows that cannot be used ---------------------------------------------------------------------------------------

MIXED = "id,lat,lon\n1,37.7,-122.4\n2,north,-122.4\n3,37.7\n4,48.8,2.3\n5,,\n6,37.8,-122.5\n"


def test_bad_rows_go_to_their_file(tmp_path: Path, san_francisco: Region) -> None:
    bad = tmp_path / "bad.csv"
    stream = open_people(write(tmp_path / "in.csv", MIXED), ReadOptions(skip_bad=bad), region=san_francisco)
    for _ in range(2):
        assert [people.carried["id"].to_pylist() for people in stream.batches()] == [["1", "6"]]
    assert bad.read_text().splitlines() == [
        "bad_row,bad_because,id,lat,lon",
        "2,lat is not a number,2,north,-122.4",
        '4,"outside the region, to the north-east",4,48.8,2.3',
        "5,lat is empty; lon is empty,5,,",
        '3,"has 2 values, and the header 3 columns","3,37.7"',
    ]
    assert stat.S_IMODE(bad.stat().st_mode) == 0o600
    (sentence,) = stream.warnings
    assert "4 of 6 rows" in sentence
    assert "do not publish" in sentence
    assert not any(secret in sentence for secret in ("north", "48.8", "37.7"))
    # The same rows may be written again; others replace nothing.
    bad.chmod(0o644)
    read_people(tmp_path / "in.csv", ReadOptions(skip_bad=bad), region=san_francisco)
    assert stat.S_IMODE(bad.stat().st_mode) == 0o600
    before = bad.read_text()
    for rows in (MIXED + "7,north,-122.4\n", "id,lat,lon\n1,37.7,-122.4\n"):
        with pytest.raises(OutputError, match="exists already"):
            read_people(write(tmp_path / "in.csv", rows), ReadOptions(skip_bad=bad), region=san_francisco)
    assert bad.read_text() == before


def test_those_to_be_clipped_are_no_bad_rows(tmp_path: Path, san_francisco: Region) -> None:
    read = ReadOptions(skip_bad=tmp_path / "bad.csv", clip=True)
    people = read_people(write(tmp_path / "in.csv", MIXED), read, region=san_francisco)
    assert people.carried["id"].to_pylist() == ["1", "4", "6"]


def test_bad_rows_of_other_formats(tmp_path: Path, san_francisco: Region) -> None:
    wkb = wkb_from_points(np.array([[37.7, -122.4], [48.8, 2.3], [37.8, -122.5]])).to_pylist()
    table = pa.table({"id": [1, 2, 3, 4], "geometry": [wkb[0], b"\x01", wkb[1], wkb[2]]})
    geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": {"encoding": "WKB"}}}
    pq.write_table(table.replace_schema_metadata({b"geo": json.dumps(geo)}), tmp_path / "in.parquet")
    read = ReadOptions(skip_bad=tmp_path / "bad.csv")
    people = read_people(tmp_path / "in.parquet", read, region=san_francisco)
    assert people.carried["id"].to_pylist() == [1, 4]
    assert people.points.tolist() == [[37.7, -122.4], [37.8, -122.5]]
    said = '2,"geometry is missing, no plain point, or not where the columns say",2,01'
    assert said in (tmp_path / "bad.csv").read_text().splitlines()
    point = {"type": "Feature", "properties": {"id": 1}, "geometry": {"type": "Point", "coordinates": [-122.4, 37.7]}}
    source = geojson(tmp_path / "in.geojson", [{"type": "Feature", "geometry": None}, point, 7])
    read = ReadOptions(skip_bad=tmp_path / "features.csv")
    assert read_people(source, read, region=san_francisco).carried["id"].to_pylist() == [1]
    assert '3,"geometry is missing, no plain point, or' in (tmp_path / "features.csv").read_text()


def test_what_is_wrong_with_a_bad_row_of_text_or_of_exchanged_columns(tmp_path: Path) -> None:
    region = Region(south=-10, west=-10, north=0, east=20)
    rows = ["POINT (1 -1)", "here", "", "POINT (-1 1)", "POINT (1 5)"]
    source = write(tmp_path / "in.csv", "id,where\n" + "".join(f"{n},{row}\n" for n, row in enumerate(rows)))
    read_people(source, ReadOptions(skip_bad=tmp_path / "bad.csv"), region=region)
    assert [bad["bad_because"] for bad in csv.DictReader((tmp_path / "bad.csv").read_text().splitlines())] == [
        "where is not a point that can be read",
        "where is empty",
        "outside the region, but inside with latitude and longitude exchanged",
        "outside the region, to the north",
    ]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("1,4180000,551000\n", "look like metres"),
        ("1,-122.4,37.7\n", "exchanged"),
        ("1,52.5,13.4\n", "region=berlin"),
    ],
)
def test_what_is_wrong_with_a_whole_file_is_no_matter_of_rows(
    rows: str, words: str, tmp_path: Path, san_francisco: Region
) -> None:
    source = write(tmp_path / "in.csv", "id,lat,lon\n" + rows)
    with pytest.raises(DataError, match=words):
        read_people(source, ReadOptions(skip_bad=tmp_path / "bad.csv"), region=san_francisco)
    assert not (tmp_path / "bad.csv").exists()


@pytest.mark.parametrize("rows", ['1,"37.7,-122.4\n2,37.7,-122.4\n', "1,37.7\n2,37.7\n", "1,97,-122.4\n2\n", "1,,\n"])
def test_where_all_rows_are_bad_their_file_says_why(rows: str, tmp_path: Path, san_francisco: Region) -> None:
    source = write(tmp_path / "in.csv", "id,lat,lon\n" + rows)
    with pytest.raises(DataError, match=r"no row can be used; .*bad\.csv says what is wrong with each"):
        read_people(source, ReadOptions(skip_bad=tmp_path / "bad.csv"), region=san_francisco)
    assert (tmp_path / "bad.csv").read_text().startswith("bad_row,bad_because,id,lat,lon\n1,")


def test_without_bad_rows_there_is_no_file(tmp_path: Path, san_francisco: Region) -> None:
    source = write(tmp_path / "in.csv", "id,lat,lon\n1,37.7,-122.4\n")
    people = read_people(source, ReadOptions(skip_bad=tmp_path / "bad.csv"), region=san_francisco)
    assert people.warnings == ()
    assert not (tmp_path / "bad.csv").exists()


# -- pipes ----------------------------------------------------------------------------------------------------------


def given_to_stdin(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize("name", ["in.csv", "in.geojson", "in.parquet"])
def test_standard_input_is_read_by_what_it_holds(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    people = read_people(write(tmp_path / "a.csv", "id,lat,lon\n1,37.7,-122.4\n"))
    write_people(people, tmp_path / name)
    given_to_stdin((tmp_path / name).read_bytes(), monkeypatch)
    stream = open_people("-")
    # As often as needed.
    for _ in range(2):
        assert next(stream.batches()).points.tolist() == HERE
    assert stream.extension == Path(name).suffix


def test_standard_input_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    given_to_stdin(b"", monkeypatch)
    with pytest.raises(DataError, match="standard input is empty"):
        open_people("-")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    with pytest.raises(UsageError, match="standard input is a terminal"):
        open_people("-")


def test_a_named_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text("lat,lon\n37.7,-122.4\n"))
    writer.start()
    stream = open_people(pipe)
    writer.join()
    assert [stream.read_all().points.tolist() for _ in range(2)] == [HERE] * 2


def test_standard_output_gets_everything_or_nothing(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    people = read_people(write(tmp_path / "a.csv", "id,lat,lon\n1,37.7,-122.4\n"))
    with pytest.raises(RuntimeError), people_writer(Path("-")) as writer:
        writer.write(writer.prepared(people))
        raise RuntimeError
    assert capsysbinary.readouterr().out == b""
    for extension, content in (
        (".csv", b"id,lat,lon\n1,37.7,-122.4\n"),
        (".tsv.gz", b"id\tlat\tlon\n1\t37.7\t-122.4\n"),
    ):
        with people_writer(Path("-"), extension=extension) as writer:
            writer.write(writer.prepared(people))
        assert capsysbinary.readouterr().out == content
