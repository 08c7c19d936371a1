"""Users all over the world, and what was published of them."""

import csv
from pathlib import Path

import numpy as np

from nearveil.types import FloatArray

ANCHORS = {
    "Berlin": (52.52, 13.40), "Lagos": (6.52, 3.38), "Tokyo": (35.68, 139.69), "Sydney": (-33.87, 151.21),
    "New York": (40.71, -74.01), "Lima": (-12.05, -77.04), "North Pole": (90.0, 0.0), "South Pole": (-90.0, 0.0),
    "east of the antimeridian": (-17.0, -179.9999), "west of the antimeridian": (-17.0, 179.9999),
}  # fmt: skip


def world(rows_each: int) -> FloatArray:
    """Return so many users at each place."""
    return np.repeat(np.array(list(ANCHORS.values())), rows_each, axis=0)


def write_csv(path: Path, points: FloatArray, **columns: object) -> Path:
    """Write locations with 6 decimals, and columns before them."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*columns, "latitude", "longitude"])
        for others, point in zip(
            zip(*columns.values(), strict=True) if columns else [()] * len(points), points, strict=True
        ):  # type: ignore[call-overload]
            writer.writerow([*others, f"{point[0]:.6f}", f"{point[1]:.6f}"])
    return path


def read_csv(path: Path) -> dict[str, list[str]]:
    """Return the columns of a file as text."""
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    return {name: [row[at] for row in rows[1:]] for at, name in enumerate(rows[0])}


def points_in(path: Path) -> FloatArray:
    """Return the locations in a file."""
    columns = read_csv(path)
    return np.column_stack([np.array(columns[name], dtype=float) for name in ("latitude", "longitude")])
