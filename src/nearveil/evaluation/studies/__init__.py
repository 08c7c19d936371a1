"""The paper's tables and figures, and experiments beyond them: modules with a `PART` each, loaded when needed."""

from __future__ import annotations

from importlib import import_module

from nearveil.errors import UsageError
from nearveil.evaluation.study import Part

PAPER = {
    "table1": "table1", "table2": "table2", "table3": "table3",
    "figure4": "figures", "figure5": "figures", "figure6": "figures", "figure7": "figures", "figure8": "figures",
    "figure9": "figures", "ablation": "table3", "theorems": "theorems",
}  # fmt: skip
"""Parts of the paper in its order, and what it leaves out, with their modules."""

BEYOND = {"frontier": "frontier", "services": "services", "year": "year"}
"""Parts that the paper does not have, with their modules."""


def load(name: str) -> Part:
    """Return a part by its name."""
    known = PAPER | BEYOND
    if name not in known:
        raise UsageError(f"there is no part {name!r}; choose one of {', '.join(known)}")
    module = import_module(f"{__name__}.{known[name]}")
    found: Part = module.PART if hasattr(module, "PART") else module.PARTS[name]
    return found
