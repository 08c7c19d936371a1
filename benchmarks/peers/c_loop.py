"""The sampler as a small C loop, compiled on the spot."""

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from nearveil.mechanisms._disc_sampler import ConfinedNoise
from nearveil.randomness import NumberedRows
from nearveil.types import FloatArray

SOURCE = Path(__file__).with_name("sampling_loop.c")
REMEDY = "install a C compiler (gcc or clang)"
_FLAGS = ("-O3", "-march=native", "-shared", "-fPIC")


class _Work(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("x", "disc", "centres", "radii", "scales", "out")),
        ("always_uniform", ctypes.c_int64),
    )


class CLoop:
    """The compiled loop; its calls let go of Python's lock."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.try_rows.restype = ctypes.c_int64
        self.has_aes = bool(self._library.has_aes())

    def sample(self, task: ConfinedNoise, rows: NumberedRows, *, always_uniform: bool = False) -> FloatArray:
        """NoisyLocation with words that the keystream makes."""
        out, count = np.empty_like(task.x), len(task.x)
        left = np.empty(count, dtype=np.int64)
        work = _work(task, out, always_uniform)
        number, named = 0, None
        while count:
            words = rows.blocks(number, None if named is None else left[:count])
            count = self._library.try_rows(ctypes.byref(work), _at(words), named, ctypes.c_int64(count), _at(left))
            number, named = number + 1, _at(left)
        return out

    def sample_with_own_aes(self, task: ConfinedNoise, rows: NumberedRows) -> FloatArray:
        """NoisyLocation with the same words, made by the loop itself with the processor's AES."""
        out = np.empty_like(task.x)
        work = _work(task, out, always_uniform=False)
        self._library.sample_rows(ctypes.byref(work), rows.key, ctypes.c_int64(rows.first), ctypes.c_int64(rows.count))
        return out


@contextmanager
def compiled_loop() -> Iterator[CLoop | None]:
    """Compile the loop in a folder that is gone afterwards; None where there is no compiler."""
    compiler = next((found for name in ("gcc", "cc", "clang") if (found := shutil.which(name))), None)
    if compiler is None:
        yield None
        return
    with TemporaryDirectory() as folder:
        library = Path(folder) / "sampling_loop.so"
        subprocess.run([compiler, *_FLAGS, "-o", str(library), str(SOURCE), "-lm"], check=True)
        yield CLoop(library)


def _work(task: ConfinedNoise, out: FloatArray, always_uniform: bool) -> _Work:
    arrays = (task.x, task.disc, task.centres, task.radii, task.scales, out)
    assert all(array.flags.c_contiguous for array in arrays)
    return _Work(*(array.ctypes.data for array in arrays), int(always_uniform))


def _at(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
