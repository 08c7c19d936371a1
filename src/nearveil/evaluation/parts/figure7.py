"""Figure 7: recall against the length of the list, with Gaussian noise among the mechanisms."""

from __future__ import annotations

from collections.abc import Sequence

from nearveil.evaluation.cells.utility_cell import UtilityCell
from nearveil.evaluation.defences import Defence, paper_defences
from nearveil.evaluation.outcome import Outcome
from nearveil.evaluation.parts.figure4 import EPSILON, PROTOCOL, beaten, lines_by_k
from nearveil.evaluation.parts.scope import Results, Scope, span
from nearveil.evaluation.parts.sweeps import Sweep, SweptPoint, rising, sweep_cells, sweep_outcome

NAME = "figure7"
TITLE = "Figure 7: recall against the length of the list, Laplace and Gaussian noise"

_GAUSSIAN = Defence(label="DPRS, Gaussian", kind="dprs", noise="gaussian", epsilon=EPSILON)
_SWEEP = Sweep(
    NAME,
    TITLE,
    "The paper: DPRS with Gaussian noise is above the baselines too.",
    "k",
    "k, length of the list",
    lines_by_k([*paper_defences(EPSILON), _GAUSSIAN]),
    PROTOCOL,
)


def cells(scope: Scope) -> list[UtilityCell]:
    """One cell has every k; most are those of Figure 4."""
    return sweep_cells(scope, _SWEEP)


def outcome(scope: Scope, results: Results) -> Outcome:
    """Draw recall against k."""
    return sweep_outcome(scope, results, _SWEEP, _remarks)


def _remarks(points: Sequence[SweptPoint]) -> tuple[str, ...]:
    laplace = {(one.dataset, one.x): one.uniform.value for one in points if one.label == "DPRS"}
    gaps = [one.uniform.value - laplace[one.dataset, one.x] for one in points if one.label == _GAUSSIAN.label]
    return (
        f"{beaten(points, 'DPRS, Gaussian')}; its recall {rising(points, [_GAUSSIAN.label])}.",
        f"Gaussian noise in place of Laplace changes the recall of DPRS by {span(gaps, '+.3f')}.",
    )
