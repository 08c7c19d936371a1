"""Download a file over HTTP: go on where an earlier try ended, and keep nothing that is not what it should be."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from nearveil.errors import DataError, OutputError, UsageError
from nearveil.io.partial_download import PartialDownload

ByteProgress = Callable[[int, int | None], None]
"""Called with the number of bytes that are there, and how many there will be, if that is known."""

_CHUNK_BYTES = 1 << 18
_MOST_TRIES = 5
_PARTIAL_CONTENT, _RANGE_NOT_SATISFIABLE = 206, 416


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
        _fill(url, part, timeout_s, progress or _no_progress)
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
    except urllib.error.HTTPError as error:
        raise DataError(f"{host} does not give {path.name} (it answers {error.code}); {_by_hand(path)}") from None
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, UnicodeError) as error:
        raise DataError(f"{_why_not(host, error)}; {_by_hand(path)}") from None
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written: {error.strerror or 'the system refused'}; choose another folder with --to"
        ) from None


def _no_progress(_done: int, _total: int | None) -> None:
    pass


def _why_not(host: str, error: Exception) -> str:
    if isinstance(getattr(error, "reason", None), ssl.SSLError):
        return f"the certificate of {host} is not trusted here (is the clock right?)"
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


def _fill(url: str, part: PartialDownload, timeout_s: float, progress: ByteProgress) -> None:
    """Ask for what is missing until nothing is; give up when a try brings nothing new."""
    for _ in range(_MOST_TRIES):
        before = part.size_bytes
        try:
            if _ask(url, part, timeout_s, progress):
                return
        except _CutError:
            if part.size_bytes == before:
                raise
    raise _CutError


def _ask(url: str, part: PartialDownload, timeout_s: float, progress: ByteProgress) -> bool:
    """Ask once for the rest of the file; return whether it is all there now."""
    have = part.size_bytes
    request = urllib.request.Request(url, headers={"User-Agent": "nearveil"})  # noqa: S310  # the scheme is checked
    if have:
        request.add_header("Range", f"bytes={have}-")
        if part.version:
            # The whole file, please, if it is no longer the one that was begun.
            request.add_header("If-Range", part.version)
    try:
        response = urllib.request.build_opener().open(request, timeout=timeout_s)
    except urllib.error.HTTPError as error:
        with error:
            if error.code != _RANGE_NOT_SATISFIABLE or not have:
                raise
            if _total_in(error.headers) == have:
                return True
        # What is there is no beginning of what the server has now.
        part.forget()
        return False
    with response:
        answer = _answer(response)
        if answer.start and not _goes_on(part, answer):
            part.forget()
            return False
        if not answer.start:
            part.start(answer.version)
        _receive(response, part, answer, progress)
    return True


def _goes_on(part: PartialDownload, answer: _Answer) -> bool:
    """Whether the bytes offered follow those that are there. A server need not repeat the version."""
    same_version = answer.version is None or part.version is None or answer.version == part.version
    return answer.start == part.size_bytes and same_version


def _answer(response: http.client.HTTPResponse) -> _Answer:
    headers = response.headers
    tag = headers.get("ETag", "")
    # A weak tag does not promise the same bytes.
    version = (tag if not tag.startswith("W/") else "") or headers.get("Last-Modified") or None
    if response.status != _PARTIAL_CONTENT:
        return _Answer(0, _number(headers.get("Content-Length", "")), version)
    start = _number(headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0])
    return _Answer(-1 if start is None else start, _total_in(headers), version)


def _receive(
    response: http.client.HTTPResponse, part: PartialDownload, answer: _Answer, progress: ByteProgress
) -> None:
    done = answer.start
    with part.path.open("ab") as file:
        while piece := _piece(response):
            file.write(piece)
            done += len(piece)
            progress(done, answer.total)
    if answer.total is not None and done != answer.total:
        raise _CutError


def _piece(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(_CHUNK_BYTES)
    except (http.client.HTTPException, OSError):
        # Apart from the writing, whose errors are of another kind.
        raise _CutError from None


def _total_in(headers: Message) -> int | None:
    return _number(headers.get("Content-Range", "").rpartition("/")[2])


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() else None
