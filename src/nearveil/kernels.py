"""Compiled kernels: numba's decorator where numba is installed, and plain Python where it is not.

Numba keeps compiled code beside the source, or in the user's cache folder where it cannot write there, or in the folder
that ``NUMBA_CACHE_DIR`` names. The files are pickles: anyone who can write them runs code in the process that reads
them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

try:
    from numba import njit
    from numba.core.caching import InTreeCacheLocator
except ModuleNotFoundError:
    njit, InTreeCacheLocator = None, object


class ReadOnlyCacheLocator(InTreeCacheLocator):
    """Finds code that was compiled beside the source before the folder became read-only, as in the container image.

    ``NUMBA_CACHE_LOCATOR_CLASSES`` names it; by default numba looks only into folders that it can write.
    """

    def ensure_cache_path(self) -> None:
        """Raise where nothing was compiled."""
        if not any(Path(self.get_cache_path()).glob("*.nbi")):
            raise OSError("no compiled code")


def kernel(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function on first use, and keep the code for the next process."""
    if njit is None:
        return function
    options = {"nogil": True, **options}
    try:
        compiled = njit(cache=True, **options)(function)
    except RuntimeError:
        # There is no folder for compiled code, so every process compiles for itself.
        return njit(**options)(function)
    # With compilation switched off, the function is plain Python.
    if hasattr(compiled, "_cache"):
        save = compiled._cache.save_overload
        compiled._cache.save_overload = lambda *arguments: _save_if_possible(save, arguments)
    return compiled


def brief_kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that keeps Python's lock: microseconds of work that no thread may see half done."""
    return kernel(function, nogil=False)


def inlined_kernel(function: Callable[..., Any]) -> Any:
    """Compile a function into each of its callers."""
    return kernel(function, inline="always")


def _save_if_possible(save: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Let code that cannot be kept, on a full or read-only disk, run all the same."""
    with suppress(OSError):
        save(*arguments)
