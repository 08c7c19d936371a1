"""The live index against a naive oracle: sort everybody by distance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearveil.errors import UsageError
from nearveil.nearby.index import NearbyIndex

HALF = (1000.0, 800.0)


def squared(index: NearbyIndex, place: tuple[float, ...]) -> dict[object, float]:
    spots = {person: index.place_of(person) for person in index.people()}
    return {person: (x - place[0]) ** 2 + (y - place[1]) ** 2 for person, (x, y) in spots.items()}


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), people=st.sampled_from([1, 4, 60, 700]), lattice=st.booleans())
def test_agrees_with_sorting_everybody_while_people_come_move_and_go(seed: int, people: int, lattice: bool) -> None:
    rng = np.random.default_rng(seed)

    def somewhere(count: int) -> np.ndarray:
        places = rng.normal(0, 500, (count, 2))
        # On a lattice many people are at exactly the same distance, and some at the same place.
        return np.round(places / 100) * 100 if lattice else places

    index = NearbyIndex(HALF, range(people), somewhere(people), rng=1)
    for turn in range(30):
        here = list(index.people())
        action = rng.integers(3)
        if action == 0 or len(here) < 2:
            index.insert(f"new-{turn}", somewhere(1)[0])
        elif action == 1:
            index.move(here[rng.integers(len(here))], somewhere(1)[0] * 5)
        else:
            index.remove(here[rng.integers(len(here))])
        place = tuple(float(value) for value in somewhere(1)[0] * rng.choice([1, 4]))
        k = int(rng.integers(1, 40))
        distance = squared(index, place)
        in_order = sorted(distance.values())
        listed = index.ranked(place, k)
        assert [distance[person] for person in listed] == pytest.approx(in_order[:k])
        assert len(set(listed)) == min(k, len(index))
        kth = in_order[min(k, len(in_order)) - 1]
        assert set(index.within_kth(place, k)) == {person for person, square in distance.items() if square <= kth}


def test_ties_are_in_a_random_but_stable_order() -> None:
    places = np.tile([[3.0, 4.0]], (50, 1))
    index = NearbyIndex(HALF, range(50), places)
    first = index.ranked((0.0, 0.0), 50)
    assert first != list(range(50))
    assert first == index.ranked((0.0, 0.0), 50)
    assert index.ranked((0.0, 0.0), 10) == first[:10]
    assert len(index.within_kth((0.0, 0.0), 10)) == 50
    # Growing keeps the order of those who were there.
    for number in range(100):
        index.insert(f"new-{number}", (500.0, 500.0))
    assert index.ranked((0.0, 0.0), 50) == first
    assert NearbyIndex(HALF, range(50), places).ranked((0.0, 0.0), 50) != first


def test_places_beyond_the_area_are_found() -> None:
    index = NearbyIndex(HALF, ["far", "near"], [[90_000, 0], [10, 0]])
    assert index.ranked((80_000.0, 0.0), 1) == ["far"]
    assert index.ranked((0.0, 0.0), 5) == ["near", "far"]


def test_misuse_is_refused() -> None:
    index = NearbyIndex(HALF, ["ann"], [[0, 0]])
    for misuse in (
        lambda: index.insert("ann", (1, 1)),
        lambda: index.move("bob", (1, 1)),
        lambda: index.remove("bob"),
        lambda: index.ranked((0, 0), 0),
        lambda: index.insert("bob", (float("nan"), 0)),
        lambda: NearbyIndex(HALF, ["a", "a"], [[0, 0], [1, 1]]),
        lambda: NearbyIndex(HALF, ["a"], []),
    ):
        with pytest.raises(UsageError):
            misuse()
    assert index.ranked((0, 0), 3) == ["ann"]
    assert "ann" in index
    assert len(index) == 1
