"""Bounds from lists: true whatever is asked, and accounts that are not where they were put are noticed."""

import math

import numpy as np
import pytest

from nearveil.attacks._belief import (
    Belief,
    Rings,
    accounts_in_order,
)
from nearveil.nearby.index import Person

START = (0.0, 0.0)


@pytest.mark.parametrize("seed", range(20))
def test_every_bound_holds_for_the_truth(seed: int) -> None:
    """Any people, any questions, any accounts: the target satisfies every ring, and so do all cells around it."""
    rng = np.random.default_rng(seed)
    people = rng.normal(0, 500, (30, 2))
    k = int(rng.integers(2, 15))
    target = int(np.argsort(np.hypot(*people.T))[rng.integers(k)])
    rings, belief = Rings(target, k, START), Belief(START, (5000.0, 5000.0), k, 100.0)
    for number in range(12):
        place = START if number % 3 == 0 else tuple(rng.normal(0, 400, 2).tolist())
        radii = [0.0] * (number % 2) + rng.uniform(1, 1500, int(rng.integers(0, 5))).tolist()
        entries: list[tuple[float, Person]] = [(math.dist(place, person), who) for who, person in enumerate(people)]
        accounts: dict[Person, float] = {f"account-{i}": radius for i, radius in enumerate(sorted(radii))}
        entries += [(radius, account) for account, radius in accounts.items()]
        answer = [who for _, who in sorted(entries, key=lambda entry: entry[0])[:k]]
        assert rings.learn(place, accounts, answer)
        assert belief.learn(rings)
        for x, y, low, high in rings.of_target():
            assert low <= math.dist((x, y), people[target]) <= high
        assert (np.abs(belief.cells[:, :2] - people[target]) <= belief.cells[:, 2:] + 1e-9).all(axis=1).any()
        centre, radius = belief.enclosing_circle()
        assert math.dist(centre, people[target]) <= radius


@pytest.mark.parametrize(
    ("radii", "answer", "fine"),
    [
        ({"a": 5.0, "b": 9.0}, ["p", "a", "b"], True),
        ({"a": 5.0, "b": 9.0}, ["p", "b", "a"], False),
        ({"a": 5.0, "b": 9.0}, ["p", "b"], False),
        ({"a": 5.0, "b": 9.0}, ["p", "a"], True),
        ({"a": 5.0}, ["p", "q"], True),
        ({"a": 0.0}, ["a", "p"], True),
        ({"a": 0.0}, ["p", "a"], False),
        ({"a": 0.0}, ["p", "q"], False),
        ({"a": 0.0}, [], False),
    ],
    ids=["in order", "swapped", "nearer one hidden", "farther one cut off", "cut off", "sentinel first",
         "sentinel second", "sentinel missing", "nothing listed"],
)  # fmt: skip
def test_accounts_where_they_were_put(radii: dict[Person, float], answer: list[Person], fine: bool) -> None:
    assert accounts_in_order(radii, answer) is fine
