"""The file of the embedded store: private, and one process's at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from nearveil.nearby.stores.base import StoreError


def lock(path: Path) -> int:
    """Keep every other store off the file: what it wrote, the index in this one's memory would miss."""
    beside = path.with_name(f"{path.name}.lock")
    descriptor = None
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if descriptor is not None:
            os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise StoreError(
                f"another process uses the store {path}; end it, or let several share a PostGIS database"
            ) from None
        raise _cannot(path, error) from None
    return descriptor


def make(path: Path) -> None:
    """Make the file, for its owner alone, if it is not there."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise _cannot(path, error) from None


def make_private(path: Path) -> None:
    """Let only the owner read and write the file; the log beside it inherits that."""
    try:
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except OSError as error:
        raise _cannot(path, error) from None


def _cannot(path: Path, error: OSError) -> StoreError:
    reason = error.strerror or "the system refused"
    return StoreError(f"the store {path} cannot be opened ({reason}); see to its folder and permissions")
