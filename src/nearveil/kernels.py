"""Compiled kernels: one decorator, and no stale machine code.

Numba keeps compiled code beside the source and renews it when the function's own file changes, but not when a function
that it calls from another file does. So code compiled before the newest source file is thrown away here, before it is
used.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from numba import njit

_PACKAGE = Path(__file__).parent


def _drop_stale_code() -> None:
    newest = max(source.stat().st_mtime for source in _PACKAGE.rglob("*.py"))
    for index in _PACKAGE.rglob("*.nbi"):
        # Another process may be doing the same, or the folder may be read-only.
        with suppress(OSError):
            if index.stat().st_mtime < newest:
                index.unlink()


_drop_stale_code()

kernel = njit(cache=True, nogil=True)
inlined_kernel = njit(cache=True, nogil=True, inline="always")
