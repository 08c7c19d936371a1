"""Files as users have them: each is read, or refused in one sentence that says what to do and quotes no value."""

import gzip
import json
import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from nearveil.errors import NearveilError
from nearveil.io.readers import ReadOptions, open_source, read_points

HERE = [[52.520008, 13.404954], [52.51, 13.38]]
Text = str | bytes
HEX = [
    shapely.to_wkb(shapely.set_srid(shapely.Point(lon, lat), 4326), hex=True, include_srid=True) for lat, lon in HERE
]


def table(*lines: str, mark: str = ",") -> str:
    return "\n".join(line.replace(",", mark) for line in lines) + "\n"


def rows(template: str, header: str = "id,lat,lon") -> str:
    """Fill a template with both locations: {0} latitude, {1} longitude, {2} number of the row."""
    return "\n".join([header, *(template.format(lat, lon, row) for row, (lat, lon) in enumerate(HERE))]) + "\n"


def features(*points: object, **extra: object) -> str:
    return json.dumps({"type": "FeatureCollection", "features": list(points), **extra})


def feature(y: float, x: float, **properties: object) -> dict[str, object]:
    return {"type": "Feature", "properties": properties, "geometry": {"type": "Point", "coordinates": [x, y, 7]}}


EXCEL = "\ufeffid;Breitengrad;Längengrad\r\n1;52,520008;13,404954\r\n2;52,51;13,38\r\n"
KML = "".join(f"<Placemark><Point><coordinates>{lon},{lat},0</coordinates></Point></Placemark>" for lat, lon in HERE)
KML = f'<?xml version="1.0"?><kml xmlns="http://www.opengis.net/kml/2.2"><Document>{KML}</Document></kml>'
GPX = "".join(f'<wpt lat="{lat}" lon="{lon}"><name>a</name></wpt>' for lat, lon in HERE)
GPX = f'<?xml version="1.0"?><gpx version="1.1" creator="t" xmlns="http://www.topografix.com/GPX/1/1">{GPX}</gpx>'

WORKS: list[tuple[str, Text, ReadOptions | None]] = [
    ("excel.csv", EXCEL, None),
    ("utf16.csv", EXCEL.encode("utf-16"), None),
    ("latin.csv", EXCEL[1:].encode("latin-1"), ReadOptions(encoding="latin-1")),
    ("tabs.tsv", rows("{2}\t{0}\t{1}", "id\tlat\tlon"), None),
    ("degrees.csv", rows("{2},{0}°,{1} °"), None),
    ("trailing.csv", rows("{2},{0},{1},,", "id,lat,lon,,"), None),
    ("quoted.csv", rows('"two\nlines, {2}","{0}","{1}"'), None),
    ("no-header.csv", "\n".join(rows("{2},{0},{1}").splitlines()[1:]), ReadOptions(columns=("id", "lat", "lon"))),
    ("array.json", json.dumps([{"latitude": y, "longitude": x} for y, x in HERE]), None),
    ("copy.csv", table("id,geom", f"1,{HEX[0]}", f"2,{HEX[1]}"), None),
    ("mongo.json", json.dumps([{"loc": feature(y, x)["geometry"]} for y, x in HERE]), None),
    ("map.geojson", features(*(feature(*point, id=1) for point in HERE)), None),
    ("map.geojsonl", "\n".join(json.dumps(feature(*point)) for point in HERE), None),
    ("both.geojson", features(*(feature(y, x, lat=0, lon=0) for y, x in HERE)), ReadOptions(location="geometry")),
    ("map.kml", KML, None),
    ("track.gpx", GPX, None),
]


@pytest.mark.parametrize(("name", "content", "read"), WORKS, ids=[case[0] for case in WORKS])
def test_it_works(name: str, content: Text, read: ReadOptions | None, tmp_path: Path) -> None:
    if name.endswith((".kml", ".gpx")):
        pytest.importorskip("pyogrio")
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert read_points(path, read) == pytest.approx(np.array(HERE), abs=1e-6)


@pytest.mark.parametrize("name", ["users.gpkg", "users.shp", "users.zip", "users.fgb"])
def test_what_geopandas_writes(name: str, tmp_path: Path) -> None:
    geopandas = pytest.importorskip("geopandas")
    pytest.importorskip("pyogrio")
    geometry = geopandas.points_from_xy(*np.array(HERE)[:, ::-1].T, crs="EPSG:4326")
    frame = geopandas.GeoDataFrame({"id": [1, 2]}, geometry=geometry).to_crs("EPSG:32633")
    frame.to_file(tmp_path / name.replace(".zip", ".shp.zip"), engine="pyogrio")
    source = open_source(tmp_path / name.replace(".zip", ".shp.zip"))
    assert (source.columns, source.rows, source.location.crs) == (("id",), 2, "EPSG:32633")
    assert read_points(source) == pytest.approx(np.array(HERE), abs=1e-6)


def test_geometries_in_plain_parquet(tmp_path: Path) -> None:
    binary = pa.array(shapely.to_wkb(shapely.points(np.array(HERE)[:, ::-1])).tolist())
    pq.write_table(pa.table({"id": [1, 2], "home": binary}), tmp_path / "a.parquet")
    assert read_points(tmp_path / "a.parquet").tolist() == HERE


def test_longitudes_from_0_to_360(tmp_path: Path) -> None:
    (tmp_path / "fiji.csv").write_text("lat,lon\n-17.8,178.1\n-16.9,181.5\n")
    assert read_points(tmp_path / "fiji.csv").tolist() == [[-17.8, 178.1], [-16.9, -178.5]]


REFUSED: list[tuple[str, Text, str]] = [
    ("a.csv", "", "is empty"),
    ("a.csv", "id,lat,lon\n", "has no rows"),
    ("a.csv", "id,lat\n1,52.52\n", "there is no location; the columns are 'id', 'lat'; name two"),
    ("a.csv", "52.520008,13.404954\n52.5,13.4\n", "seems to hold data; name its columns, such as columns="),
    ("a.csv", "lat,lon\n152.5,13.4\n152.4,13.5\n", "row 1 is not on Earth .*if they are exchanged"),
    ("a.csv", "lat,lon\n5820075.3,391756.1\n", "row 1 has coordinates that look like meters; .*crs="),
    ("a.csv", "lat,lon\n52.520008,13.4\n\\N,\\N\n", "row 2: 'lat' or 'lon' is empty or not a number"),
    ("a.csv", "lat,lon\n52.520008,13.4\n52.5\n", "row 2: .* more or fewer values"),
    ("a.csv", 'lat,lon,note\n52.520008,13.4,"cut\n52.5,13.4,a\n', "quotation mark without an end"),
    ("a.csv", "Länge,Breite\n13.4,52.5\n".encode("latin-1"), "is not text in this encoding; name it with encoding="),
    ("a.csv", "lat,lon,geom\n1,2,POINT (2 1)\n", "several columns hold locations: 'geom'; 'lat' and 'lon'; name one"),
    ("a.xlsx", b"PK\x03\x04...", "a.xlsx has none of the formats .*; export it, such as to CSV"),
    ("a.csv", b"PK\x03\x04...", "holds no text, whatever its name says"),
    ("a.parquet", b"PAR1 cut", "is damaged"),
    ("a.csv.gz", gzip.compress(b"lat,lon\n52.520008,13.4\n")[:-6], "is damaged"),
    ("a.json", '{"users": 3}', "no GeoJSON features or array of objects"),
    ("a.geojson", "{", "is damaged"),
    ("a.geojson", features(feature(1, 2, lat=3.0, lon=4.0)), "several columns hold locations: 'geometry'; 'lat' and"),
    (
        "a.geojson",
        features({"type": "Feature", "geometry": None, "properties": {}}),
        "row 1: 'geometry' holds no point",
    ),
    ("a.gpkg", b"SQLite format 3\0 cut", "is damaged"),
    ("a.kml", "<kml><Document/></kml>", "no layer with points|is damaged"),
]


@pytest.mark.parametrize(("name", "content", "words"), REFUSED, ids=[case[2] or case[0] for case in REFUSED])
def test_it_is_refused_in_one_sentence(name: str, content: Text, words: str, tmp_path: Path) -> None:
    if name.endswith((".kml", ".gpkg")):
        pytest.importorskip("pyogrio")
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(NearveilError, match=words) as caught:
        read_points(path)
    message = str(caught.value).replace(str(tmp_path), "")
    assert not re.search(r"\d\d\.\d|u33d|\bann\b", message)
    assert "\n" not in message
    assert caught.value.__context__ is None


def test_a_file_that_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    for name in ("missing.csv", "pipe.csv", ""):
        with pytest.raises(NearveilError, match=r"there is no file .* give - for what is piped in"):
            open_source(tmp_path / name)
