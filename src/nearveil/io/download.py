"""Download SNAP's files of check-ins with pooch, check them, and keep no file that fails the check."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nearveil.errors import DataError, OutputError, UsageError, require_package
from nearveil.io.datasets import SNAP_FILES, SNAP_URL, snap_fault

ByteProgress = Callable[[int, int | None], None]
"""Called with the number of bytes that are there, and how many there will be, if that is known."""

# The bytes of the file itself: a server must not pack it once more on the way.
_HEADERS = {"User-Agent": "nearveil", "Accept-Encoding": "identity"}
_SHA256 = re.compile(r"[0-9a-f]{64}")
_CHUNK_BYTES = 1 << 16


class ChecksumBasis(StrEnum):
    """Why a file is taken for the right one."""

    GIVEN = "its SHA-256 is the one given"
    PUBLISHED = "its SHA-256 is the one known for this file"
    CONTENT = (
        "no SHA-256 is known for this file: its gzip checksum is right and its number of check-ins near SNAP's; "
        "give this SHA-256 the next time"
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

    Its SHA-256 must be the one given, else the one known. In any case gzip's own checksum and length have to be right,
    and the number of check-ins near the one on SNAP's page.

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
    require_package("pooch", "downloading check-ins")
    file = SNAP_FILES[name]
    path = folder / file.name
    if sha256 is not None and not _SHA256.fullmatch(sha256.lower()):
        raise UsageError("a SHA-256 is 64 hexadecimal digits; check sha256=")
    given = None if sha256 is None else sha256.lower()
    basis = ChecksumBasis.GIVEN if given else ChecksumBasis.PUBLISHED if file.sha256 else ChecksumBasis.CONTENT

    def checked(found: Path) -> str:
        import pooch  # noqa: PLC0415 - an extra

        checksum: str = pooch.file_hash(str(found))
        expected = given or file.sha256
        fault = None if expected in (None, checksum) else f"its SHA-256 is not the {_WHOSE[basis]}"
        if fault := fault or snap_fault(found, file):
            raise DataError(f"{file.name} cannot be used, since {fault}; remove it if it is there, and fetch it again")
        return checksum

    try:
        if path.exists():
            return Fetched(path, checked(path), basis, was_there=True)
        folder.mkdir(parents=True, exist_ok=True)
        # Beside its place, so that it gets its name in one step.
        with tempfile.TemporaryDirectory(dir=folder) as beside:
            part = Path(beside) / file.name
            _download(base_url.rstrip("/") + "/" + file.name, part, path, timeout_s, progress)
            checksum = checked(part)
            part.replace(path)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be read or written: {error.strerror or 'the system refused'}; choose another folder"
        ) from None
    return Fetched(path, checksum, basis, was_there=False)


_WHOSE = {ChecksumBasis.GIVEN: "one given with sha256=", ChecksumBasis.PUBLISHED: "one known for this file"}


def _download(url: str, part: Path, path: Path, timeout_s: float, progress: ByteProgress | None) -> None:
    import pooch  # noqa: PLC0415 - an extra
    import requests  # noqa: PLC0415 - pooch brings it

    try:
        host = urlsplit(url).hostname
    except ValueError:
        host = None
    if not host or not url.startswith(("http://", "https://")):
        raise UsageError("files are downloaded from an address that starts with https:// or http://; check base_url=")
    bar: Any = _Bar(progress) if progress else False
    get = pooch.HTTPDownloader(progressbar=bar, chunk_size=_CHUNK_BYTES, headers=_HEADERS, timeout=timeout_s)
    try:
        get(url, str(part), None)
    except requests.HTTPError as error:
        status = "nothing" if error.response is None else error.response.status_code
        reason = f"{host} does not give {path.name} (it answers {status})"
    except requests.ConnectionError:
        reason = f"{host} cannot be reached"
    except requests.RequestException as error:
        reason = f"{path.name} did not arrive from {host} ({type(error).__name__})"
    else:
        return
    raise DataError(f"{reason}; download {path.name} yourself and put it in {path.parent}, or set data_dir=")


class _Bar:
    """What pooch takes for a progress bar."""

    def __init__(self, progress: ByteProgress) -> None:
        self._progress = progress
        self._done = 0
        self.total = 0

    def update(self, count: int) -> None:
        """Tell of bytes that have arrived."""
        # Pooch counts whole chunks, also where the last one is shorter.
        self._done = min(self._done + count, self.total) if self.total else self._done + count
        self._progress(self._done, self.total or None)

    def reset(self) -> None:
        """Start again from nothing."""
        self._done = 0

    def close(self) -> None:
        """Nothing is left to do."""
