"""SNAP's files: taken for the right ones only with a reason."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearveil.errors import DataError, UsageError
from nearveil.io.datasets import SNAP_FILES, SnapFile
from nearveil.io.download import ChecksumBasis, fetch_snap
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


def test_known_checksum(snap: FileServer, tmp_path: Path) -> None:
    fetched = fetch_snap("gowalla", tmp_path, base_url=snap.url)
    assert (fetched.basis, fetched.was_there) == (ChecksumBasis.PUBLISHED, False)
    assert fetched.sha256 == SNAP_FILES["gowalla"].sha256
    assert only(tmp_path) == ["g.txt.gz", "g.txt.gz.sha256"]
    again = fetch_snap("gowalla", tmp_path, base_url="http://127.0.0.1:1/")
    assert (again.path, again.sha256, again.was_there) == (fetched.path, fetched.sha256, True)


def test_wrong_checksum_is_not_kept(snap: FileServer, tmp_path: Path) -> None:
    snap.content = snap_file(101)
    with pytest.raises(DataError, match="downloaded and removed again, since its SHA-256 is not the one known for"):
        fetch_snap("gowalla", tmp_path, base_url=snap.url)
    assert only(tmp_path) == []


def test_trust_on_first_use(snap: FileServer, tmp_path: Path) -> None:
    first = fetch_snap("brightkite", tmp_path, base_url=snap.url)
    assert first.basis is ChecksumBasis.FIRST_USE
    assert (tmp_path / "b.txt.gz.sha256").read_text() == f"{first.sha256}  b.txt.gz\n"
    assert first.sha256 == hashlib.sha256(snap.content).hexdigest()
    first.path.unlink()
    assert fetch_snap("brightkite", tmp_path, base_url=snap.url).basis is ChecksumBasis.RECORDED
    first.path.unlink()
    snap.content = snap_file(101)
    with pytest.raises(DataError, match="not the one recorded when it was first fetched"):
        fetch_snap("brightkite", tmp_path, base_url=snap.url)
    newer = hashlib.sha256(snap.content).hexdigest()
    assert fetch_snap("brightkite", tmp_path, base_url=snap.url, sha256=newer.upper()).basis is ChecksumBasis.GIVEN
    assert (tmp_path / "b.txt.gz.sha256").read_text().startswith(newer)


def test_given_checksum(snap: FileServer, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="since its SHA-256 is not the one given with --sha256"):
        fetch_snap("brightkite", tmp_path, base_url=snap.url, sha256="0" * 64)
    with pytest.raises(UsageError, match="64 hexadecimal digits"):
        fetch_snap("brightkite", tmp_path, base_url=snap.url, sha256="abc")
    assert only(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(snap_file(98), "it has 98 check-ins with a place where SNAP counts 100", id="too few"),
        pytest.param(snap_file(107), "it has 107 check-ins with a place where SNAP counts 100", id="too many"),
        pytest.param(snap_file(100)[:-4], "it is damaged", id="cut"),
        pytest.param(snap_file(100)[:-8] + bytes(8), "it is damaged", id="wrong CRC"),
        pytest.param(b"<html>Sign in to the hotel's network</html>", "it is damaged", id="no gzip"),
        pytest.param(b"", "it is damaged", id="empty"),
    ],
)
def test_content_is_checked_where_no_checksum_is_known(
    snap: FileServer, tmp_path: Path, content: bytes, words: str
) -> None:
    snap.content = content
    with pytest.raises(DataError, match=f"downloaded and removed again, since {words}"):
        fetch_snap("brightkite", tmp_path, base_url=snap.url)
    assert only(tmp_path) == []


def test_a_file_put_there_by_hand_is_checked(snap: FileServer, tmp_path: Path) -> None:
    path = tmp_path / "b.txt.gz"
    path.write_bytes(snap.content)
    assert fetch_snap("brightkite", tmp_path, base_url=snap.url).was_there
    assert snap.asked == []
    path.write_bytes(snap.content[:-1])
    with pytest.raises(DataError, match="is there already, but its SHA-256 is not the one recorded"):
        fetch_snap("brightkite", tmp_path, base_url=snap.url)
    assert path.exists()


def test_record_that_is_none(snap: FileServer, tmp_path: Path) -> None:
    (tmp_path / "b.txt.gz.sha256").write_text("hello\n")
    with pytest.raises(DataError, match="holds no SHA-256; remove it"):
        fetch_snap("brightkite", tmp_path, base_url=snap.url)
