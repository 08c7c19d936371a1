"""What has arrived of a download so far, kept beside its place until it is whole."""

from __future__ import annotations

import os
from pathlib import Path


class PartialDownload:
    """The file ``NAME.part``, and ``NAME.part.version`` with the server's word for which file it is a part of.

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
        return self._version_file.read_text(encoding="latin-1") if self._version_file.exists() else None

    def start(self, version: str | None) -> None:
        """Begin anew, with the version that the server has now."""
        # In this order: a version never stands beside bytes of another one.
        self.path.write_bytes(b"")
        if version is None:
            self._version_file.unlink(missing_ok=True)
        else:
            self._version_file.write_text(version, encoding="latin-1")

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
