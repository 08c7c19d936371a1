"""Compiled code that several processes share."""

import subprocess
import sys

from nearveil import kernels
from nearveil.mechanisms.chord_law import half_chord


def test_files_of_compiled_code_are_named_by_process() -> None:
    """Numba's own names are numbers alone, under which another process may have written something else."""
    name = half_chord._cache._cache_file._data_name(1)
    assert kernels._TOKEN in name
    assert name.endswith(".1.nbc")
    other = subprocess.run(
        [sys.executable, "-c", "from nearveil.mechanisms.chord_law import half_chord as h;"
         "print(h._cache._cache_file._data_name(1))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert other.stdout.strip() != name


def test_code_compiled_by_one_process_is_used_by_the_next() -> None:
    script = (
        "from nearveil.mechanisms.chord_law import half_chord as h; assert h(0.5) > 0.8;"
        "print(sum(h.stats.cache_hits.values()))"
    )
    results = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True) for _ in range(2)
    ]
    assert results[1].stdout.strip() == "1"
