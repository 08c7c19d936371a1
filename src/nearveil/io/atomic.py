"""Write a file whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nearveil.errors import OutputError

_ADVICE = {
    errno.ENOSPC: "the disk is full; free some space or write elsewhere",
    errno.EDQUOT: "the disk quota is used up; free some space or write elsewhere",
    errno.EFBIG: "the file would be larger than is allowed here; write elsewhere",
    errno.EROFS: "the folder is read-only; write elsewhere",
    errno.EACCES: "the folder may not be written to; write elsewhere",
    errno.EPERM: "the folder may not be written to; write elsewhere",
    errno.ENOENT: "the folder does not exist; make it first",
    errno.ENOTDIR: "its folder is a file; write elsewhere",
    errno.EISDIR: "it is a folder; name a file",
}


def check_output(path: Path, *, force: bool) -> None:
    """Refuse early what could not be written at the end."""
    if path.is_dir():
        raise OutputError(f"{path} cannot be written: {_ADVICE[errno.EISDIR]}")
    if not path.parent.is_dir():
        raise OutputError(f"{path} cannot be written: {_ADVICE[errno.ENOENT]}")
    if path.exists() and not force:
        raise OutputError(f"{path} exists already; choose another name, or --force to replace it")


@contextmanager
def replacing(path: Path, *, force: bool) -> Iterator[Path]:
    """Give a temporary file beside ``path`` to write to; put it in place if nothing went wrong, else remove it."""
    check_output(path, force=force)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        yield partial
        _flush_to_disk(partial)
        _put_in_place(partial, path, force=force)
    except OutputError:
        raise
    except OSError as error:
        reason = _ADVICE.get(error.errno or 0, error.strerror or "the system refused")
        raise OutputError(f"{path} cannot be written: {reason}") from None
    finally:
        partial.unlink(missing_ok=True)


def _flush_to_disk(path: Path) -> None:
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def _put_in_place(partial: Path, path: Path, *, force: bool) -> None:
    if force:
        partial.replace(path)
        return
    try:
        # Unlike renaming, linking fails if somebody else has made the file meanwhile.
        os.link(partial, path)
    except FileExistsError:
        raise OutputError(f"{path} exists already; choose another name, or --force to replace it") from None
    except OSError:
        # A file system without links: check as well as can be.
        check_output(path, force=False)
        partial.replace(path)
