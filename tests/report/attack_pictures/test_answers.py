"""What lists say of the target comes from ranks alone."""

import math

import pytest

from nearveil.attacks.base import TraceStep
from nearveil.report.attack_scene import Account, accounts_of, bounds_of, ring_after


@pytest.mark.parametrize(
    ("rank", "account", "bounds"),
    [
        (3, 5, (0.0, 100.0)),
        (5, 3, (100.0, math.inf)),
        (3, None, (0.0, 100.0)),
        (None, 3, (100.0, math.inf)),
        (None, None, (0.0, math.inf)),
    ],
)
def test_who_is_listed_first_is_nearer(rank: int | None, account: int | None, bounds: tuple[float, float]) -> None:
    assert bounds_of([Account(100.0, account)], rank) == bounds


def test_several_accounts_bound_from_both_sides() -> None:
    accounts = [Account(100.0, 1), Account(300.0, 4), Account(500.0, 9), Account(900.0, None)]
    assert bounds_of(accounts, 6) == (300.0, 500.0)


def test_accounts_come_nearest_first_and_know_the_sentinel() -> None:
    step = TraceStep((0.0, 0.0), 2, ((0.0, 50.0), (0.0, 0.0)), (None, 1))
    assert accounts_of(step) == [Account(0.0, 1), Account(50.0, None)]
    assert [account.is_sentinel for account in accounts_of(step)] == [True, False]


def test_a_ring_is_made_of_all_questions_from_one_place() -> None:
    here, there = (0.0, 0.0), (1000.0, 0.0)
    steps = (
        TraceStep(here, 4),
        TraceStep(here, 4, ((800.0, 0.0),), (9,)),
        TraceStep(there, 4, ((1001.0, 0.0),), (9,)),
        TraceStep(here, None, ((200.0, 0.0),), (3,)),
    )
    assert ring_after(steps[:1]) is None
    assert ring_after(steps[:2]) == (0.0, 800.0)
    assert ring_after(steps) == (200.0, 800.0)
