"""Compiled code that several processes share."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nearveil import kernels
from nearveil.mechanisms._disc_law import half_chord


@pytest.fixture(scope="module")
def another_process() -> list[str]:
    """What the next process calls its files, and how much of the code it finds compiled."""
    script = (
        "from nearveil.mechanisms._disc_law import half_chord as h; assert h(0.5) > 0.8;"
        "print(h._cache._cache_file._data_name(1), sum(h.stats.cache_hits.values()))"
    )
    assert half_chord(0.5) > 0.8
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()


def test_files_of_compiled_code_are_named_by_process(another_process: list[str]) -> None:
    """Numba's own names are numbers alone, under which another process may have written something else."""
    name = half_chord._cache._cache_file._data_name(1)
    assert kernels._TOKEN in name
    assert name.endswith(".1.nbc")
    assert another_process[0].endswith(".1.nbc")
    assert another_process[0] != name


def test_code_compiled_by_one_process_is_used_by_the_next(another_process: list[str]) -> None:
    assert another_process[1] == "1"


def test_numba_multiplies_matrices_for_whoever_else_uses_it() -> None:
    """It is loaded without scipy here, which it needs for that and must find later."""
    script = (
        "import sys; import numpy as np; import nearveil.kernels; assert 'scipy.linalg' not in sys.modules;"
        "from numba import njit; product = njit(lambda a, b: a @ b); print(product(np.eye(2), np.full((2, 2), 3.0))[0])"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[3. 3.]"


def test_code_older_than_the_sources_is_not_used_wherever_it_is_kept(tmp_path: Path) -> None:
    """Numba looks at a function's own file; what that calls in other files may have changed."""
    script = (
        "from nearveil.mechanisms._disc_law import half_chord as h; h(0.5); print(sum(h.stats.cache_hits.values()))"
    )

    def cache_hits() -> str:
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        shown = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
        )
        return shown.stdout.strip()

    assert cache_hits() == "0"
    for file in tmp_path.rglob("*.nb*"):
        os.utime(file, (0, 0))
    assert cache_hits() == "0"
    assert cache_hits() == "1"


def test_where_nothing_can_be_kept_kernels_run_all_the_same() -> None:
    """Neither beside the source nor at home, as in a container with a read-only root."""
    script = (
        "from numba.core import caching; caching.CacheImpl._locator_classes = [];"
        "from nearveil.mechanisms._disc_law import half_chord as h; print(round(h(0.6), 3), h.stats.cache_path)"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["0.917", "None"]


def test_on_a_full_disk_kernels_run_all_the_same(tmp_path: Path) -> None:
    script = (
        "from nearveil.mechanisms._disc_law import half_chord as h; import errno\n"
        "def save(*_): raise OSError(errno.ENOSPC, 'No space left on device')\n"
        "h._cache._cache_file.save = save; print(round(h(0.6), 3))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert shown.stdout.strip() == "0.917"
