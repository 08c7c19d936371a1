"""Compiled kernels: one decorator, no stale machine code, and none of another function's.

Numba keeps compiled code beside the source and renews it when the function's own file changes, but not when a function
that it calls from another file does. So code compiled before the newest source file is thrown away here, before it is
used.

Numba also numbers the files of compiled code, and enters a number into its index before it writes the file. A process
that reads the index in between, or while two processes compile different versions under one number, would run the wrong
code. So every process names its files by a token of its own, and no file is ever written by two.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba import njit

_PACKAGE = Path(__file__).parent
_TOKEN = secrets.token_hex(4)


def _drop_stale_code() -> None:
    newest = max(source.stat().st_mtime for source in _PACKAGE.rglob("*.py"))
    for pattern in ("*.nbi", "*.nbc"):
        for compiled in _PACKAGE.rglob(pattern):
            # Another process may be doing the same, or the folder may be read-only.
            with suppress(OSError):
                if compiled.stat().st_mtime < newest:
                    compiled.unlink()


_drop_stale_code()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function on first use, and keep the code for the next process."""
    return _with_files_of_its_own(njit(cache=True, nogil=True)(function))


def brief_kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that keeps Python's lock: microseconds of work that no thread may see half done."""
    return _with_files_of_its_own(njit(cache=True)(function))


def inlined_kernel(function: Callable[..., Any]) -> Any:
    """Compile a function into each of its callers."""
    return _with_files_of_its_own(njit(cache=True, nogil=True, inline="always")(function))


def _with_files_of_its_own(compiled: Any) -> Any:
    # With compilation switched off, the function is plain Python and has no files.
    files = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if files is not None:
        files._data_name_pattern = files._data_name_pattern.replace(".{number", f".{_TOKEN}.{{number")
    return compiled
