"""Figure 5: recall of DPRS against the number of centres, at several epsilons."""

from __future__ import annotations

from collections.abc import Sequence

from nearveil.evaluation.cells.utility_cell import UtilityCell
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.outcome import Outcome
from nearveil.evaluation.parts.scope import Results, Scope
from nearveil.evaluation.parts.sweeps import Step, Sweep, SweptPoint, changes, rising, sweep_cells, sweep_outcome
from nearveil.privacy.accounting import Noise

NAME = "figure5"
TITLE = "Figure 5: recall against the number of centres"

CENTRES = (600, 700, 800, 900, 1000)
QUICK_CENTRES = (600, 1000)
PAPER_CENTRES = 800
PROTOCOL = "k = 10"


def cells(scope: Scope) -> list[UtilityCell]:
    """Every epsilon and number of centres."""
    return sweep_cells(scope, _sweep(scope))


def outcome(scope: Scope, results: Results) -> Outcome:
    """Draw recall against the number of centres."""
    return sweep_outcome(scope, results, _sweep(scope), lambda points: remarks_on_centres(scope, points, NAME))


def _sweep(scope: Scope) -> Sweep:
    question = "The paper: recall rises gradually as centres grow from 600 to 1,000."
    return Sweep(NAME, TITLE, question, "centres", "number of centres", lines_by_centres(scope, "laplace"), PROTOCOL)


def lines_by_centres(scope: Scope, noise: Noise) -> dict[str, tuple[Step, ...]]:
    """Return a line for each epsilon, along the number of centres."""
    label = "DPRS" if noise == "laplace" else "DPRS, Gaussian"
    return {
        f"epsilon = {epsilon:g}": tuple(
            Step(
                centres,
                Defence(label=label, kind="dprs", noise=noise, epsilon=epsilon, centres=centres),
                paper_name="DPRS" if noise == "laplace" and centres == PAPER_CENTRES else None,
            )
            for centres in (QUICK_CENTRES if scope.quick else CENTRES)
        )
        for epsilon in scope.epsilons
    }


def remarks_on_centres(scope: Scope, points: Sequence[SweptPoint], name: str) -> tuple[str, ...]:
    """Say whether recall rises with the number of centres, and with epsilon."""
    labels = [f"epsilon = {epsilon:g}" for epsilon in scope.epsilons]
    grown = changes(points, labels)
    least, most = ([one for one in points if one.label == label] for label in (labels[0], labels[-1]))
    higher = sum(b.uniform.value > a.uniform.value for a, b in zip(least, most, strict=True))
    beside = " The paper does not say with how many centres Table 3 was made; we take 800." if name == NAME else ""
    return (
        f"Recall {rising(points, labels)}; from 600 to 1,000 centres it changes by {min(grown):+.3f} to "
        f"{max(grown):+.3f}.",
        f"Recall at epsilon = {scope.epsilons[-1]:g} is above that at {scope.epsilons[0]:g} at {higher} of "
        f"{len(least)} points.{beside}",
    )
