"""Get one of SNAP's files into a folder, and make sure that it is the right one."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from nearveil.errors import DataError, OutputError, UsageError
from nearveil.io.download import ByteProgress, download
from nearveil.io.snap import SNAP_FILES, SNAP_URL, SnapFile, snap_fault

_SHA256 = re.compile(r"[0-9a-f]{64}")


class Basis(StrEnum):
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
    basis : Basis
        Why it is taken for the right one.
    was_there : bool
        Whether it was there already.
    """

    path: Path
    sha256: str
    basis: Basis
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
    an earlier fetch wrote. Where there is none, the file is trusted on first use: gzip's own checksum and length and
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
    Basis.GIVEN: "the one given with --sha256",
    Basis.PUBLISHED: "the one known for this file",
    Basis.RECORDED: "the one recorded when it was first fetched",
}
_REMEDIES = {
    Basis.GIVEN: "check --sha256 and try again",
    Basis.PUBLISHED: "try again, or give the SHA-256 of a newer file with --sha256",
    Basis.RECORDED: "try again, or give the SHA-256 of a newer file with --sha256",
    Basis.FIRST_USE: "try again, or from a mirror with --from",
}


def _expected(file: SnapFile, path: Path, given: str | None) -> tuple[str | None, Basis]:
    if given is not None:
        if not _SHA256.fullmatch(given.lower()):
            raise UsageError("a SHA-256 is 64 hexadecimal digits; check --sha256")
        return given.lower(), Basis.GIVEN
    if file.sha256 is not None:
        return file.sha256, Basis.PUBLISHED
    record = _record_of(path)
    if not record.exists():
        return None, Basis.FIRST_USE
    words = record.read_text(encoding="utf-8", errors="replace").split()
    if not words or not _SHA256.fullmatch(words[0]):
        raise DataError(f"{record} holds no SHA-256; remove it and fetch again")
    return words[0], Basis.RECORDED


def _sha256_fault(path: Path, expected: str | None, basis: Basis) -> str | None:
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
