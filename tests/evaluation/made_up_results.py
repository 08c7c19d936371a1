"""Towns of a few hundred people, and results that nobody measured: what parts say of them is known beforehand."""

from collections.abc import Callable, Iterable
from typing import Any

from nearveil.evaluation.cells import (
    KS,
    PROTOCOLS,
    RELEASES,
    AttackCell,
    AuditCell,
    FrontierCell,
    ReleaseCell,
    TenthsCell,
)
from nearveil.evaluation.experiments.figure8 import SamplingCell
from nearveil.evaluation.experiments.year import YearCell
from nearveil.evaluation.runner import Cell, Result
from nearveil.io.datasets import Dataset
from nearveil.io.synthetic import synthetic_city
from nearveil.region import named_region

Change = Callable[[Cell], dict[str, Any]]
"""What to put in place of some made-up numbers of a cell."""

STEP = 0.001
"""From one run to the next."""


def tiny_town(name: str, people: int = 600, seed: int = 1) -> Dataset:
    region = named_region("san-francisco")
    return Dataset(name, region, synthetic_city(people, region, rng=seed), "made up")


def made_up_results(cells: Iterable[Cell], change: Change = lambda _cell: {}) -> dict[Cell, Result]:
    return {cell: {**made_up(cell), **change(cell)} for cell in cells}


def made_up(cell: Cell) -> dict[str, Any]:
    if isinstance(cell, AttackCell):
        return attempts(cell, found=cell.instances)
    if isinstance(cell, AuditCell):
        return audited("violated" if cell.claim == "paper" else "consistent")
    if isinstance(cell, SamplingCell):
        return {
            "RSM ms": 0.1, "Nearveil ms": 0.05, "noise and resample ms": 2.0, "RSM tries": 1.5,
            "noise and resample tries": 30.0,
        }  # fmt: skip
    if isinstance(cell, ReleaseCell):
        found: dict[str, Any] = {f"{release} recall@{k}": 0.5 for release in RELEASES for k in (10, 50)}
        return found | {"metric noise_m": 1234.5}
    if isinstance(cell, TenthsCell):
        return {"error_m": [100.0] * 10, "acc": [0.2] * 10, "named": [0.1] * 10, "targets": [20] * 10}
    if isinstance(cell, YearCell):
        return year(cell)
    attacker = {
        "attacker error_m": 200.0, "attacker acc": 0.2, "read off error_m": 300.0,
        "named": 0.05, "named targets": 600, "named sparsest": 0.2, "named sparsest targets": 60,
    }  # fmt: skip
    return utility(cell, 0.4) | (attacker if isinstance(cell, FrontierCell) else {})


def utility(cell: Cell, recall: float) -> dict[str, float]:
    found = {"displacement_m": 500.0, "moved under 100 m": 0.1, "median radius_m": 200.0}
    for protocol in PROTOCOLS:
        for k in KS:
            found[f"{protocol} recall@{k}"] = recall + STEP * cell.run
            found[f"{protocol} ratio@{k}"] = 0.8
            found[f"{protocol} pooled ratio@{k}"] = 0.9
            found[f"{protocol} distance mse@{k}"] = 2e6
    return found


def attempts(cell: AttackCell, *, found: int, error_m: float = 550.0) -> dict[str, Any]:
    """So many of its people are found to the metre, the others missed by so much."""
    errors = [1.0] * found + [error_m] * (cell.instances - found)
    return {"attempts": [[error, error, 80.0, 12, 0.25, True, 4, 4, 2] for error in errors]}


def audited(verdict: str, at_least: float = 7.5) -> dict[str, Any]:
    return {
        "verdict": verdict, "claimed": 1.0, "delta": 0.0, "at least": at_least, "confidence": 0.999,
        "unit": "per report", "pair": "here and there", "hits": 0.5, "false hits": 0.0,
    }  # fmt: skip


def year(cell: YearCell) -> dict[str, Any]:
    """One in ten is found in the first months; later four in ten where noise is drawn anew."""
    rows = len(cell.months)
    found = [0.1, *([0.4 if cell.forgets else 0.1] * (rows - 1))]
    figures = {"found": found, "named": [0.05] * rows, "error_m": [400.0] * rows, "points": [1.5] * rows}
    known = {f"{attacker} {name}": values for attacker in cell.attackers for name, values in figures.items()}
    return {"people": cell.people, **known, "right": [0.9] * rows, "unpublished": [0.2] * rows}
