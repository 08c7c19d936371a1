"""Compiled kernels: numba's decorator with the options that all of them have.

Numba keeps compiled code beside the source, or in the user's cache folder where it cannot write there, or in the folder
that ``NUMBA_CACHE_DIR`` names. The files are pickles: whoever can write them runs code in the process that reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import InTreeCacheLocator


class ReadOnlyCacheLocator(InTreeCacheLocator):
    """Finds code that was compiled beside the source before the folder became read-only, as in the container image.

    ``NUMBA_CACHE_LOCATOR_CLASSES`` names it; by default numba looks only into folders that it can write.
    """

    def ensure_cache_path(self) -> None:
        """Raise where nothing was compiled."""
        if not any(Path(self.get_cache_path()).glob("*.nbi")):  # type: ignore[no-untyped-call]
            raise OSError("no compiled code")


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
        # There is no folder for compiled code, so every process compiles for itself.
        return njit(**options)(function)
    # With compilation switched off, the function is plain Python.
    if hasattr(compiled, "_cache"):
        _keep_if_possible(compiled._cache)
    return compiled


def _keep_if_possible(code: Any) -> None:
    """Let code that cannot be kept, on a full disk or a read-only one, run all the same."""
    save = code.save_overload

    def save_if_possible(*arguments: Any) -> None:
        with suppress(OSError):
            save(*arguments)

    code.save_overload = save_if_possible
