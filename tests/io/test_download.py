"""SNAP's files: whole and checked, or not there at all."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from nearveil.io.download import ChecksumBasis, fetch_snap

from nearveil.errors import DataError, OutputError, UsageError
from nearveil.io.datasets import SNAP_FILES, SnapFile
from tests.io.file_server import FileServer, serving, snap_file


def only(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


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
    told: list[tuple[int, int | None]] = []
    folder = tmp_path / "new" / "folder"
    fetched = fetch_snap("gowalla", folder, base_url=snap.url, progress=lambda *call: told.append(call))
    assert (fetched.basis, fetched.was_there) == (ChecksumBasis.PUBLISHED, False)
    assert fetched.sha256 == SNAP_FILES["gowalla"].sha256
    assert fetched.path.read_bytes() == snap.content
    assert only(folder) == ["g.txt.gz"]
    assert told[-1] == (len(snap.content), len(snap.content))
    again = fetch_snap("gowalla", folder, base_url="http://127.0.0.1:1/")
    assert (again.path, again.sha256, again.was_there) == (fetched.path, fetched.sha256, True)


def test_a_wrong_checksum_is_not_kept(snap: FileServer, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="its SHA-256 is not the one given"):
        fetch_snap("brightkite", tmp_path, base_url=snap.url, sha256="0" * 64)
    with pytest.raises(UsageError, match="64 hexadecimal digits"):
        fetch_snap("brightkite", tmp_path, base_url=snap.url, sha256="abc")
    right = hashlib.sha256(snap.content).hexdigest()
    fetched = fetch_snap("brightkite", tmp_path / "given", base_url=snap.url, sha256=right.upper())
    assert fetched.basis is ChecksumBasis.GIVEN
    snap.content = snap_file(101)
    with pytest.raises(DataError, match="its SHA-256 is not the one known for"):
        fetch_snap("gowalla", tmp_path, base_url=snap.url)
    assert only(tmp_path) == ["given"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(snap_file(98), "it has 98 check-ins with a place where SNAP counts 100", id="too few"),
        pytest.param(snap_file(107), "it has 107 check-ins with a place where SNAP counts 100", id="too many"),
        pytest.param(snap_file(100)[:-4], "it is damaged", id="cut"),
        pytest.param(snap_file(100)[:-8] + bytes(8), "it is damaged", id="wrong CRC"),
        pytest.param(b"<html>Sign in to the hotel's network</html>", "it is damaged", id="no gzip"),
    ],
)
def test_content_is_checked_where_no_checksum_is_known(
    snap: FileServer, tmp_path: Path, content: bytes, words: str
) -> None:
    assert fetch_snap("brightkite", tmp_path / "right", base_url=snap.url).basis is ChecksumBasis.CONTENT
    snap.content = content
    with pytest.raises(DataError, match=words):
        fetch_snap("brightkite", tmp_path / "wrong", base_url=snap.url)
    assert only(tmp_path / "wrong") == []


def test_a_file_put_there_by_hand_is_checked_and_stays(snap: FileServer, tmp_path: Path) -> None:
    path = tmp_path / "b.txt.gz"
    path.write_bytes(snap.content)
    assert fetch_snap("brightkite", tmp_path, base_url=snap.url).was_there
    assert snap.asked == []
    path.write_bytes(snap.content[:-1])
    with pytest.raises(DataError, match="it is damaged"):
        fetch_snap("brightkite", tmp_path, base_url=snap.url)
    assert path.exists()


def test_what_does_not_arrive_is_one_sentence_and_leaves_nothing(snap: FileServer, tmp_path: Path) -> None:
    snap.cut_after = 100
    with pytest.raises(DataError, match=r"did not arrive|cannot be reached"):
        fetch_snap("brightkite", tmp_path, base_url=snap.url)
    snap.status = 404
    with pytest.raises(DataError, match=r"127.0.0.1 does not give b.txt.gz \(it answers 404\); download b"):
        fetch_snap("brightkite", tmp_path, base_url=snap.url)
    with pytest.raises(DataError, match=r"127.0.0.1 cannot be reached; download b.txt.gz yourself"):
        fetch_snap("brightkite", tmp_path, base_url="http://127.0.0.1:1/")
    assert only(tmp_path) == []


@pytest.mark.parametrize("address", ["file:///tmp/", "data", "https://", "http://[::1"])
def test_addresses_that_are_none(tmp_path: Path, address: str) -> None:
    with pytest.raises(UsageError, match="https:// or http://"):
        fetch_snap("brightkite", tmp_path, base_url=address)


def test_a_folder_that_cannot_be_written(snap: FileServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="choose another folder"):
        fetch_snap("brightkite", tmp_path / "file", base_url=snap.url)
