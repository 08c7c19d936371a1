"""Run commands, write and read files, measure distances, and wait: all that the acceptance tests share."""

from __future__ import annotations

import contextlib
import csv
import gc
import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

REGION = "san-francisco"
CENTER = (37.75, -122.44)
DEADLINE_S = 120.0
_COMMAND = (
    "from importlib.metadata import entry_points; "
    "[e for e in entry_points(group='console_scripts') if e.name == 'nearveil'][0].load()()"
)


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(*arguments: object) -> Result:
    """Run ``nearveil`` with arguments in this process, which saves the second that Python takes to start."""
    (entry,) = (each for each in entry_points(group="console_scripts") if each.name == "nearveil")
    command = entry.load()
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    before, code = sys.argv, 0
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    sys.argv = ["nearveil", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            command()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    finally:
        sys.argv = before
        gc.enable()
        for number, handler in handlers.items():
            signal.signal(number, handler)
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    return Result(code, *texts)


def done(*arguments: object) -> Result:
    """Run a command that must succeed."""
    result = run(*arguments)
    assert result.code == 0, f"{arguments}: {result}"
    return result


def command(*arguments: object) -> list[str]:
    """Return the command line of a process of its own."""
    return [sys.executable, "-c", _COMMAND, *map(str, arguments)]


def run_process(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run ``nearveil`` as a process of its own, with bytes on its standard input."""
    return subprocess.run(command(*arguments), input=stdin, capture_output=True, check=False, timeout=DEADLINE_S)


def write_csv(path: Path, users: Array, separator: str = ",") -> Path:
    """Write users with an id, a location of seven decimals and an age."""
    lines = [
        separator.join((f"u{number}", f"{latitude:.7f}", f"{longitude:.7f}", str(20 + number % 50)))
        for number, (latitude, longitude) in enumerate(users)
    ]
    path.write_text("\n".join([separator.join(("id", "latitude", "longitude", "age")), *lines, ""]), encoding="utf-8")
    return path


def read_csv(path: Path, separator: str = ",") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")), delimiter=separator))


def in_order(rows: Iterable[dict[str, Any]]) -> Array:
    """Return the locations of rows with ids u0, u1, ..., each of which must be there once, in the order of the ids."""
    by_id = sorted((int(row["id"][1:]), float(row["latitude"]), float(row["longitude"])) for row in rows)
    assert [number for number, *_ in by_id] == list(range(len(by_id)))
    return np.array([location for _, *location in by_id])


def distances_m(first: Any, second: Any) -> Array:
    """Return the distances on a sphere, which differ by up to 0.6 % from those on the ellipsoid."""
    a, b = np.radians(np.asarray(first, float)), np.radians(np.asarray(second, float))
    half = (
        np.sin((b[..., 0] - a[..., 0]) / 2) ** 2
        + np.cos(a[..., 0]) * np.cos(b[..., 0]) * np.sin((b[..., 1] - a[..., 1]) / 2) ** 2
    )
    return np.asarray(2 * 6_371_008.8 * np.arcsin(np.sqrt(half)))


def check_moved(users: Array, published: Array) -> None:
    """Check that all of a few hundred users moved: noise of 500 m leaves two within 0.2 m once in 10^8 runs."""
    moved = distances_m(users, published)
    assert np.median(moved) > 100
    assert (moved < 0.2).sum() < 2


def check_planar_laplace(moved_m: Array, noise_m: float) -> None:
    """Check that distances have the law of planar Laplace noise: its mean, and the share that is moved less than that.

    The distance is the sum of two exponential variables of mean noise_m / 2. Both figures must be within five standard
    errors, and 1.5 % for the sphere and for grids: the false-alarm rate is 6e-7 for each. From 1,000 distances on,
    noise that is 30 % off fails with a probability above 0.999.
    """
    count = len(moved_m)
    assert abs(moved_m.mean() / noise_m - 1) < 5 * 0.7072 / count**0.5 + 0.015, moved_m.mean()
    share = 1 - 3 * np.exp(-2.0)
    assert abs((moved_m < noise_m).mean() - share) < 5 * (share * (1 - share) / count) ** 0.5 + 0.015


def check_hidden(users: Array, *texts: str) -> None:
    """Check that no text has the true location of a user, as it was written to files with seven decimals."""
    for text in texts:
        for latitude, longitude in users:
            assert not (f"{latitude:.7f}" in text and f"{longitude:.7f}" in text), "a true location got out"


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def is_picture(path: Path) -> bool:
    """Tell by its first bytes whether a file is the picture that its name says."""
    starts: dict[str, Sequence[bytes]] = {
        ".png": [b"\x89PNG"],
        ".gif": [b"GIF8"],
        ".html": [b"<!DOCTYPE", b"<!doctype"],
    }
    return path.stat().st_size > 1000 and path.read_bytes().startswith(tuple(starts[path.suffix]))
