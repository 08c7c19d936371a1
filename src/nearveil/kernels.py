"""Compiled kernels: one decorator, no stale machine code, and none of another function's.

Numba keeps compiled code beside the source and renews it when the function's own file changes, but not when a function
that it calls from another file does. So code compiled before the newest source file is thrown away here, before it is
used.

Numba also numbers the files of compiled code, and enters a number into its index before it writes the file. A process
that reads the index in between, or while two processes compile different versions under one number, would run the wrong
code. So every process names its files by a token of its own, and no file is ever written by two.

Where nothing can be written, kernels are compiled by every process anew.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from numba import njit


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


_load_without_scipy()


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
    try:
        compiled = njit(cache=True, **options)(function)
    except RuntimeError:
        # There is no folder to write to, as in a container with a read-only root: each process compiles for itself.
        return njit(**options)(function)
    # With compilation switched off, the function is plain Python and has no files.
    files = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if files is not None:
        _drop_stale_code(compiled._cache.cache_path)
        files._data_name_pattern = files._data_name_pattern.replace(".{number", f".{_TOKEN}.{{number")
        _keep_if_possible(compiled._cache)
    return compiled


def _keep_if_possible(code: Any) -> None:
    """Let code that cannot be kept, on a full disk for instance, run all the same."""
    save = code.save_overload

    def save_if_possible(*arguments: Any) -> None:
        with suppress(OSError):
            save(*arguments)

    code.save_overload = save_if_possible
