"""The numbers that the paper prints, to stand beside ours.

Its figures are pictures without numbers; what its text says of them is quoted where they are reproduced.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import NamedTuple


class PaperAttack(NamedTuple):
    """One cell of the paper's Table 1: Dist in metres, Acc, Cost in seconds."""

    dist_m: float
    acc: float
    cost_s: float


class PaperDefence(NamedTuple):
    """One cell of the paper's Table 3; Dist is evidently in kilometres."""

    recall: float
    ratio: float
    acc: float
    dist_km: float


class PaperDataset(NamedTuple):
    """One row of the paper's Table 2; its dispersion index, not defined there, is almost certainly Clark-Evans."""

    locations: int
    density_per_km2: float
    dispersion_index: float


@cache
def paper_table1() -> dict[tuple[str, str, int], PaperAttack]:
    """By attack, dataset and k."""
    return {
        (row["method"].lower(), row["dataset"], int(row["k"])): PaperAttack(
            float(row["dist_m"]), float(row["acc"]), float(row["cost_s"])
        )
        for row in _rows("table1_attacks.csv")
    }


@cache
def paper_table2() -> dict[str, PaperDataset]:
    """By dataset."""
    return {
        row["dataset"]: PaperDataset(
            int(row["locations"]), float(row["density_per_km2"]), float(row["dispersion_index_percent"])
        )
        for row in _rows("table2_datasets.csv")
    }


@cache
def paper_table3() -> dict[tuple[str, float, str], PaperDefence]:
    """By dataset, epsilon and mechanism (DPRS, SRR, Square, Laplace)."""
    found: dict[tuple[str, float, str], dict[str, float]] = {}
    for row in _rows("table3_defence.csv"):
        key = (row["dataset"], float(row["epsilon"]), row["mechanism"])
        found.setdefault(key, {})[row["metric"]] = float(row["value"])
    return {
        key: PaperDefence(values["recall"], values["ratio"], values["acc"], values["dist"])
        for key, values in found.items()
    }


def _rows(name: str) -> Iterator[dict[str, str]]:
    with resources.files(__package__).joinpath(name).open(encoding="utf-8") as file:
        yield from csv.DictReader(file)
