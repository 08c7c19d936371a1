"""Nearveil: audit and protect "people nearby" services."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nearveil.attacks.base import Attack
    from nearveil.errors import DataError, NearveilError, OutputError, UsageError
    from nearveil.evaluation.planning.goal import Goal
    from nearveil.evaluation.planning.plan import Plan, plan
    from nearveil.io.people import ReadOptions
    from nearveil.mechanisms.axis_laplace import AxisLaplace
    from nearveil.mechanisms.base import Mechanism
    from nearveil.mechanisms.dprs import DPRS
    from nearveil.mechanisms.fit_grid import build_grid_intervals
    from nearveil.mechanisms.fit_pic import build_pic_intervals
    from nearveil.mechanisms.intervals import Intervals, intervals_from_json
    from nearveil.mechanisms.planar_laplace import PlanarLaplace
    from nearveil.mechanisms.square import Square
    from nearveil.mechanisms.srr import SRR
    from nearveil.privacy.guarantee import Basis, Certificate, Guarantee, Notion
    from nearveil.randomness import Randomness, secure_randomness, seeded_randomness
    from nearveil.region import Region, named_region, parse_region
    from nearveil.release.fitting import fit_intervals
    from nearveil.release.protect import ProtectResult, protect_file, protect_frame
    from nearveil.report.reproduce import Reproduction, reproduce

__all__ = [
    "DPRS",
    "SRR",
    "Attack",
    "AxisLaplace",
    "Basis",
    "Certificate",
    "DataError",
    "Goal",
    "Guarantee",
    "Intervals",
    "Mechanism",
    "NearveilError",
    "Notion",
    "OutputError",
    "Plan",
    "PlanarLaplace",
    "ProtectResult",
    "Randomness",
    "ReadOptions",
    "Region",
    "Reproduction",
    "Square",
    "UsageError",
    "build_grid_intervals",
    "build_pic_intervals",
    "fit_intervals",
    "intervals_from_json",
    "named_region",
    "parse_region",
    "plan",
    "protect_file",
    "protect_frame",
    "reproduce",
    "secure_randomness",
    "seeded_randomness",
]

# Where each name lives: loaded when it is first asked for, so that whoever needs little does not wait for all.
_HOMES = {
    "Attack": "nearveil.attacks.base",
    "AxisLaplace": "nearveil.mechanisms.axis_laplace",
    "Basis": "nearveil.privacy.guarantee",
    "Certificate": "nearveil.privacy.guarantee",
    "DPRS": "nearveil.mechanisms.dprs",
    "DataError": "nearveil.errors",
    "Goal": "nearveil.evaluation.planning.goal",
    "Guarantee": "nearveil.privacy.guarantee",
    "Intervals": "nearveil.mechanisms.intervals",
    "Mechanism": "nearveil.mechanisms.base",
    "NearveilError": "nearveil.errors",
    "Notion": "nearveil.privacy.guarantee",
    "OutputError": "nearveil.errors",
    "Plan": "nearveil.evaluation.planning.plan",
    "PlanarLaplace": "nearveil.mechanisms.planar_laplace",
    "ProtectResult": "nearveil.release.protect",
    "Randomness": "nearveil.randomness",
    "ReadOptions": "nearveil.io.people",
    "Region": "nearveil.region",
    "Reproduction": "nearveil.report.reproduce",
    "SRR": "nearveil.mechanisms.srr",
    "Square": "nearveil.mechanisms.square",
    "UsageError": "nearveil.errors",
    "build_grid_intervals": "nearveil.mechanisms.fit_grid",
    "build_pic_intervals": "nearveil.mechanisms.fit_pic",
    "fit_intervals": "nearveil.release.fitting",
    "intervals_from_json": "nearveil.mechanisms.intervals",
    "named_region": "nearveil.region",
    "parse_region": "nearveil.region",
    "plan": "nearveil.evaluation.planning.plan",
    "protect_file": "nearveil.release.protect",
    "protect_frame": "nearveil.release.protect",
    "reproduce": "nearveil.report.reproduce",
    "secure_randomness": "nearveil.randomness",
    "seeded_randomness": "nearveil.randomness",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
