"""Figure 4: recall against the length of the list, all mechanisms at epsilon = 3."""

from __future__ import annotations

from collections.abc import Sequence

from nearveil.evaluation.cells.publication import KS
from nearveil.evaluation.cells.utility_cell import UtilityCell
from nearveil.evaluation.defences import Defence, paper_defences
from nearveil.evaluation.outcome import Outcome
from nearveil.evaluation.parts.scope import Results, Scope, span
from nearveil.evaluation.parts.sweeps import Step, Sweep, SweptPoint, rising, sweep_cells, sweep_outcome

NAME = "figure4"
TITLE = "Figure 4: recall against the length of the list"
EPSILON = 3.0
PAPER_NAMES = {"DPRS": "DPRS", "DPRS, Laplace": "DPRS", "SRR": "SRR", "Square": "Square", "2D Laplace": "Laplace"}

PROTOCOL = f"Epsilon = {EPSILON:g}, 800 centres"

_SWEEP_QUESTION = "The paper: recall rises with k, and DPRS is above SRR, Square and 2D Laplace everywhere."


def cells(scope: Scope) -> list[UtilityCell]:
    """One cell has every k."""
    return sweep_cells(scope, _SWEEP)


def outcome(scope: Scope, results: Results) -> Outcome:
    """Draw recall against k."""
    return sweep_outcome(scope, results, _SWEEP, _remarks)


def lines_by_k(defences: Sequence[Defence]) -> dict[str, tuple[Step, ...]]:
    """Return a line for each defence, along k; the paper's table has the first point of each."""
    return {
        one.label: tuple(Step(k, one, k, PAPER_NAMES.get(one.label) if k == KS[0] else None) for k in KS)
        for one in defences
    }


_SWEEP = Sweep(
    NAME, TITLE, _SWEEP_QUESTION, "k", "k, length of the list", lines_by_k(paper_defences(EPSILON)), PROTOCOL
)


def beaten(points: Sequence[SweptPoint], best: str) -> str:
    """Say how often one line is above all others, and by how much."""
    margins = []
    for own in (one for one in points if one.label == best):
        others = [
            one.uniform.value
            for one in points
            if (one.dataset, one.x) == (own.dataset, own.x) and not one.label.startswith("DPRS")
        ]
        margins.append(own.uniform.value - max(others))
    return (
        f"{best} is above all baselines at {sum(m > 0 for m in margins)} of {len(margins)} points, by {span(margins)}"
    )


def _remarks(points: Sequence[SweptPoint]) -> tuple[str, ...]:
    return (
        f"Recall of DPRS {rising(points, ['DPRS'])}; the paper says that it always rises.",
        f"{beaten(points, 'DPRS')}; the paper says that it is above them everywhere. Here baselines are calibrated to "
        "the whole region, see Table 3.",
        "At equal epsilon this compares different promises: SRR, Square and per-axis Laplace hold between any two "
        "places of the region; DPRS does not hold between intervals at all.",
    )
