"""Write a file whole or not at all, and read a small one whole."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nearveil.errors import DataError, OutputError

_ADVICE = {
    errno.ENOSPC: "the disk is full; free some space or write elsewhere",
    errno.EDQUOT: "the disk quota is used up; free some space or write elsewhere",
    errno.EFBIG: "the file would be larger than is allowed here; write elsewhere",
    errno.EROFS: "the folder is read-only; write elsewhere",
    errno.EACCES: "the folder may not be written to; write elsewhere",
    errno.EPERM: "the folder may not be written to; write elsewhere",
    errno.ENOENT: "the folder does not exist; make it first",
    errno.ENOTDIR: "its folder is a file; write elsewhere",
    errno.ENAMETOOLONG: "its name is too long; choose a shorter one",
    errno.EISDIR: "it is a folder; name a file",
}

_LONGEST_NAME = 255


def check_output(path: Path, *, force: bool) -> None:
    """Refuse early what could not be written at the end."""
    if len(path.name) > _LONGEST_NAME:
        raise OutputError(f"{path.name[:40]}… cannot be written: {_ADVICE[errno.ENAMETOOLONG]}")
    if path.is_dir():
        raise OutputError(f"{path} cannot be written: {_ADVICE[errno.EISDIR]}")
    if not path.parent.is_dir():
        raise OutputError(f"{path} cannot be written: {_ADVICE[errno.ENOENT]}")
    if path.exists() and not force:
        raise OutputError(f"{path} exists already; choose another name, or force=True to replace it")


@contextmanager
def replacing(path: Path, *, force: bool, private: bool = False) -> Iterator[Path]:
    """Give a temporary file beside ``path`` to write to; put it in place if nothing went wrong, else remove it.

    Until then its owner alone can read it: what is refused in the end, or was stopped, is for nobody else. A
    ``private`` file stays so.
    """
    check_output(path, force=force)
    # Through a link to the file itself, which is what is to be replaced.
    path = path.resolve()
    # The extension stays, since it decides the format; the rest is short, since names may not be long.
    partial = path.with_name(f".{secrets.token_hex(4)}.partial{''.join(path.suffixes[-2:])}")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
        mode = os.fstat(descriptor).st_mode & 0o777
        os.fchmod(descriptor, 0o600)
        os.close(descriptor)
        yield partial
        with partial.open("rb") as stream:
            os.fsync(stream.fileno())
        partial.chmod(path.stat().st_mode & 0o777 if path.exists() and not private else mode)
        _put_in_place(partial, path, force=force)
    except OutputError:
        raise
    except OSError as error:
        reason = _ADVICE.get(error.errno or 0, error.strerror or "the system refused")
        raise OutputError(f"{path} cannot be written: {reason}") from None
    finally:
        # Where nothing can be written, nothing can be removed either, and need not be.
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _put_in_place(partial: Path, path: Path, *, force: bool) -> None:
    if force:
        partial.replace(path)
        return
    try:
        # Unlike renaming, linking fails if somebody else has made the file meanwhile.
        os.link(partial, path)
    except FileExistsError:
        raise OutputError(f"{path} exists already; choose another name, or force=True to replace it") from None
    except OSError:
        # A file system without links: check as well as can be.
        check_output(path, force=False)
        partial.replace(path)


def make_secret_file(path: Path, text: str) -> None:
    """Make a key file that its owner alone can read; one that is there is left alone."""
    if path.exists():
        raise OutputError(f"the key file {path} exists already; choose another place")
    with replacing(path, force=False, private=True) as partial:
        partial.write_text(text, encoding="utf-8")


def read_text(path: Path, kind: str) -> str:
    """Return what a small text file holds, or say why it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"the {kind} file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not a {kind} file: it is not text") from None
