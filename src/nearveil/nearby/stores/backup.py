"""Copies of the embedded store: one file, whole or not at all, for its owner alone.

A copy is made by ``VACUUM INTO``: it reads one moment of the store, whatever a running service writes meanwhile, and
writes every row anew, so that nothing of what was erased before is in it. It is checked before it gets its name.

A copy has everything that the store has: ids, noisy locations, keyed tags and the ledger. The key file is not in it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from nearveil.errors import OutputError, UsageError
from nearveil.nearby.stores._sqlite_connections import Connection, check_ours, lock
from nearveil.nearby.stores.base import StoreError
from nearveil.nearby.stores.published import StoreState, reading_published

_BESIDE = ("-wal", "-shm", "-journal")


def back_up(store: Path, target: Path) -> StoreState:
    """Copy a store to a new file, and return what the copy holds. A service may be running on the store.

    Raises
    ------
    UsageError
        If the target is there already: a backup is never overwritten.
    StoreError
        If there is no store, or it is damaged.
    """
    if not store.is_file():
        raise UsageError("there is no such store; name the store of the service")
    return _copied(store, target)


def restore(backup: Path, store: Path) -> StoreState:
    """Copy a backup to where a store is to be, and return what it holds. No service can start meanwhile.

    Raises
    ------
    UsageError
        If a store is there already, or something is left of one, which SQLite would mix into the backup.
    StoreError
        If the backup is no store, is damaged, is of another version, or a service uses the store.
    """
    if not backup.is_file():
        raise UsageError(f"there is no backup {backup}; name a file from 'nearveil store backup'")
    held = lock(store.absolute())
    try:
        for path in (store, *(store.with_name(store.name + end) for end in _BESIDE)):
            if path.exists():
                raise UsageError(f"{path} is there already and is not replaced; move it away first")
        return _copied(backup, store)
    finally:
        os.close(held)


def _copied(source: Path, target: Path) -> StoreState:
    if target.exists():
        raise UsageError(f"{target} is there already and is not replaced; choose another name")
    with _partial(target) as partial:
        with closing(Connection(str(source.absolute()), str(source))) as connection:
            check_ours(connection)
            connection.run("VACUUM INTO ?", (str(partial),))
        _sync(partial)
        with reading_published(str(partial)) as reader:
            state = reader.state()
        if state.damage:
            raise StoreError(f"{source} is damaged ({state.damage}); take an earlier backup", reason="damaged")
        # Unlike a rename, a link never replaces a file that somebody made meanwhile.
        target.hardlink_to(partial)
    _sync(target.absolute().parent)
    return state


@contextmanager
def _partial(target: Path) -> Iterator[Path]:
    """Make an empty file beside the target, for its owner alone, that is gone after the block."""
    partial = target.absolute().with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        yield partial
    except OSError as error:
        raise OutputError(f"{target} cannot be written ({error.strerror}); choose another place") from None
    finally:
        for path in (partial, *(partial.with_name(partial.name + end) for end in _BESIDE)):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
