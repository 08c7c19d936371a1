"""How benchmarks time contenders and show what they found."""

from pathlib import Path

import pytest
from benchmarks.measure import Row, draw_ratios, in_turns, table


def test_contenders_warm_up_and_then_take_turns_in_both_orders() -> None:
    worked = []

    def contender(name: str, seconds: float) -> float:
        worked.append(name)
        return seconds

    times = in_turns({"a": lambda: contender("a", 1.0), "b": lambda: contender("b", 2.0)}, rounds=3)
    assert worked == ["a", "b", "a", "b", "b", "a", "a", "b"]
    assert times == {"a": [1.0] * 3, "b": [2.0] * 3}


def test_a_ratio_above_1_says_that_nearveil_is_faster(tmp_path: Path) -> None:
    row = Row("a query", "PostGIS", ours=[5e-6, 6e-6, 9e-6], theirs=[2e-4, 3e-4, 6e-4])
    assert row.ratio == pytest.approx(40)
    assert row.median_ratio == pytest.approx(50)
    assert table([row]).splitlines()[1].split() == ["a", "query", "PostGIS", "5.0", "µs", "200.0", "µs", "40", "50"]
    draw_ratios([row], tmp_path / "ratios.png")
    assert (tmp_path / "ratios.png").stat().st_size > 1_000
