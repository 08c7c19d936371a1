"""The paper's populations: the same everywhere, a clear word where a file is missing, and checked downloads."""

import gzip
import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nearveil.errors import DataError, UsageError
from nearveil.io.datasets import (
    CACHE_DIR_VARIABLE,
    DATA_DIR_VARIABLE,
    SNAP_FILES,
    SYNTHETIC_USERS,
    DatasetName,
    SnapFile,
    cache_folder,
    fetch_snap,
    find_check_ins,
    load_dataset,
)
from tests.io.file_server import FileServer, serving, snap_file

ORIGINAL = "loc-brightkite_totalCheckins.txt.gz"


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the folder of whoever runs the tests nor their cache."""
    monkeypatch.delenv(DATA_DIR_VARIABLE, raising=False)
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path / "cache"))


def write_csv(folder: Path, name: str, *latitudes: float) -> None:
    folder.mkdir(exist_ok=True)
    rows = "".join(f"{latitude},-122.4\n" for latitude in latitudes)
    (folder / name).write_text(f"latitude,longitude\n{rows}", encoding="utf-8")


def write_original(folder: Path, *rows: str) -> Path:
    path = folder / ORIGINAL
    path.write_bytes(gzip.compress("".join(row + "\n" for row in rows).encode()))
    return path


@pytest.mark.parametrize(
    ("name", "mean", "deviation"), [(DatasetName.GAUSSIAN, 0.0, 0.25), (DatasetName.BETA, 2 * 2 / 7 - 1, 0.319)]
)
def test_generated_populations(name: DatasetName, mean: float, deviation: float) -> None:
    """Mean and deviation as the laws say: B(2, 5) has mean 2/7 and variance 10/392."""
    dataset = load_dataset(name)
    assert dataset.source == "generated"
    assert len(dataset.places) == SYNTHETIC_USERS
    assert dataset.region.contains(dataset.places).all()
    square = dataset.region.with_scaling("per-axis").to_square(dataset.places)
    assert square.mean(axis=0) == pytest.approx([mean, mean], abs=0.01)
    assert square.std(axis=0) == pytest.approx([deviation, deviation], rel=0.02)
    assert np.array_equal(load_dataset(name).places, dataset.places)


def test_folders_in_order_and_equal_places_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, named, cache = (tmp_path / name for name in ("given", "named", "cache"))
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(named))
    for latitude, folder in ((37.51, cache), (37.52, named), (37.53, given)):
        write_csv(folder, "gowalla_sf.csv", latitude, latitude)
        dataset = load_dataset(DatasetName.GOWALLA, given if given.exists() else None)
        assert dataset.places.tolist() == [[latitude, -122.4]]
        assert dataset.source == "reconstruction (gowalla_sf.csv)"
    (given / "gowalla_sf.csv").unlink()
    assert find_check_ins(DatasetName.GOWALLA, given) == named / "gowalla_sf.csv"


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv(CACHE_DIR_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert cache_folder() == tmp_path / "caches" / "nearveil"


def test_what_is_missing_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data_dir= or NEARVEIL_DATA_DIR, .*: nearveil datasets fetch gowalla"):
        load_dataset(DatasetName.GOWALLA, tmp_path)
    with pytest.raises(DataError, match=r"there is no folder .*nowhere; check data_dir="):
        load_dataset(DatasetName.GOWALLA, tmp_path / "nowhere")


def test_original_is_filtered_to_distinct_places_of_the_region(tmp_path: Path) -> None:
    write_original(
        tmp_path,
        "0\t2010-10-17T01:48:53Z\t37.71\t-122.41\tplace1",
        "1\t2010-10-16T06:02:04Z\t37.71\t-122.41\tplace2",
        "2\t2010-10-16T03:48:54Z\t39.747652\t-104.99251\tplace3",
        "3\t2010-10-14T18:25:51Z\t0.0\t0.0\tplace4",
        "4\t\t\t\t",
        "5\t2010-10-14T18:25:51Z\t37.72",
        "6\t2010-10-14T18:25:51Z\t37.73\t-122.43\tplace6",
        "8\t2010-10-14T18:25:51Z\t451.0\t-122.44\tplace8",
        "9\t2010-10-14T18:25:51Z\t37.74\t-122\tplace9\ttoo much",
        "10\t2010-10-14T18:25:51Z\t3.772e1\t-122.42\tplace10",
    )
    write_csv(tmp_path, "brightkite_sf.csv", 37.55)
    dataset = load_dataset(DatasetName.BRIGHTKITE, tmp_path)
    assert dataset.places.tolist() == [[37.71, -122.41], [37.72, -122.42], [37.73, -122.43]]
    assert dataset.source == "SNAP original"


@pytest.mark.parametrize(
    "content",
    [
        snap_file()[:-5],
        b"",
        b"user,latitude\n",
        gzip.compress(b"0\tt\tnorth\twest\tx\n"),
        gzip.compress(b"0\tt\t48.85\t2.35\tparis\n"),
    ],
    ids=["cut", "empty", "no gzip", "no numbers", "somewhere else"],
)
def test_an_original_that_cannot_be_used(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ORIGINAL).write_bytes(content)
    with pytest.raises(DataError, match=rf"{ORIGINAL} .*; remove it and fetch it again"):
        load_dataset(DatasetName.BRIGHTKITE, tmp_path)


@pytest.mark.realdata
@pytest.mark.parametrize(("name", "people"), [(DatasetName.BRIGHTKITE, 13_931), (DatasetName.GOWALLA, 16_718)])
def test_real_populations(real_data_folder: Path, name: DatasetName, people: int) -> None:
    dataset = load_dataset(name, real_data_folder)
    if dataset.source == "SNAP original":
        pytest.skip("the numbers are those of the reconstruction")
    assert len(dataset.places) == people
    assert dataset.source == f"reconstruction ({name.value}_sf.csv.gz)"


# Downloads.


@pytest.fixture
def snap(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """Brightkite and Gowalla of 100 check-ins each, the second with a checksum that is known."""
    monkeypatch.setenv("no_proxy", "*")
    content = snap_file(100)
    monkeypatch.setitem(SNAP_FILES, "brightkite", SnapFile("b.txt.gz", 100))
    monkeypatch.setitem(SNAP_FILES, "gowalla", SnapFile("g.txt.gz", 100, hashlib.sha256(content).hexdigest()))
    with serving(FileServer(content)) as running:
        yield running


def test_a_file_is_downloaded_once(snap: FileServer, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    fetched = fetch_snap("gowalla", folder, base_url=snap.url)
    assert not fetched.was_there
    assert fetched.sha256 == SNAP_FILES["gowalla"].sha256
    assert fetched.path.read_bytes() == snap.content
    assert [path.name for path in folder.iterdir()] == ["g.txt.gz"]
    again = fetch_snap("gowalla", folder, base_url="http://127.0.0.1:1/")
    assert (again.path, again.sha256, again.was_there) == (fetched.path, fetched.sha256, True)


def test_a_wrong_checksum_is_not_kept(snap: FileServer, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not have the SHA-256 expected"):
        fetch_snap("brightkite", tmp_path, base_url=snap.url, sha256="0" * 64)
    with pytest.raises(UsageError, match="64 hexadecimal digits"):
        fetch_snap("brightkite", tmp_path, base_url=snap.url, sha256="abc")
    right = hashlib.sha256(snap.content).hexdigest()
    assert fetch_snap("brightkite", tmp_path / "given", base_url=snap.url, sha256=right.upper()).sha256 == right
    snap.content = snap_file(101)
    with pytest.raises(DataError, match="does not have the SHA-256 expected"):
        fetch_snap("gowalla", tmp_path, base_url=snap.url)
    assert [path.name for path in tmp_path.iterdir()] == ["given"]


@pytest.mark.parametrize("content", [snap_file(98), snap_file(107), snap_file()[:-8] + bytes(8), b"<html>Sign in"])
def test_content_is_checked_where_no_checksum_is_known(snap: FileServer, tmp_path: Path, content: bytes) -> None:
    assert not fetch_snap("brightkite", tmp_path / "right", base_url=snap.url).was_there
    snap.content = content
    with pytest.raises(DataError, match=r"check-ins with a location where SNAP counts 100|is damaged"):
        fetch_snap("brightkite", tmp_path / "wrong", base_url=snap.url)
    assert not list((tmp_path / "wrong").iterdir())
    (tmp_path / "b.txt.gz").write_bytes(content)
    with pytest.raises(DataError, match="remove it"):
        fetch_snap("brightkite", tmp_path, base_url=snap.url)
    assert (tmp_path / "b.txt.gz").exists()


def test_what_does_not_arrive_is_one_sentence_and_leaves_nothing(snap: FileServer, tmp_path: Path) -> None:
    snap.cut_after = 100
    with pytest.raises(DataError, match="cannot be reached, or broke off"):
        fetch_snap("brightkite", tmp_path, base_url=snap.url)
    snap.status = 404
    with pytest.raises(DataError, match=r"127.0.0.1 answers 404; download b"):
        fetch_snap("brightkite", tmp_path, base_url=snap.url)
    with pytest.raises(DataError, match=r"127.0.0.1 cannot be reached, or broke off; download b.txt.gz yourself"):
        fetch_snap("brightkite", tmp_path, base_url="http://127.0.0.1:1/")
    assert not list(tmp_path.iterdir())
