"""What results depend on besides their cell: the code that measures, and the people it measures."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import metadata
from pathlib import Path

import nearveil
from nearveil.io.datasets import Dataset

# How results are shown does not change them.
_NOT_MEASURING = ("cli", "report", "server", "engines")
_NOT_MEASURING_EITHER = (("evaluation", "parts"), ("evaluation", "planning"), ("io", "fetch.py"), ("io", "download.py"))
_LIBRARIES = ("numpy", "scipy", "numba")


@cache
def code_fingerprint() -> str:
    """Return a digest of everything that measures, so that results of older code are not taken for new ones."""
    root = Path(nearveil.__file__).parent
    digest = hashlib.sha256(" ".join(metadata.version(name) for name in _LIBRARIES).encode())
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root)
        if inside.parts[0] not in _NOT_MEASURING and inside.parts[:2] not in _NOT_MEASURING_EITHER:
            digest.update(str(inside).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def data_fingerprint(dataset: Dataset) -> str:
    """Return a digest of a population."""
    return hashlib.sha256(dataset.places.tobytes()).hexdigest()


def circumstances_of(dataset: Dataset) -> str:
    """Return what the results of a population's cells are kept under."""
    return f"{code_fingerprint()} {data_fingerprint(dataset)}"
