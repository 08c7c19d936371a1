"""Downloads against a real server: whole or not at all, and never two files glued together."""

import errno
import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import httpx
import pytest

from nearveil.errors import DataError, OutputError, UsageError
from nearveil.io.download import download
from tests.io.file_server import FileServer, serving

CONTENT = bytes(range(256)) * 4000


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving(FileServer(CONTENT)) as running:
        yield running


def get(server: FileServer, path: Path) -> None:
    download(server.url + "file.gz", path, check=lambda _: None)


def only(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_whole_file(server: FileServer, tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    path = tmp_path / "new" / "folder" / "file.gz"
    download(server.url + "file.gz", path, check=lambda _: None, progress=lambda *call: told.append(call))
    assert path.read_bytes() == CONTENT
    assert only(path.parent) == ["file.gz"]
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in told] == sorted({done for done, _ in told})


def test_cut_connection_goes_on_where_it_ended(server: FileServer, tmp_path: Path) -> None:
    server.cut_after = [300_000, 200_000]
    get(server, tmp_path / "file.gz")
    assert (tmp_path / "file.gz").read_bytes() == CONTENT
    assert [asked["Range"] for asked in server.asked] == [None, "bytes=300000-", "bytes=500000-"]
    assert [asked["If-Range"] for asked in server.asked] == [None, '"one"', '"one"']


def test_cut_for_good_is_kept_for_the_next_try(server: FileServer, tmp_path: Path) -> None:
    server.cut_after = [300_000, 0]
    path = tmp_path / "file.gz"
    with pytest.raises(DataError, match="was cut; run the same command again to go on from there, or download"):
        get(server, path)
    assert (tmp_path / "file.gz.part").read_bytes() == CONTENT[:300_000]
    get(server, path)
    assert path.read_bytes() == CONTENT
    assert server.asked[-1]["Range"] == "bytes=300000-"
    assert only(tmp_path) == ["file.gz"]


def test_a_server_that_always_cuts_is_not_asked_for_ever(server: FileServer, tmp_path: Path) -> None:
    server.cut_after = [1000] * 100
    with pytest.raises(DataError, match="was cut"):
        get(server, tmp_path / "file.gz")
    assert len(server.asked) == 5


def test_server_without_ranges_starts_again(server: FileServer, tmp_path: Path) -> None:
    server.ranges = False
    server.cut_after = [300_000]
    get(server, tmp_path / "file.gz")
    assert (tmp_path / "file.gz").read_bytes() == CONTENT
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    "versions",
    [
        pytest.param([('"one"', None), ('"two"', None)], id="etag"),
        pytest.param([(None, "Mon, 01 Jan 2024 00:00:00 GMT"), (None, "Tue, 02 Jan 2024 00:00:00 GMT")], id="date"),
        pytest.param(
            [('W/"x"', "Mon, 01 Jan 2024 00:00:00 GMT"), ('W/"x"', "Tue, 02 Jan 2024 00:00:00 GMT")], id="weak"
        ),
    ],
)
def test_changed_file_is_not_glued_to_the_old_one(
    server: FileServer, tmp_path: Path, versions: list[tuple[str | None, str | None]]
) -> None:
    (server.etag, server.modified), after = versions
    server.cut_after = [300_000, 0]
    with pytest.raises(DataError, match="was cut"):
        get(server, tmp_path / "file.gz")
    server.content, (server.etag, server.modified) = CONTENT[::-1], after
    get(server, tmp_path / "file.gz")
    assert (tmp_path / "file.gz").read_bytes() == CONTENT[::-1]


def test_changed_file_is_noticed_where_the_server_ignores_if_range(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.cut_after = [300_000, 0]
    with pytest.raises(DataError, match="was cut"):
        get(server, tmp_path / "file.gz")
    monkeypatch.setattr(FileServer, "is_current", lambda *_: True)
    server.content, server.etag = CONTENT[::-1], '"two"'
    get(server, tmp_path / "file.gz")
    assert (tmp_path / "file.gz").read_bytes() == CONTENT[::-1]


def test_old_version_does_not_outlive_its_bytes(server: FileServer, tmp_path: Path) -> None:
    server.cut_after = [300_000, 0]
    with pytest.raises(DataError, match="was cut"):
        get(server, tmp_path / "file.gz")
    server.content, server.etag = CONTENT[::-1], None
    server.cut_after = [100_000, 0]
    with pytest.raises(DataError, match="was cut"):
        get(server, tmp_path / "file.gz")
    get(server, tmp_path / "file.gz")
    assert (tmp_path / "file.gz").read_bytes() == CONTENT[::-1]
    assert (server.asked[-1]["Range"], server.asked[-1]["If-Range"]) == ("bytes=100000-", None)


def test_server_need_not_repeat_the_version(server: FileServer, tmp_path: Path) -> None:
    server.repeats_version = False
    server.cut_after = [300_000]
    get(server, tmp_path / "file.gz")
    assert (tmp_path / "file.gz").read_bytes() == CONTENT
    assert len(server.asked) == 2


def test_bytes_from_elsewhere_are_not_taken(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "file.gz.part").write_bytes(CONTENT[:1000])
    server.shift = 7
    get(server, tmp_path / "file.gz")
    assert (tmp_path / "file.gz").read_bytes() == CONTENT


def test_part_that_is_whole_already(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "file.gz.part").write_bytes(CONTENT)
    get(server, tmp_path / "file.gz")
    assert (tmp_path / "file.gz").read_bytes() == CONTENT
    assert len(server.asked) == 1


def test_part_that_is_longer_than_the_file(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "file.gz.part").write_bytes(CONTENT + b"more")
    get(server, tmp_path / "file.gz")
    assert (tmp_path / "file.gz").read_bytes() == CONTENT


@pytest.mark.parametrize("status", [404, 416, 503])
def test_server_that_refuses(server: FileServer, tmp_path: Path, status: int) -> None:
    server.status = status
    with pytest.raises(
        DataError, match=rf"127.0.0.1 does not give file.gz \(it answers {status}\); download file.gz y"
    ):
        get(server, tmp_path / "file.gz")
    assert only(tmp_path) == []


def test_nobody_there(tmp_path: Path) -> None:
    with socket.socket() as bound:
        # Bound and not listening: refused, and nobody else can take the port.
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/file.gz"
        (tmp_path / "file.gz.part").write_bytes(b"begun")
        with pytest.raises(DataError) as caught:
            download(url, tmp_path / "file.gz", check=lambda _: None)
    assert str(caught.value) == (
        f"127.0.0.1 cannot be reached; download file.gz yourself and put it in {tmp_path}, "
        "or name a folder that has it with --data-dir"
    )
    assert (tmp_path / "file.gz.part").read_bytes() == b"begun"


def test_a_certificate_that_is_not_trusted_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        try:
            raise ssl.SSLCertVerificationError("self-signed certificate")
        except ssl.SSLError as error:
            raise httpx.ConnectError("refused") from error

    monkeypatch.setattr(httpx.Client, "send", refuse)
    with pytest.raises(DataError, match="the certificate of there is not trusted here"):
        download("https://there/file.gz", tmp_path / "file.gz", check=lambda _: None)


def test_versions_that_are_not_ascii_are_sent_back_as_they_came(server: FileServer, tmp_path: Path) -> None:
    server.etag = '"één"'
    server.cut_after = [300_000]
    get(server, tmp_path / "file.gz")
    assert (tmp_path / "file.gz").read_bytes() == CONTENT
    assert server.asked[-1]["If-Range"] == server.etag


def test_server_that_never_answers(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/file.gz"
        with pytest.raises(DataError, match="cannot be reached"):
            download(url, tmp_path / "file.gz", check=lambda _: None, timeout_s=0.05)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/file", "snap.stanford.edu/data", "http://[bad/", ""])
def test_only_http(tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError, match="https:// or http://"):
        download(url, tmp_path / "file.gz", check=lambda _: None)


def test_refused_by_the_check(server: FileServer, tmp_path: Path) -> None:
    def refuse(part: Path) -> None:
        assert part.read_bytes() == CONTENT
        raise DataError("not this one")

    with pytest.raises(DataError, match="not this one"):
        download(server.url + "file.gz", tmp_path / "file.gz", check=refuse)
    assert only(tmp_path) == []


def test_folder_that_is_a_file(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("")
    with pytest.raises(OutputError, match=r"cannot be written: .*; choose another folder with --to"):
        get(server, tmp_path / "folder" / "file.gz")


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC])
def test_folder_that_takes_nothing(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Nothing stops root from writing, so the file system's refusal is made up."""

    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(OutputError, match=f"cannot be written: {os.strerror(number)}"):
        get(server, tmp_path / "file.gz")
