"""What is said of results is true of them: made-up results that break a bound are not called good."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nearveil.evaluation import cells
from nearveil.evaluation.attack_experiment import Mean
from nearveil.evaluation.cells import FrontierCell, TenthsCell
from nearveil.evaluation.experiments.registry import EXPERIMENTS
from nearveil.evaluation.experiments.scope import Scope, overlap
from nearveil.evaluation.runner import Cell
from tests.evaluation.made_up_results import made_up_results, tiny_town, utility

TOWNS = {name: tiny_town(name, people=100) for name in ("brightkite", "gaussian")}
SCOPE = Scope(datasets=TOWNS, runs=3, instances=10, queries=10, targets=100)


@pytest.fixture(autouse=True)
def nobody_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "fitted", lambda mechanism, _dataset: mechanism)


def told(name: str, change: Callable[[Cell], dict[str, Any]] = lambda _cell: {}, scope: Scope = SCOPE) -> str:
    outcome = EXPERIMENTS[name].outcome(scope, made_up_results(EXPERIMENTS[name].cells(scope), change))
    return "\n".join(outcome.remarks)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (Mean(0.5, 0.1), Mean(0.7, 0.1), True),
        (Mean(0.5, 0.1), Mean(0.71, 0.1), False),
        (Mean(0.7, 0.05), Mean(0.5, 0.05), False),
        (Mean(0.5, None), Mean(0.5, None), True),
        (Mean(0.5, None), Mean(0.6, 0.2), True),
    ],
)
def test_overlap(first: Mean, second: Mean, expected: bool) -> None:
    assert overlap(first, second) is overlap(second, first) is expected


def by_people(cell: Cell) -> dict[str, Any]:
    """A made-up law: half the people named and a third less recall for twice as many people, or as many metres."""
    assert isinstance(cell, FrontierCell | TenthsCell)
    if isinstance(cell, TenthsCell):
        return {}
    among = cell.defence.hide_among
    strength = float(among) / 100 if among is not None else (cell.defence.noise_m or 0) / 500
    named = 0.05 / strength
    sparsest = named if among is not None else 4 * named
    return utility(cell, 0.2 * strength**-0.6) | {"named": named, "named sparsest": sparsest}


def test_hiding_among_people_is_compared_at_equal_lists_and_at_equal_naming() -> None:
    scope = replace(SCOPE, datasets={"brightkite": TOWNS["brightkite"]})
    found = told("among", by_people, scope)
    # Three populations, three lengths, three sources of cells.
    sparsest = "named in the sparsest tenth, at equal recall@10: 0.25 to 0.25 times that of planar Laplace; at most 0.4"
    assert f"{sparsest} in 27 of 27." in found
    assert "named overall, at equal recall@10: 1.00 to 1.00" in found
    assert "at least 1.1 in 0 of 27, not in: brightkite at 300 m, among, PrivTree;" in found
    outcome = EXPERIMENTS["among"].outcome(scope, made_up_results(EXPERIMENTS["among"].cells(scope), by_people))
    equal = next(table for table in outcome.tables if table.name == "among-equal-recall")
    row = dict(zip([column.name for column in equal.columns], equal.rows[0], strict=True))
    assert row["among as many people"].value == pytest.approx(60, rel=0.03)  # type: ignore[union-attr]
    assert (row["at most 0.4"], row["ratio, sparsest"].value) == ("yes", pytest.approx(0.25, rel=0.02))  # type: ignore[union-attr]


def test_where_curves_do_not_reach_nothing_is_claimed() -> None:
    def far(cell: Cell) -> dict[str, Any]:
        planar = isinstance(cell, FrontierCell) and cell.defence.mechanism == "planar-laplace"
        return by_people(cell) | (utility(cell, 0.99) | {"named": 0.9} if planar else {})

    assert "times that of planar Laplace" not in told("among", far, replace(SCOPE, quick=True))
