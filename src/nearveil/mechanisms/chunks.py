"""Work over many people in parallel, a chunk at a time."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from nearveil.types import Progress

CHUNK_ROWS = 1 << 16


def chunk_slices(rows: int) -> list[slice]:
    """Cut ``rows`` into consecutive slices of `CHUNK_ROWS`; the cut does not depend on the machine."""
    return [slice(start, min(start + CHUNK_ROWS, rows)) for start in range(0, rows, CHUNK_ROWS)]


def for_each_slice(rows: int, work: Callable[[slice], None], progress: Progress | None = None) -> None:
    """Call ``work`` on every chunk, on all cores."""
    slices = chunk_slices(rows)
    if len(slices) == 1:
        work(slices[0])
        if progress:
            progress(rows)
        return
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for part, _ in zip(slices, pool.map(work, slices), strict=True):
            if progress:
                progress(part.stop - part.start)
