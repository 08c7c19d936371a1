"""Table 3 under other readings: hypotheses of ours under which the paper's numbers come out, labelled as such."""

from __future__ import annotations

from dataclasses import replace

from nearveil.evaluation.defences import paper_defences
from nearveil.evaluation.parts.scope import Scope
from nearveil.evaluation.parts.table3_rows import K, Line, Reading, line_of

SYNTHETIC = ("gaussian", "beta")
PAPER_BASELINES = ("SRR", "Square", "2D Laplace")
CONFINED_GAMMA = 0.8
"""The largest that intervals can have here."""

_CENTRES = 900
_LONGER_LISTS = f"k = 30, outermost people on the region's edges, {_CENTRES} centres"

LONGER_LISTS = Reading(f"hypothesis: {_LONGER_LISTS}", 30, "min-max")
FEWER_PEOPLE = Reading("hypothesis: 8,000 people", K, "8,000 people")
CONFINED = Reading(f"hypothesis: noise confined to discs, gamma = {CONFINED_GAMMA:g}")
CONFINED_SYNTHETIC = replace(LONGER_LISTS, words=f"{CONFINED.words}; {_LONGER_LISTS}")


def hypothetical_lines(scope: Scope) -> list[Line]:
    """Return the extra rows: three times the k / n for DPRS on the generated populations, and confined baselines.

    None for a population that the paper has no numbers for.
    """
    return [
        line
        for dataset in scope.datasets
        for epsilon in scope.epsilons
        for line in _lines(scope, dataset, epsilon)
        if line.paper is not None
    ]


def _lines(scope: Scope, dataset: str, epsilon: float) -> list[Line]:
    dprs = next(one for one in paper_defences(epsilon) if one.label == "DPRS")
    confined = [
        replace(one, confined=True, gamma=CONFINED_GAMMA)
        for one in paper_defences(epsilon)
        if one.label in PAPER_BASELINES
    ]
    if dataset not in SYNTHETIC:
        return [line_of(scope, dataset, one, CONFINED) for one in confined]
    return [
        line_of(scope, dataset, replace(dprs, centres=_CENTRES), LONGER_LISTS),
        line_of(scope, dataset, dprs, FEWER_PEOPLE),
        *(line_of(scope, dataset, replace(one, centres=_CENTRES), CONFINED_SYNTHETIC) for one in confined),
    ]
