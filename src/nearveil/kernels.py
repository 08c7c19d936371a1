"""Compiled kernels: numba's decorator where numba is installed, and plain Python where it is not.

Compiled code is kept beside the source, in the user's cache folder, or in ``NUMBA_CACHE_DIR``. The files are pickles:
anyone who can write them runs code in the process that reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

_njit: Any = None
_Locator: Any = object
with suppress(ModuleNotFoundError):
    _njit, _Locator = import_module("numba").njit, import_module("numba.core.caching").InTreeCacheLocator


class ReadOnlyCacheLocator(_Locator):  # type: ignore[misc]
    """Finds code that was compiled beside the source before the folder became read-only, as in the container image.

    ``NUMBA_CACHE_LOCATOR_CLASSES`` names it; by default numba looks only into folders that it can write.
    """

    def ensure_cache_path(self) -> None:
        """Raise where nothing was compiled."""
        if not any(Path(self.get_cache_path()).glob("*.nbi")):
            raise OSError("no compiled code")


def kernel(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function on first use, and keep the code for the next process."""
    if _njit is None:
        return function
    options = {"nogil": True, **options}
    try:
        return _njit(cache=True, **options)(function)
    except RuntimeError:
        # There is no folder for compiled code, so every process compiles for itself.
        return _njit(**options)(function)


# Keeps Python's lock: microseconds of work that no thread may see half done.
brief_kernel = partial(kernel, nogil=False)
# Compiled into each of its callers.
inlined_kernel = partial(kernel, inline="always")
