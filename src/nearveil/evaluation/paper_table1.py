"""The paper's Table 1, to be put beside ours: Dist in metres, Acc, Cost in seconds."""

from __future__ import annotations

from typing import NamedTuple


class PaperCell(NamedTuple):
    """One cell of the paper's Table 1."""

    dist_m: float
    acc: float
    cost_s: float


_DATASETS = ("brightkite", "gowalla", "gaussian", "beta")
_KS = (10, 30, 50)
_ROWS = {
    "zo-lia": (
        (28.91, 0.948, 15.94), (40.59, 0.914, 17.62), (41.98, 0.912, 19.21),
        (39.20, 0.960, 16.05), (56.03, 0.906, 17.86), (56.83, 0.926, 18.92),
        (24.35, 0.956, 22.14), (42.17, 0.910, 23.21), (43.56, 0.893, 24.08),
        (40.39, 0.944, 22.17), (43.96, 0.896, 23.09), (48.51, 0.873, 23.96),
    ),
    "gi-lia": (
        (26.93, 0.972, 31.86), (32.67, 0.984, 33.07), (25.74, 0.996, 35.12),
        (20.59, 0.996, 31.42), (24.55, 0.992, 34.67), (23.56, 0.992, 35.98),
        (26.31, 0.940, 44.42), (18.34, 0.968, 45.97), (29.98, 0.964, 48.13),
        (39.96, 0.948, 43.21), (41.67, 0.948, 45.07), (51.84, 0.976, 47.31),
    ),
}  # fmt: skip
_CELLS = [(dataset, k) for dataset in _DATASETS for k in _KS]

PAPER_TABLE_1: dict[tuple[str, str, int], PaperCell] = {
    (attack, *cell): PaperCell(*values)
    for attack, rows in _ROWS.items()
    for cell, values in zip(_CELLS, rows, strict=True)
}
"""By attack, dataset and k."""
