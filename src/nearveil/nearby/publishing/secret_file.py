"""Files that only their owner can read, written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nearveil.errors import OutputError

Owner = tuple[int, int]
"""The numbers of a user and a group."""


def make_secret_file(path: Path, text: str) -> None:
    """Make a key file; one that is there is left alone."""
    with _written_beside(path, text, None, path) as partial:
        # Unlike a rename, a link never replaces a key that somebody made meanwhile.
        path.hardlink_to(partial)


def replace_secret_file(path: Path, text: str) -> None:
    """Put another text into a key file, which keeps its owner and group; symbolic links to it stay."""
    real = Path(os.path.realpath(path))
    with _written_beside(real, text, _owner_of(real), path) as partial:
        partial.replace(real)


@contextmanager
def _written_beside(path: Path, text: str, owner: Owner | None, named: Path) -> Iterator[Path]:
    """Write a file beside another one, which it is to become; in an error, that one is called what its user named."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            if owner is not None:
                _give(file.fileno(), owner, named)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield partial
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"the key file {named} cannot be written ({error.strerror}); choose another place") from None
    finally:
        partial.unlink(missing_ok=True)


def _owner_of(path: Path) -> Owner | None:
    try:
        status = path.stat()
    except OSError:
        # Whatever it is, writing says it better.
        return None
    return status.st_uid, status.st_gid


def _give(descriptor: int, owner: Owner, named: Path) -> None:
    """Give a file that is still empty to its owner; refuse if this process may not."""
    made = os.fstat(descriptor)
    if os.name != "posix" or (made.st_uid, made.st_gid) == owner:
        return
    try:
        os.fchown(descriptor, *owner)
    except OSError:
        raise OutputError(
            f"the key file {named} belongs to another user or group, whom this process may not give a file; nothing "
            "was changed, run this as the file's owner or as root"
        ) from None
