"""Figure 6: recall of DPRS with Gaussian noise against the number of centres."""

from __future__ import annotations

from nearveil.evaluation.cells.utility_cell import UtilityCell
from nearveil.evaluation.outcome import Outcome
from nearveil.evaluation.parts.figure5 import PROTOCOL, lines_by_centres, remarks_on_centres
from nearveil.evaluation.parts.scope import Results, Scope
from nearveil.evaluation.parts.sweeps import Sweep, sweep_cells, sweep_outcome

NAME = "figure6"
TITLE = "Figure 6: recall against the number of centres, Gaussian noise"


def cells(scope: Scope) -> list[UtilityCell]:
    """Every epsilon and number of centres."""
    return sweep_cells(scope, _sweep(scope))


def outcome(scope: Scope, results: Results) -> Outcome:
    """Draw recall against the number of centres."""
    return sweep_outcome(scope, results, _sweep(scope), lambda points: remarks_on_centres(scope, points, NAME))


def _sweep(scope: Scope) -> Sweep:
    question = "The paper: as with Laplace noise, recall rises with the number of centres and with epsilon."
    return Sweep(NAME, TITLE, question, "centres", "number of centres", lines_by_centres(scope, "gaussian"), PROTOCOL)
