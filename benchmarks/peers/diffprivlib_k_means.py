"""diffprivlib's k-means, in an environment of its own: it needs an older scikit-learn."""

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.measuring.timing import OwnSeconds

PINS = ("diffprivlib==0.6.4", "scikit-learn==1.4.2", "numpy==1.26.4", "scipy==1.13.1", "joblib==1.4.2")
WORKER = Path(__file__).with_name("diffprivlib_worker.py")
_MOST_S = 900


class NoDiffprivlibError(Exception):
    """It cannot be had here, and what would help."""


class DiffprivlibKMeans:
    """Fits on points of a file, in a process that tells how long the fit took.

    Attributes
    ----------
    rounds : int or None
        How many rounds it made, known after a fit.
    """

    def __init__(self, points: Path, centres: int, half_extent: tuple[float, float]) -> None:
        self._command = [str(environment()), str(WORKER), str(points), str(centres), *map(str, half_extent)]
        self.rounds: int | None = None

    def fit(self) -> OwnSeconds:
        """Fit once."""
        done = subprocess.run(self._command, capture_output=True, text=True, check=True, timeout=_MOST_S)
        told = json.loads(done.stdout)
        self.rounds = int(told["rounds"])
        return OwnSeconds(float(told["seconds"]))


def environment() -> Path:
    """Return the Python of the environment, which is made once and kept among the user's caches."""
    folder = _cache_folder() / "nearveil" / "bench-diffprivlib"
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    ready = folder / "ready.txt"
    wanted = "\n".join((sys.version, *PINS))
    if ready.exists() and ready.read_text(encoding="utf-8") == wanted:
        return python
    make = [sys.executable, "-m", "venv", "--clear", str(folder)]
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
    for command in (make, [*install, *PINS]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise NoDiffprivlibError(f"install {' '.join(PINS)} in {folder} ({last})")
    ready.write_text(wanted, encoding="utf-8")
    return python


def _cache_folder() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
