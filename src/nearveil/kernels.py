"""Compiled kernels: one decorator, no stale machine code, none of another function's, and none of another user's.

Numba keeps compiled code beside the source and renews it when the function's own file changes, but not when a function
that it calls from another file does. So code compiled before the newest source file is thrown away here, before it is
used.

Numba also numbers the files of compiled code, and enters a number into its index before it writes the file. A process
that reads the index in between, or while two processes compile different versions under one number, would run the wrong
code. So every process names its files by a token of its own, and no file is ever written by two.

The files are pickles, and whoever writes one runs code in the process that reads it. So a folder that others can write
is not used, whether it is NUMBA_CACHE_DIR, beside the source, or the user's own. Then the code is kept in a private one
in the user's cache folder; if that is not private either, it is not kept, and every process compiles it anew.

In a container the package is read-only. Numba looks only into folders that it can write; here code beside the source is
also used if it cannot, as long as it is newer than every source file.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import config
from numba.core.caching import CacheImpl, InTreeCacheLocator, NullCache


def _load_without_scipy() -> None:
    """Load the part of numba that looks for a BLAS, while it finds none.

    Finding scipy's takes a fifth of the time that a command takes to start, and only convolutions would profit from it.
    Matrix products look again.
    """
    if "scipy.linalg" in sys.modules or "numba.np.arraymath" in sys.modules:
        return
    sys.modules["scipy.linalg"] = None  # type: ignore[assignment]
    try:
        import_module("numba.np.arraymath")
    finally:
        del sys.modules["scipy.linalg"]


# Numba adds its settings to the module when it is loaded.
_config: Any = config
_PACKAGE = Path(__file__).parent
_TOKEN = secrets.token_hex(4)


@cache
def _newest_source_s() -> float:
    return max(source.stat().st_mtime for source in _PACKAGE.rglob("*.py"))


@cache
def _drop_stale_code(folder: str) -> None:
    """Remove what was compiled before the newest source; once for each folder."""
    if not Path(folder).is_dir():
        return
    for file in os.scandir(folder):
        # Another process may be doing the same, or the folder may be read-only.
        with suppress(OSError):
            if file.name.endswith((".nbi", ".nbc")) and file.stat().st_mtime < _newest_source_s():
                Path(file).unlink()


class _ReadOnlyFolder(InTreeCacheLocator):
    """Code that was compiled beside the source of this package before it became read-only."""

    def ensure_cache_path(self) -> None:
        folder = Path(self.get_cache_path())  # type: ignore[no-untyped-call]
        kept_s = [file.stat().st_mtime for file in folder.glob("*.nb[ic]")]
        if not kept_s or min(kept_s) < _newest_source_s() or not folder.is_relative_to(_PACKAGE):
            raise OSError("no compiled code of this version")


def _look_into_read_only_folders() -> None:
    """Let numba try them after those that it can write beside the source, and before the user's own."""
    locators = CacheImpl._locator_classes
    if _ReadOnlyFolder not in locators and InTreeCacheLocator in locators:
        locators.insert(locators.index(InTreeCacheLocator) + 1, _ReadOnlyFolder)


_load_without_scipy()
_look_into_read_only_folders()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function on first use, and keep the code for the next process."""
    return _compiled(function, nogil=True)


def brief_kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that keeps Python's lock: microseconds of work that no thread may see half done."""
    return _compiled(function)


def inlined_kernel(function: Callable[..., Any]) -> Any:
    """Compile a function into each of its callers."""
    return _compiled(function, nogil=True, inline="always")


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    compiled = njit(**options)(function)
    # With compilation switched off, the function is plain Python and has no files.
    if hasattr(compiled, "enable_caching"):
        _keep_code(compiled)
    return compiled


def _keep_code(compiled: Any) -> None:
    """Let numba keep a function's code in the folder of its choice, else in a private one, else nowhere."""
    chosen = _config.CACHE_DIR
    for folder in (lambda: chosen, _private_folder):
        _config.CACHE_DIR = folder()
        # Raised where no folder can be written.
        with suppress(RuntimeError):
            compiled.enable_caching()
        _config.CACHE_DIR = chosen
        path = compiled._cache.cache_path
        if path is not None and is_private(path):
            _drop_stale_code(path)
            files = compiled._cache._cache_file
            files._data_name_pattern = files._data_name_pattern.replace(".{number", f".{_TOKEN}.{{number")
            _keep_if_possible(compiled._cache)
            return
        compiled._cache = NullCache()


def _keep_if_possible(code: Any) -> None:
    """Let code that cannot be kept, on a full disk for instance, run all the same."""
    save = code.save_overload

    def save_if_possible(*arguments: Any) -> None:
        with suppress(OSError):
            save(*arguments)

    code.save_overload = save_if_possible


@cache
def is_private(folder: str) -> bool:
    """Whether only this user, root and the owner of this package can write to a folder or exchange it for another."""
    if os.name != "posix":
        return True
    trusted = {0, os.geteuid(), _PACKAGE.stat().st_uid}
    real = Path(folder).resolve()
    for each in (real, *real.parents):
        found = each.stat()
        # In a folder like /tmp others can add files, but not replace somebody else's.
        is_like_tmp = each != real and found.st_mode & stat.S_ISVTX
        others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not is_like_tmp
        if found.st_uid not in trusted or others_write:
            return False
    return True


@cache
def _private_folder() -> str:
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    folder = Path(home) / "nearveil" / "kernels"
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return str(folder)
