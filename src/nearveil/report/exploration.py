"""Interactive charts of the report: a reader chooses the axes, hides lines, and asks each point what it is.

They are drawn by Plotly, whose script is in the page itself, packed to a third of its size, so that nothing is fetched.
Where scripts do not run, on paper, or where Plotly is not installed, the drawn picture is shown instead.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import math
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.util import find_spec
from itertools import cycle
from typing import Any

from nearveil.evaluation.results import Axis, Exploration
from nearveil.evaluation.stats import Estimate
from nearveil.report.style import DARK, LIGHT, OWN_LOOKS, looks_of

_SYMBOLS = {
    "o": "circle", "s": "square", "^": "triangle-up", "v": "triangle-down", "<": "triangle-left", ">": "triangle-right",
    "D": "diamond", "P": "cross", "X": "x", "p": "pentagon", "h": "hexagon", "*": "star", "": "circle",
}  # fmt: skip
_DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot", "": "solid"}


@dataclass(frozen=True, slots=True)
class PackedScript:
    """Plotly's script: what the page unpacks, and the digest by which it may run it."""

    packed: str
    digest: str


@cache
def plotly_script() -> PackedScript | None:
    """Return Plotly's script for a page; None where Plotly is not installed."""
    if find_spec("plotly") is None:
        return None
    plain = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    return PackedScript(packed_text(plain), script_digest(plain))


def packed_text(text: bytes) -> str:
    """Return text as the page's script unpacks it."""
    # Without a time, so that equal reports are equal bytes.
    return base64.b64encode(gzip.compress(text, 9, mtime=0)).decode()


def script_digest(script: bytes) -> str:
    """Return the digest by which a page's policy allows a script."""
    return base64.b64encode(hashlib.sha256(script).digest()).decode()


def exploration_document(exploration: Exploration) -> dict[str, Any]:
    """Return what the script of the page draws, as plain values."""
    looks = looks_of(curve.label for curve in exploration.curves if not curve.is_own)
    looks |= dict(zip((curve.label for curve in exploration.curves if curve.is_own), cycle(OWN_LOOKS), strict=False))
    return {
        "x": [_axis(axis) for axis in exploration.x],
        "y": [_axis(axis) for axis in exploration.y],
        "curves": [
            {
                "label": curve.label,
                "own": curve.is_own,
                "light": LIGHT.palette[looks[curve.label].colour],
                "dark": DARK.palette[looks[curve.label].colour],
                "symbol": _SYMBOLS[looks[curve.label].marker],
                "dash": _DASHES[looks[curve.label].dashes],
                "notes": curve.notes,
                "values": {name: [_estimate(one) for one in values] for name, values in curve.values.items()},
            }
            for curve in exploration.curves
        ],
    }


def _axis(axis: Axis) -> dict[str, Any]:
    return {"name": axis.name, "label": axis.label, "log": axis.is_log, "reversed": axis.is_reversed}


def _estimate(one: Estimate) -> list[float | None]:
    """A value with the ends of its interval, rounded to what a reader can see; None for what is no number."""
    return [
        None if part is None or not math.isfinite(part) else float(f"{part:.4g}")
        for part in (one.value, one.low, one.high)
    ]
