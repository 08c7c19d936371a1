"""Compiled code is kept for the next process where that is possible, and runs where it is not."""

import os
import subprocess
import sys
from pathlib import Path

_HITS = (
    "from nearveil.mechanisms._disc_law import half_chord as h;"
    "print(round(h(0.6), 3), sum(h.stats.cache_hits.values()))"
)


def shown(script: str, **environment: str) -> list[str]:
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return result.stdout.split()


def test_code_compiled_by_one_process_is_used_by_the_next(tmp_path: Path) -> None:
    assert shown(_HITS, NUMBA_CACHE_DIR=str(tmp_path)) == ["0.917", "0"]
    assert shown(_HITS, NUMBA_CACHE_DIR=str(tmp_path)) == ["0.917", "1"]


def test_in_a_container_with_a_read_only_root_kernels_run_all_the_same() -> None:
    nowhere = "from numba.core import caching; caching.CacheImpl._locator_classes = [];"
    assert shown(nowhere + _HITS) == ["0.917", "0"]
