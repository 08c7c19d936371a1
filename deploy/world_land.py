"""Make src/nearveil/report/data/world_land.xz: the land of the world, for maps.

    npm pack world-atlas@2.0.2 && tar xzf world-atlas-2.0.2.tgz
    python deploy/world_land.py package/land-10m.json

The outlines are those of Natural Earth, version 4.1, 1:10 million, which are in the public domain. npm's world-atlas
has them as TopoJSON, on a grid of 0.0036 degree of longitude and 0.0017 degree of latitude. The file keeps that grid:
the number of rings, the number of corners of each, and the steps from corner to corner as whole numbers, first all to
the east, then all to the north. The first step of a ring is from the corner of the grid. Rings that are holes (the
Caspian Sea) turn the other way. Land has no lakes and rivers.
"""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path

import numpy as np

TARGET = Path(__file__).parents[1] / "src" / "nearveil" / "report" / "data" / "world_land.xz"


def main(source: Path) -> None:
    """Convert a TopoJSON file."""
    world = json.loads(source.read_text(encoding="utf-8"))
    arcs = [np.cumsum(arc, axis=0) for arc in world["arcs"]]
    rings = [
        _ring([arcs[number] if number >= 0 else arcs[~number][::-1] for number in ring], hole=order > 0)
        for geometry in world["objects"]["land"]["geometries"]
        for polygon in geometry["arcs"]
        for order, ring in enumerate(polygon)
    ]
    rings = [ring for ring in rings if _doubled_area(ring)]
    steps = np.concatenate([np.diff(ring, axis=0, prepend=[[0, 0]]) for ring in rings])
    lengths = np.array([len(ring) for ring in rings])
    numbers = np.concatenate([[len(rings)], lengths, steps[:, 0], steps[:, 1]]).astype("<i4")
    TARGET.write_bytes(lzma.compress(numbers.tobytes(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{len(rings):,} rings, {len(steps):,} corners, {TARGET.stat().st_size:,} bytes")


def _ring(parts: list[np.ndarray], *, hole: bool) -> np.ndarray:
    # Arcs share their ends, and the last corner is the first.
    corners = np.concatenate([part[:-1] for part in parts])
    return corners[::-1] if (_doubled_area(corners) > 0) == hole else corners


def _doubled_area(ring: np.ndarray) -> int:
    following = np.roll(ring, -1, axis=0)
    return int(np.sum(ring[:, 0] * following[:, 1] - following[:, 0] * ring[:, 1]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
