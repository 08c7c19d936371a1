"""The paper's populations: the same everywhere, inside the region, and a clear word where a file is missing."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from nearveil.errors import DataError
from nearveil.io import datasets
from nearveil.io.datasets import (
    CACHE_DIR_VARIABLE,
    DATA_DIR_VARIABLE,
    SNAP_FILES,
    SYNTHETIC_PEOPLE,
    DatasetName,
    cache_folder,
    find_check_ins,
    load_dataset,
    snap_fault,
)
from tests.io.file_server import snap_file

ORIGINAL = "loc-brightkite_totalCheckins.txt.gz"


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the folder of whoever runs the tests nor their cache."""
    monkeypatch.delenv(DATA_DIR_VARIABLE, raising=False)
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path / "cache"))


def write_csv(folder: Path, name: str, latitude: float) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"latitude,longitude\n{latitude},-122.4\n", encoding="utf-8")


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
    assert len(dataset.places) == SYNTHETIC_PEOPLE
    assert dataset.region.contains(dataset.places).all()
    square = dataset.region.with_scaling("per-axis").to_square(dataset.places)
    assert square.mean(axis=0) == pytest.approx([mean, mean], abs=0.01)
    assert square.std(axis=0) == pytest.approx([deviation, deviation], rel=0.02)
    assert np.array_equal(load_dataset(name).places, dataset.places)


def test_equal_places_count_once(tmp_path: Path) -> None:
    path = tmp_path / "brightkite_sf.csv"
    path.write_text("user,latitude,longitude\n1,37.7,-122.4\n2,37.7,-122.4\n1,37.71,-122.4\n", encoding="utf-8")
    dataset = load_dataset(DatasetName.BRIGHTKITE, tmp_path)
    assert dataset.places.tolist() == [[37.7, -122.4], [37.71, -122.4]]
    assert dataset.source == "reconstruction (brightkite_sf.csv)"


def test_folders_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, named, cache = (tmp_path / name for name in ("given", "named", "cache"))
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(named))
    for latitude, folder in ((37.51, cache), (37.52, named), (37.53, given)):
        write_csv(folder, "gowalla.csv", latitude)
        data_dir = given if given.exists() else None
        dataset = load_dataset(DatasetName.GOWALLA, data_dir)
        assert (dataset.places[0, 0], dataset.source) == (latitude, "file (gowalla.csv)")
    (given / "gowalla.csv").unlink()
    assert find_check_ins(DatasetName.GOWALLA, given) == named / "gowalla.csv"


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv(CACHE_DIR_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert cache_folder() == tmp_path / "caches" / "nearveil"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "nearveil"


def test_what_is_missing_is_said_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (
        "no file of gowalla check-ins was found; name its folder with data_dir= or NEARVEIL_DATA_DIR, or get it with: "
        "nearveil datasets fetch gowalla"
    )
    for data_dir in (None, tmp_path):
        with pytest.raises(DataError) as caught:
            load_dataset(DatasetName.GOWALLA, data_dir)
        assert str(caught.value) == words
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="nearveil datasets fetch gowalla"):
        load_dataset(DatasetName.GOWALLA)
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
        '6\t2010-10-14T18:25:51Z\t37.73\t-122.43\t"unclosed',
        "7\t2010-10-14T18:25:51Z\tnorth\t-122.44\tplace7",
        "8\t2010-10-14T18:25:51Z\t451.0\t-122.44\tplace8",
        "9\t2010-10-14T18:25:51Z\t37.74\t-122\tplace9\ttoo much",
        "10\t2010-10-14T18:25:51Z\t3.772e1\t-122.42\tplace10",
    )
    write_csv(tmp_path, "brightkite_sf.csv", 37.55)
    dataset = load_dataset(DatasetName.BRIGHTKITE, tmp_path)
    assert dataset.places.tolist() == [[37.71, -122.41], [37.72, -122.42], [37.73, -122.43]]
    assert dataset.source == "SNAP original"


def test_original_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no number in one block costs nothing in the others."""
    monkeypatch.setattr(datasets, "_BLOCK_BYTES", 2000)
    text = gzip.decompress(snap_file(500)) + b"x\tt\tnorth\twest\tp\n"
    (tmp_path / ORIGINAL).write_bytes(gzip.compress(text))
    places = load_dataset(DatasetName.BRIGHTKITE, tmp_path).places
    rows = np.arange(500) / 1e4
    assert places == pytest.approx(np.column_stack([37.6 + rows, -122.4 + rows]), abs=1e-9)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(snap_file()[:-5], id="cut"),
        pytest.param(b"", id="empty"),
        pytest.param(b"user,latitude\n", id="no gzip"),
        pytest.param(gzip.compress(b"\xff\xfe\t\xff\t\xff\t\xff\t\n"), id="no text"),
    ],
)
def test_damaged_original(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ORIGINAL).write_bytes(content)
    with pytest.raises(DataError, match=rf"{ORIGINAL} .*; remove it and fetch it again") as caught:
        load_dataset(DatasetName.BRIGHTKITE, tmp_path)
    # Of the path, which may have any number in it, nothing is looked at.
    assert "122" not in str(caught.value).replace(str(tmp_path), "")


def test_original_of_somewhere_else(tmp_path: Path) -> None:
    write_original(tmp_path, "0\t2010-10-17T01:48:53Z\t48.85\t2.35\tparis")
    with pytest.raises(DataError, match="has no check-ins in the region"):
        load_dataset(DatasetName.BRIGHTKITE, tmp_path)


def test_only_places_on_earth_are_counted(tmp_path: Path) -> None:
    nowhere = ["0\tt\t0.0\t0.0\tx", "0\tt\t451.0\t5.1\tx", "0\tt\t5.1\t-181.0\tx", "0\tt\tinf\tnan\tx"]
    path = write_original(tmp_path, *nowhere, "0\tt\t0.0\t5.1\tx")
    assert snap_fault(path, SNAP_FILES["brightkite"]) == "it has 1 check-ins with a place where SNAP counts 4,491,143"


@pytest.mark.realdata
@pytest.mark.parametrize(("name", "people"), [(DatasetName.BRIGHTKITE, 13_931), (DatasetName.GOWALLA, 16_718)])
def test_real_populations(real_data_folder: Path, name: DatasetName, people: int) -> None:
    dataset = load_dataset(name, real_data_folder)
    if dataset.source == "SNAP original":
        pytest.skip("the numbers are those of the reconstruction")
    assert len(dataset.places) == people
    assert dataset.source == f"reconstruction ({name.value}_sf.csv.gz)"
