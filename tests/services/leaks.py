"""Search bytes for places: as text, as numbers in memory, in degrees and in metres."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from nearveil.region import Region


def traces_of(latitude: float, longitude: float, region: Region) -> set[bytes]:
    """Return byte strings that would give a place away if they were found anywhere."""
    x_m, y_m = region.to_metres(np.array([[latitude, longitude]]))[0]
    traces = set()
    for value in (latitude, longitude, x_m, y_m):
        for form in ("<d", ">d"):
            traces.add(struct.pack(form, value))
    for degrees in (latitude, longitude):
        # Six digits after the point are a tenth of a metre; fewer could meet by chance.
        traces.add(f"{degrees:.9f}"[:-3].encode())
        traces.add(f"{abs(degrees) * 1e6:.0f}".encode())
    traces.update(f"{metres:.2f}".encode() for metres in (x_m, y_m) if abs(metres) > 1000)
    return traces


def files_under(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Return every file of a folder with its bytes."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(folder)), path.read_bytes()


def leaks(contents: Iterable[tuple[str, bytes]], places: Iterable[tuple[float, float]], region: Region) -> list[str]:
    """Return the names of those contents in which any of the places is found, each once."""
    traces = set().union(*(traces_of(latitude, longitude, region) for latitude, longitude in places))
    return sorted({name for name, content in contents if any(trace in content for trace in traces)})
