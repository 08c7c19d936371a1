"""Mechanisms by name, and as plain values: a file can say exactly what was certified or audited, to be rebuilt."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.axis_laplace import AxisLaplace
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.intervals import Intervals, intervals_from_document
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.mechanisms.square import Square
from nearveil.mechanisms.srr import SRR
from nearveil.region import Region

MECHANISMS: dict[str, type[Mechanism]] = {
    "dprs": DPRS,
    "planar-laplace": PlanarLaplace,
    "laplace": AxisLaplace,
    "srr": SRR,
    "square": Square,
}
"""Mechanisms by the names that the command line and files know."""


def mechanism_name(mechanism: Mechanism) -> str:
    """Return the name that the command line and files know a mechanism by; of somebody else's, that of its class."""
    names = {kind: name for name, kind in MECHANISMS.items()}
    return names.get(type(mechanism), type(mechanism).__name__)


def mechanism_to_spec(mechanism: Mechanism) -> dict[str, Any]:
    """Return a mechanism's name and parameters as plain values; intervals that were fitted count as given.

    The seed is left out: a certificate or an audit speaks of the mechanism, not of one draw.
    """
    names = {kind: name for name, kind in MECHANISMS.items()}
    if type(mechanism) not in names:
        raise UsageError(f"only Nearveil's own mechanisms can be written down, and {type(mechanism).__name__} is none")
    if getattr(mechanism, "_noise_factor", 1.0) != 1.0:
        raise UsageError("noise that was rescaled for a test is not what the parameters say, and is not written down")
    params = {name: value for name, value in mechanism.get_params().items() if name != "seed" and value is not None}
    params["region"] = mechanism.resolved_region
    if isinstance(mechanism, DPRS):
        params["release"] = mechanism.chosen_release
        params["intervals"] = mechanism.current_intervals
        params.pop("least_radius_m", None)
    return {"mechanism": names[type(mechanism)], "params": {name: _plain(value) for name, value in params.items()}}


def mechanism_from_spec(document: dict[str, Any]) -> Mechanism:
    """Rebuild the mechanism that `mechanism_to_spec` described."""
    try:
        params = dict(document["params"])
        params["region"] = Region(**params["region"])
        if "intervals" in params:
            params["intervals"] = intervals_from_document(params["intervals"])
        if "cells" in params:
            params["cells"] = [(int(column), int(row)) for column, row in params["cells"]]
        return MECHANISMS[document["mechanism"]](**params)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DataError("the file does not describe a mechanism of Nearveil, or is damaged; make it again") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Region):
        return asdict(value)
    if isinstance(value, Intervals):
        return value.to_document()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value.item() if hasattr(value, "item") else value
