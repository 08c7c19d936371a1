"""Downloads over HTTP: resume an earlier attempt, check the file, and keep no file that fails the check."""

from __future__ import annotations

import hashlib
import os
import re
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx

from nearveil.errors import DataError, OutputError, UsageError
from nearveil.io.datasets import SNAP_FILES, SNAP_URL, SnapFile, snap_fault

ByteProgress = Callable[[int, int | None], None]
"""Called with the number of bytes that are there, and how many there will be, if that is known."""

_MOST_TRIES = 5
# The bytes of the file itself: a server must not pack it once more on the way.
_HEADERS = {"User-Agent": "nearveil", "Accept-Encoding": "identity"}
_LATIN_1 = "latin-1"


class _CutError(Exception):
    """The connection ended before the file did."""


class _Answer(NamedTuple):
    """What a server says of the bytes that it is about to send: where they start, in how many, of which version."""

    start: int
    total: int | None
    version: str | None


def download(
    url: str,
    path: Path,
    *,
    check: Callable[[Path], None],
    timeout_s: float = 30.0,
    progress: ByteProgress | None = None,
) -> None:
    """Download a file to ``path``, whole and checked or not at all.

    What has arrived stays in ``NAME.part`` when the connection is cut. The next call goes on from there, if the
    server still has the same file, and starts again if not.

    Parameters
    ----------
    url : str
        http or https.
    path : Path
        Where to put the file; its folder is made if need be.
    check : callable
        Called with the finished part before it is put in place. If it raises DataError, the part is removed.
    timeout_s : float
        Longest time without a sign of the server.
    progress : callable, optional
        Called after each piece.
    """
    host = _host(url)
    part = PartialDownload(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with httpx.Client(headers=_HEADERS, timeout=timeout_s, follow_redirects=True) as client:
            _fill(client, url, part, progress or _no_progress)
        try:
            check(part.path)
        except DataError:
            part.forget()
            raise
        part.put_in_place()
    except _CutError:
        raise DataError(
            f"the connection to {host} was cut; run the same command again to go on from there, or {_by_hand(path)}"
        ) from None
    except httpx.HTTPStatusError as error:
        code = error.response.status_code
        raise DataError(f"{host} does not give {path.name} (it answers {code}); {_by_hand(path)}") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise DataError(f"{_why_not(host, error)}; {_by_hand(path)}") from None
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written: {error.strerror or 'the system refused'}; choose another folder with --to"
        ) from None


def _no_progress(_done: int, _total: int | None) -> None:
    pass


def _why_not(host: str, error: BaseException | None) -> str:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return f"the certificate of {host} is not trusted here (is the clock right?)"
        error = error.__cause__ or error.__context__
    return f"{host} cannot be reached"


def _by_hand(path: Path) -> str:
    return f"download {path.name} yourself and put it in {path.parent}, or name a folder that has it with --data-dir"


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.hostname if parts.scheme in ("http", "https") else None
    except ValueError:
        host = None
    if not host:
        raise UsageError("files are downloaded from an address that starts with https:// or http://; check --from")
    return host


def _fill(client: httpx.Client, url: str, part: PartialDownload, progress: ByteProgress) -> None:
    """Ask for what is missing until nothing is; give up when a try brings nothing new."""
    for _ in range(_MOST_TRIES):
        before = part.size_bytes
        try:
            if _ask(client, url, part, progress):
                return
        except _CutError:
            if part.size_bytes == before:
                raise
    raise _CutError


def _ask(client: httpx.Client, url: str, part: PartialDownload, progress: ByteProgress) -> bool:
    """Ask once for the rest of the file; return whether it is all there now."""
    with client.stream("GET", url, headers=_range_headers(part)) as response:
        if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE and part.size_bytes:
            is_whole = _total_in(response.headers) == part.size_bytes
            if not is_whole:
                # The bytes on disk do not belong to the file that the server has now.
                part.forget()
            return is_whole
        response.raise_for_status()
        answer = _answer(response)
        if answer.start and not _goes_on(part, answer):
            part.forget()
            return False
        if not answer.start:
            part.start(answer.version)
        _receive(response, part, answer, progress)
    return True


def _range_headers(part: PartialDownload) -> httpx.Headers:
    """Ask for the rest; for the whole file if it has changed since the download began."""
    headers = {"Range": f"bytes={part.size_bytes}-"} if part.size_bytes else {}
    if headers and part.version:
        headers["If-Range"] = part.version
    return httpx.Headers(headers, encoding=_LATIN_1)


def _goes_on(part: PartialDownload, answer: _Answer) -> bool:
    """Whether the bytes offered follow those that are there. A server need not repeat the version."""
    same_version = answer.version is None or part.version is None or answer.version == part.version
    return answer.start == part.size_bytes and same_version


def _answer(response: httpx.Response) -> _Answer:
    headers = response.headers
    headers.encoding = _LATIN_1
    tag = headers.get("ETag", "")
    # A weak tag does not promise the same bytes.
    version = (tag if not tag.startswith("W/") else "") or headers.get("Last-Modified") or None
    if response.status_code != httpx.codes.PARTIAL_CONTENT:
        return _Answer(0, _number(headers.get("Content-Length", "")), version)
    start = _number(headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0])
    return _Answer(-1 if start is None else start, _total_in(headers), version)


def _receive(response: httpx.Response, part: PartialDownload, answer: _Answer, progress: ByteProgress) -> None:
    done = answer.start
    with part.path.open("ab") as file:
        for piece in _pieces(response):
            file.write(piece)
            done += len(piece)
            progress(done, answer.total)
    if answer.total is not None and done != answer.total:
        raise _CutError


def _pieces(response: httpx.Response) -> Iterator[bytes]:
    try:
        # As they come: pieces of one size would keep back what arrived before a cut.
        yield from response.iter_raw()
    except httpx.TransportError:
        raise _CutError from None


def _total_in(headers: httpx.Headers) -> int | None:
    return _number(headers.get("Content-Range", "").rpartition("/")[2])


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() else None


# What has arrived of a download so far, kept beside its place until it is whole.


class PartialDownload:
    """The file ``NAME.part``, and ``NAME.part.version`` with the server's version of the file it is a part of.

    Parameters
    ----------
    path : Path
        Where the whole file will be.
    """

    def __init__(self, path: Path) -> None:
        self._final = path
        self.path = path.with_name(path.name + ".part")
        self._version_file = path.with_name(path.name + ".part.version")

    @property
    def size_bytes(self) -> int:
        """How much is there."""
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def version(self) -> str | None:
        """ETag or date of change of the file on the server, if it gave one."""
        # HTTP headers are Latin-1.
        return self._version_file.read_text(encoding=_LATIN_1) if self._version_file.exists() else None

    def start(self, version: str | None) -> None:
        """Begin anew, with the version that the server has now."""
        # In this order: a version never stands beside bytes of another one.
        self.path.write_bytes(b"")
        if version is None:
            self._version_file.unlink(missing_ok=True)
        else:
            self._version_file.write_text(version, encoding=_LATIN_1)

    def forget(self) -> None:
        """Remove what is there."""
        self.path.unlink(missing_ok=True)
        self._version_file.unlink(missing_ok=True)

    def put_in_place(self) -> None:
        """Give the file its own name, in one step."""
        with self.path.open("rb+") as stream:
            os.fsync(stream.fileno())
        self.path.replace(self._final)
        self._version_file.unlink(missing_ok=True)


# Get one of SNAP's files into a folder, and make sure that it is the right one.


_SHA256 = re.compile(r"[0-9a-f]{64}")


class ChecksumBasis(StrEnum):
    """Why a file is taken for the right one."""

    GIVEN = "its SHA-256 is the one given"
    PUBLISHED = "its SHA-256 is the one known for this file"
    RECORDED = "its SHA-256 is the one recorded when it was first fetched"
    FIRST_USE = (
        "no SHA-256 is known for this file: its gzip checksum is right and its number of check-ins near SNAP's, and "
        "its SHA-256 is recorded beside it for the next time"
    )


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file that is in its place.

    Attributes
    ----------
    path : Path
        The file.
    sha256 : str
        Its checksum.
    basis : ChecksumBasis
        Why it is taken for the right one.
    was_there : bool
        Whether it was there already.
    """

    path: Path
    sha256: str
    basis: ChecksumBasis
    was_there: bool


def fetch_snap(
    name: str,
    folder: Path,
    *,
    base_url: str = SNAP_URL,
    sha256: str | None = None,
    timeout_s: float = 30.0,
    progress: ByteProgress | None = None,
) -> Fetched:
    """Download a file of check-ins, unless it is there, and check it.

    The SHA-256 expected is the one given, else the one known, else the one in ``NAME.sha256`` beside the file, which
    an earlier fetch wrote. Where there is none, the file is trusted on first use: gzip's own checksum and length
    have to be right, the number of check-ins near the one on SNAP's page, and its SHA-256 is written to
    ``NAME.sha256``.

    Parameters
    ----------
    name : str
        ``brightkite`` or ``gowalla``.
    folder : Path
        Where the file goes; made if need be.
    base_url : str
        Address of the folder on the server: SNAP or a mirror.
    sha256 : str, optional
        Checksum to expect, in hexadecimal.
    timeout_s : float
        Longest time without a sign of the server.
    progress : callable, optional
        Called with the bytes that are there, and how many there will be.
    """
    file = SNAP_FILES[name]
    path = folder / file.name
    expected, basis = _expected(file, path, sha256)

    def check_download(part: Path) -> None:
        fault = _sha256_fault(part, expected, basis) or snap_fault(part, file)
        if fault is not None:
            raise DataError(f"{file.name} was downloaded and removed again, since {fault}; {_REMEDIES[basis]}")

    was_there = path.exists()
    if was_there:
        fault = _sha256_fault(path, expected, basis) or snap_fault(path, file)
        if fault is not None:
            raise DataError(f"{path} is there already, but {fault}; remove it and fetch it again")
    else:
        url = base_url.rstrip("/") + "/" + file.name
        download(url, path, check=check_download, timeout_s=timeout_s, progress=progress)
    found = _sha256_of(path)
    _record(path, found)
    return Fetched(path, found, basis, was_there)


_WHOSE = {
    ChecksumBasis.GIVEN: "the one given with --sha256",
    ChecksumBasis.PUBLISHED: "the one known for this file",
    ChecksumBasis.RECORDED: "the one recorded when it was first fetched",
}
_REMEDIES = {
    ChecksumBasis.GIVEN: "check --sha256 and try again",
    ChecksumBasis.PUBLISHED: "try again, or give the SHA-256 of a newer file with --sha256",
    ChecksumBasis.RECORDED: "try again, or give the SHA-256 of a newer file with --sha256",
    ChecksumBasis.FIRST_USE: "try again, or from a mirror with --from",
}


def _expected(file: SnapFile, path: Path, given: str | None) -> tuple[str | None, ChecksumBasis]:
    if given is not None:
        if not _SHA256.fullmatch(given.lower()):
            raise UsageError("a SHA-256 is 64 hexadecimal digits; check --sha256")
        return given.lower(), ChecksumBasis.GIVEN
    if file.sha256 is not None:
        return file.sha256, ChecksumBasis.PUBLISHED
    record = _record_of(path)
    if not record.exists():
        return None, ChecksumBasis.FIRST_USE
    fields = record.read_text(encoding="utf-8", errors="replace").split()
    if not fields or not _SHA256.fullmatch(fields[0]):
        raise DataError(f"{record} holds no SHA-256; remove it and fetch again")
    return fields[0], ChecksumBasis.RECORDED


def _sha256_fault(path: Path, expected: str | None, basis: ChecksumBasis) -> str | None:
    if expected is None or _sha256_of(path) == expected:
        return None
    return f"its SHA-256 is not {_WHOSE[basis]}"


def _sha256_of(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}; remove it and fetch it again") from None


def _record_of(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _record(path: Path, sha256: str) -> None:
    """Write the checksum as ``sha256sum`` does, so that ``sha256sum -c`` can read it."""
    try:
        _record_of(path).write_text(f"{sha256}  {path.name}\n", encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{_record_of(path)} cannot be written: {error.strerror}; choose another folder") from None
