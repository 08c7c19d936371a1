"""The index against sorting everybody, and while generations change under the questions."""

import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearveil.errors import DataError, UsageError
from nearveil.hashing import hash_ids, hash_words
from nearveil.nearby import index as index_module
from nearveil.nearby.index import Filter, NearbyIndex, Person, nearest_rows
from nearveil.nearby.stores.base import LeftError, PublishedBatch
from nearveil.region import Region, named_region
from nearveil.types import FloatArray, IntArray

REGION = Region(37.5, -122.6, 37.9, -122.2)
KEY = bytes(range(16))
OTHER_KEY = bytes(16)

Map = dict[str, tuple[float, float]]


def as_metres(steps: IntArray) -> FloatArray:
    return steps.astype(np.float64) * 0.125


def as_batches(people: Map, size: int = 1000) -> Iterator[PublishedBatch]:
    ids = list(people)
    for first in range(0, len(ids), size):
        some = ids[first : first + size]
        yield PublishedBatch(some, np.rint(np.array([people[person] for person in some]) / 0.125).astype(np.int64))


def loaded(people: Map, key: bytes = KEY, region: Region = REGION) -> NearbyIndex[str]:
    index = NearbyIndex[str](region)
    index.load(as_batches(people), as_metres, key)
    return index


def in_order(
    people: Map, place: tuple[float, float], k: int, key: bytes, exclude: str | None = None, within_m: float = np.inf
) -> list[str]:
    """The truth: everybody sorted by distance, then by their tie."""
    ids = list(people)
    ties = hash_words(hash_ids(ids), key)
    squares = {person: (x - place[0]) ** 2 + (y - place[1]) ** 2 for person, (x, y) in people.items()}
    tie = dict(zip(ids, ties.tolist(), strict=True))
    wanted = [person for person in ids if person != exclude and squares[person] <= within_m**2]
    return sorted(wanted, key=lambda person: (squares[person], tie[person]))[:k]


def scattered(rng: np.random.Generator, count: int, shape: str) -> list[tuple[float, float]]:
    half = np.array(REGION.half_extent_m)
    spread = {"even": 0.5, "lattice": 0.4, "crowd": 0.002, "beyond": 1.5}[shape] * half
    middle = 0.6 * half if shape == "crowd" else 0.0
    places = middle + rng.normal(size=(count, 2)) * spread
    # On a lattice many people are at exactly the same distance, and some at the same place.
    step = 2000.0 if shape == "lattice" else 0.125
    return [(float(x), float(y)) for x, y in np.rint(places / step) * step]


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    people=st.sampled_from([0, 1, 5, 80, 900]),
    shape=st.sampled_from(["even", "lattice", "crowd", "beyond"]),
)
def test_agrees_with_sorting_everybody_over_generations_and_changes(seed: int, people: int, shape: str) -> None:
    rng = np.random.default_rng(seed)
    here: Map = {f"p{number}": place for number, place in enumerate(scattered(rng, people, shape))}
    index, key = loaded(here), KEY

    def check() -> None:
        for asked_shape in ("even", shape):
            place = scattered(rng, 1, asked_shape)[0]
            k = int(rng.choice([1, 3, 10, 100]))
            within_m = float(rng.choice([np.inf, 500.0, 6000.0]))
            exclude = [*here, None, "nobody"][int(rng.integers(len(here) + 2))]
            expected = in_order(here, place, k, key, exclude, within_m)
            limit = None if within_m == np.inf else within_m
            assert index.ranked_metres(*place, k, exclude, limit) == expected
        assert len(index) == len(here)

    check()
    for turn in range(6):
        newcomers = dict(zip(
            [f"t{turn}-{number}" for number in range(20)], scattered(rng, 20, shape), strict=True
        ))  # fmt: skip
        movers = rng.choice(list(here), len(here) // 3, replace=False).tolist() if here else []
        changes = newcomers | dict(zip(movers, scattered(rng, len(movers), shape), strict=True))
        key = rng.bytes(16)
        index.advance(as_batches(changes, size=7), as_metres, key)
        here |= changes
        check()
        for person in rng.choice(list(here), 8, replace=False).tolist():
            assert person in index
            assert index.remove(person)
            assert person not in index
            assert not index.remove(person)
            del here[person]
        check()
        for number, place in enumerate(scattered(rng, 30, shape)):
            person = f"m{number}" if number % 2 else str(rng.choice(list(here)))
            index.move(person, *place)
            here[person] = place
            if number % 10 == 0:
                check()


def test_a_generation_from_nothing_forgets_who_is_not_in_it() -> None:
    index = loaded({"ann": (0.0, 0.0), "bob": (10.0, 0.0)})
    index.load(as_batches({"bob": (20.0, 0.0), "eve": (5.0, 0.0)}), as_metres, KEY)
    assert index.ranked_metres(0, 0, 10) == ["eve", "bob"]
    assert "ann" not in index
    assert not index.remove("ann")
    # Slots are used again rather than piling up.
    for turn in range(50):
        index.load(as_batches({f"{turn}-{number}": (float(number), 0.0) for number in range(10)}), as_metres, KEY)
    assert len(index) == 10
    assert len(index._roster) <= 40


def test_the_order_of_equals_changes_with_the_key_and_not_with_the_process_or_the_way_they_came() -> None:
    people = {f"p{number}": (3.0, 4.0) for number in range(50)}
    index = loaded(people)
    first = index.ranked_metres(0, 0, 50)
    assert first == index.ranked_metres(0, 0, 50)
    assert index.ranked_metres(0, 0, 10) == first[:10]
    backwards = dict(reversed(people.items()))
    other = NearbyIndex[str](REGION)
    other.load(as_batches(backwards, size=9), as_metres, OTHER_KEY)
    other.advance(as_batches({}), as_metres, KEY)
    assert other.ranked_metres(0, 0, 50) == first
    for person, place in people.items():
        other.remove(person)
        other.move(person, *place)
    assert other.ranked_metres(0, 0, 50) == first
    index.advance(as_batches({}), as_metres, OTHER_KEY)
    second = index.ranked_metres(0, 0, 50)
    assert second != first
    assert sorted(second) == sorted(first)


# -- the order of equals from a seed, for experiments ----------------------------------------------------------------


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), people=st.sampled_from([1, 4, 60, 700]), lattice=st.booleans())
def test_agrees_with_sorting_everybody_while_people_of_any_kind_come_move_and_go(
    seed: int, people: int, lattice: bool
) -> None:
    rng = np.random.default_rng(seed)

    def somewhere(count: int) -> FloatArray:
        places = rng.normal(0, 500, (count, 2))
        # On a lattice many people are at exactly the same distance, and some at the same place.
        return np.round(places / 100) * 100 if lattice else places

    start = somewhere(people)
    here: dict[Person, tuple[float, float]] = {number: (x, y) for number, (x, y) in enumerate(start.tolist())}
    index: NearbyIndex[Person] = NearbyIndex(REGION, range(people), start, rng=np.random.default_rng(1))
    # Who has which number among equals: drawn when they come, in the order in which they come.
    numbers = np.random.default_rng(1)
    ties: dict[Person, float] = dict(enumerate(numbers.random(people).tolist()))
    for turn in range(30):
        action = rng.integers(3)
        person: Person = list(here)[rng.integers(len(here))] if here else "nobody"
        if action == 0 or len(here) < 2:
            person = f"new-{turn}"
            ties[person] = float(numbers.random())
        if action == 2 and len(here) >= 2:
            assert index.remove(person)
            del here[person]
        else:
            here[person] = tuple((somewhere(1)[0] * (5 if person in here else 1)).tolist())
            index.move(person, *here[person])
        x_m, y_m = (float(value) for value in somewhere(1)[0] * rng.choice([1, 4]))
        k = int(rng.integers(1, 40))
        squares = {one: (x - x_m) ** 2 + (y - y_m) ** 2 for one, (x, y) in here.items()}
        assert index.ranked_metres(x_m, y_m, k) == sorted(here, key=lambda one: (squares[one], ties[one]))[:k]


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    people=st.sampled_from([12, 80, 900]),
    shape=st.sampled_from(["even", "lattice", "crowd", "beyond"]),
    own=st.booleans(),
)
def test_rows_nearest_to_many_queries_agree_with_sorting_everybody(
    seed: int, people: int, shape: str, own: bool
) -> None:
    rng = np.random.default_rng(seed)
    people_m, k = np.array(scattered(rng, people, shape)), 10
    askers = rng.integers(people, size=30)
    queries_m = people_m[askers] if own else np.array(scattered(rng, 30, "even"))
    found = nearest_rows(people_m, queries_m, k, askers if own else None)
    for query, (place, rows) in enumerate(zip(queries_m, found.tolist(), strict=True)):
        squares = np.sum((people_m - place) ** 2, axis=1)
        if own:
            squares[askers[query]] = np.inf
        assert rows == np.argsort(squares, kind="stable")[:k].tolist()


# -- while a generation is being built ---------------------------------------------------------------------------


@pytest.fixture
def threads_change_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("threads_change_often")
def test_questions_see_one_generation_or_the_next_and_never_a_mixture() -> None:
    """Everybody moves at once from one ring to another: a list with people of both rings would be a mixture."""
    rng = np.random.default_rng(5)
    rings = [{f"p{n}": (r * np.cos(n), r * np.sin(n)) for n in rng.permutation(3000).tolist()} for r in (900.0, 1400.0)]
    # Those of the ring that answers who are near the x axis: known from an index that is not changed.
    truths = [
        [loaded(ring, key).ranked_metres(1000.0, 0.0, 20) for key in (KEY, OTHER_KEY)][number]
        for number, ring in enumerate(rings)
    ]
    assert truths[0] != truths[1]
    index = loaded(rings[0], KEY)
    index.ranked_metres(0, 0, 1)
    wrong, asked, is_over = [], [0], threading.Event()

    def ask() -> None:
        while not is_over.is_set():
            answer = index.ranked_metres(1000.0, 0.0, 20)
            asked[0] += 1
            if answer not in truths:
                wrong.append(answer)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for turn in range(1, 21):
            build = index.load if turn % 3 == 0 else index.advance
            build(as_batches(rings[turn % 2], size=500), as_metres, (KEY, OTHER_KEY)[turn % 2])
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert not wrong
    assert asked[0] > 0


@pytest.mark.usefixtures("threads_change_often")
def test_removals_and_arrivals_under_questions_never_give_anybody_elses_slot() -> None:
    """Slots are let go and used again all the time; everybody who is listed must be one who belongs there."""
    near = {f"near-{n}": (float(n), 0.0) for n in range(40)}
    index = loaded(near | {f"far-{n}": (15_000.0, float(n)) for n in range(40)})
    wrong, is_over = [], threading.Event()

    def ask() -> None:
        while not is_over.is_set():
            answer = index.ranked_metres(0.0, 0.0, 60, None, 1000.0)
            if any(not person.startswith("near-") for person in answer) or len(answer) != len(set(answer)):
                wrong.append(answer)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        for turn in range(60):
            for number in range(40):
                person, other = f"near-{turn * 40 + number}", f"far-{turn * 40 + number}"
                index.remove(person)
                index.remove(other)
                index.move(f"far-{(turn + 1) * 40 + number}", 15_000.0, float(number))
                index.move(f"near-{(turn + 1) * 40 + number}", float(number), 0.0)
            index.advance(iter(()), as_metres, KEY)
    finally:
        is_over.set()
        thread.join()
    assert not wrong
    assert len(index) == 80


@pytest.mark.parametrize("build", ["load", "advance"])
def test_changes_during_a_build_are_in_both_generations(build: str) -> None:
    start: Map = {f"p{n}": (float(n), 0.0) for n in range(30)}
    index = loaded(start)

    def batches() -> Iterator[PublishedBatch]:
        # Removed, moved and new before their batch comes, and after.
        assert index.remove("p1")
        index.move("p2", 5000.0, 0.0)
        yield from as_batches(
            {"p1": (1.0, 1.0), "p2": (2.0, 1.0), "new": (3.0, 1.0), "p3": (3.0, 1.0), "p4": (4.0, 1.0)}
        )
        assert index.ranked_metres(0.0, 0.0, 3) == ["p0", "p3", "p4"]
        assert not index.remove("new")
        assert index.remove("p3")
        assert index.remove("p4")
        index.move("p4", 4.0, 2.0)
        for number in range(100):
            index.move(f"came-{number}", 6000.0, float(number))
        assert index.ranked_metres(0.0, 0.0, 3) == ["p0", "p4", "p5"]
        yield from as_batches({f"p{n}": (float(n), 1.0) for n in range(5, 30)} | {"p0": (0.0, 1.0)})

    getattr(index, build)(batches(), as_metres, OTHER_KEY)
    end: Map = {f"p{n}": (float(n), 1.0) for n in (0, *range(5, 30))} | {"p2": (5000.0, 0.0), "p4": (4.0, 2.0)}
    end |= {f"came-{number}": (6000.0, float(number)) for number in range(100)}
    assert index.ranked_metres(0.0, 0.0, 200) == in_order(end, (0.0, 0.0), 200, OTHER_KEY)
    for person in ("p1", "new", "p3"):
        assert person not in index
        assert person not in index._roster.people


def test_a_build_that_fails_changes_nothing_but_what_was_removed_meanwhile() -> None:
    index = loaded({"ann": (0.0, 0.0), "bob": (1.0, 0.0), "eve": (2.0, 0.0)})

    def broken() -> Iterator[PublishedBatch]:
        yield from as_batches({"ann": (9.0, 0.0), "new": (0.5, 0.0)})
        index.remove("bob")
        raise OSError("the store is gone")

    for build in (index.load, index.advance):
        with pytest.raises(OSError, match="gone"):
            build(broken(), as_metres, OTHER_KEY)
        assert index.ranked_metres(0.0, 0.0, 9) == ["ann", "eve"]
        assert sorted(filter(None, index._roster.people)) == ["ann", "eve"]
    with pytest.raises(UsageError, match="finite"):
        index.load(as_batches({"ann": (9.0, 0.0)}), lambda steps: as_metres(steps) * np.nan, KEY)
    index.advance(as_batches({"new": (0.5, 0.0)}), as_metres, KEY)
    assert index.ranked_metres(0.0, 0.0, 9) == ["ann", "new", "eve"]


# -- places ------------------------------------------------------------------------------------------------------

REGIONS = [
    named_region("san-francisco"),
    named_region("fiji"),
    Region(69.0, 15.0, 71.0, 25.0),
    Region(-0.2, 179.9, 0.2, -179.9),
    Region(-60.0, -80.0, 10.0, -30.0),
]


@pytest.mark.parametrize("region", REGIONS, ids=str)
def test_one_place_is_projected_as_all_are(region: Region) -> None:
    rng = np.random.default_rng(1)
    shares = np.vstack([rng.random((300, 2)), [[0, 0], [0, 1], [1, 0], [1, 1]]])
    points = np.array([region.south, region.west]) + shares * [region.height_deg, region.width_deg]
    points[:, 1] = (points[:, 1] + 180) % 360 - 180
    index = NearbyIndex[str](region)
    found = np.array([index.to_metres(*point) for point in points.tolist()])
    assert np.abs(found - region.to_metres(points)).max() < 1e-6


@pytest.mark.parametrize("region", REGIONS, ids=str)
def test_places_outside_the_region_are_refused_without_naming_them(region: Region) -> None:
    index = NearbyIndex[str](region)
    latitude, longitude = region.centre
    outside = [
        (region.north + 1e-6, longitude),
        (region.south - 1e-6, longitude),
        (latitude, (region.east + 1e-6 + 180) % 360 - 180),
        (latitude, (region.west - 1e-6 + 180) % 360 - 180),
        (float("nan"), longitude),
        (latitude, float("nan")),
        (float("inf"), longitude),
        (latitude, float("-inf")),
        (latitude, longitude + 360.0 if longitude >= 0 else longitude - 360.0),
    ]
    for place in outside:
        for ask in (index.to_metres, lambda north, east: index.ranked(north, east, 10)):
            with pytest.raises(DataError) as caught:
                ask(*place)
            for value in place:
                assert str(value) not in str(caught.value).replace(str(region), "")


def test_questions_cross_the_antimeridian() -> None:
    fiji = named_region("fiji")
    index = NearbyIndex[str](fiji)
    for person, longitude in (("west", 179.99), ("east", -179.98), ("far", 178.0)):
        x_m, y_m = index.to_metres(-17.0, longitude)
        index.move(person, x_m, y_m)
    assert index.ranked(-17.0, 179.999, 3) == ["west", "east", "far"]
    assert index.ranked(-17.0, -179.999, 3) == ["west", "east", "far"]
    assert index.ranked(-17, -179.99, 2, exclude="west", within_m=3000) == ["east"]
    assert index.ranked(-17.0, 180.0, 1) == index.ranked(-17.0, -180.0, 1) == ["west"]


def test_a_sample_is_of_published_places() -> None:
    rng = np.random.default_rng(3)
    people: Map = {f"p{n}": place for n, place in enumerate(scattered(rng, 200, "crowd"))}
    index = loaded(people)
    index.remove("p7")
    some, places = index.sample(20, rng)
    assert len(set(some)) == 20
    assert places.shape == (20, 2)
    assert np.abs(REGION.to_metres(places) - [people[person] for person in some]).max() < 0.2
    assert (np.round(places, 6) == places).all()
    everybody, places = index.sample(500, rng)
    assert sorted(everybody) == sorted(set(people) - {"p7"})
    assert len(places) == 199
    assert some != index.sample(20, rng)[0]
    nobody, places = NearbyIndex[str](REGION).sample(5, rng)
    assert nobody == []
    assert places.shape == (0, 2)


# -- the rest ----------------------------------------------------------------------------------------------------


def test_misuse_is_refused() -> None:
    index = loaded({"ann": (0.0, 0.0)})
    for misuse in (
        lambda: index.ranked_metres(0, 0, 0),
        lambda: index.ranked_metres(float("nan"), 0, 1),
        lambda: index.ranked_metres(0, float("inf"), 1),
        lambda: index.ranked_metres(0, 0, 1, None, -1.0),
        lambda: index.ranked_metres(0, 0, 1, None, float("nan")),
        lambda: index.move("bob", float("nan"), 0.0),
        lambda: index.advance(iter(()), as_metres, b"short"),
        lambda: NearbyIndex(REGION, ["a", "a"], [[0, 0], [1, 1]]),
        lambda: NearbyIndex(REGION, ["a"], []),
        lambda: NearbyIndex(REGION, ["a"], [[float("nan"), 0]]),
    ):
        with pytest.raises(UsageError):
            misuse()
    assert index.ranked_metres(0, 0, 3) == ["ann"]
    assert "bob" not in index


def test_somebody_who_is_twice_in_a_batch_is_where_they_are_last() -> None:
    index = NearbyIndex[str](REGION)
    twice = PublishedBatch(["ann", "bob", "ann"], np.array([[0, 0], [80, 0], [160, 0]]))
    index.load([twice], as_metres, KEY)
    assert index.ranked_metres(0, 0, 5) == ["bob", "ann"]
    assert len(index) == 2


# -- filters: tags, hidden people, and lists that go on ------------------------------------------------------------


class Tagged:
    """An index and what is in it, changed alike."""

    def __init__(self, rng: np.random.Generator, people: int, shape: str) -> None:
        self.rng, self.shape, self.key = rng, shape, KEY
        self.here: Map = {f"p{number}": place for number, place in enumerate(scattered(rng, people, shape))}
        self.tags = {person: self.some_tags() for person in self.here}
        self.index = NearbyIndex[str](REGION)
        self.index.load(self.batches(self.here), as_metres, KEY)

    def some_tags(self) -> int:
        """One of two common tags, and seldom a rare one."""
        return (
            (1 << int(self.rng.integers(2)))
            | (4 if self.rng.random() < 0.05 else 0)
            | (1 << 59 if self.rng.random() < 0.3 else 0)
        )

    def batches(self, people: Map) -> Iterator[PublishedBatch]:
        for batch in as_batches(people, size=7):
            tags = np.array([self.tags[person] for person in batch.people], dtype=np.uint64)
            yield PublishedBatch(batch.people, batch.steps, tags)

    def check(self) -> None:
        place, k = scattered(self.rng, 1, self.shape)[0], int(self.rng.choice([1, 3, 10]))
        only = [(), (1,), (4,), (3, 1 << 59), (1, 2), (5, 1 << 59), (8,)][int(self.rng.integers(7))]
        near = in_order(self.here, place, len(self.here), self.key)
        hidden = set(near[1 : int(self.rng.choice([1, 4, 60]))]) | {"nobody"}
        within_m = float(self.rng.choice([np.inf, 6000.0]))
        exclude = near[0] if near else None
        expected = [
            person
            for person in in_order(self.here, place, len(self.here), self.key, exclude, within_m)
            if person not in hidden and all(self.tags[person] & group for group in only)
        ]
        limit = None if within_m == np.inf else within_m
        found: list[str] = []
        after = None
        # Page by page: together they are the whole list, each person once.
        while len(found) < 40:
            wanted = Filter(only=only, hidden=(hidden, set()), after=after)
            page = self.index.ranked_metres(*place, k, exclude, limit, wanted)
            assert page == expected[len(found) : len(found) + k]
            found += page
            if len(page) < k:
                return
            after = page[-1]


@settings(max_examples=20)
@given(
    seed=st.integers(0, 10**6),
    people=st.sampled_from([0, 5, 80, 500]),
    shape=st.sampled_from(["even", "lattice", "crowd", "beyond"]),
    most_few=st.sampled_from([0, 30, 6000]),
)
def test_filters_agree_with_sorting_everybody_over_changes(seed: int, people: int, shape: str, most_few: int) -> None:
    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_module, "_MOST_FEW", most_few)
        town = Tagged(rng, people, shape)
        town.check()
        for turn in range(3):
            movers = rng.choice(list(town.here), len(town.here) // 3, replace=False).tolist() if town.here else []
            newcomers = [f"t{turn}-{number}" for number in range(20)]
            changes = dict(zip([*newcomers, *movers], scattered(rng, 20 + len(movers), shape), strict=True))
            town.here |= changes
            town.tags |= {person: town.some_tags() for person in changes}
            town.key = rng.bytes(16)
            town.index.advance(town.batches(changes), as_metres, town.key)
            town.check()
            for person in rng.choice(list(town.here), 12, replace=False).tolist():
                change = rng.integers(3)
                if change == 0:
                    town.index.remove(person)
                    del town.here[person]
                elif change == 1:
                    town.tags[person] = town.some_tags()
                    town.index.tag(person, town.tags[person])
                else:
                    town.here[person] = scattered(rng, 1, shape)[0]
                    town.index.move(person, *town.here[person])
                town.check()


def test_somebody_new_in_a_slot_has_none_of_the_tags_of_who_left() -> None:
    for groups in ((1,), ()):
        index = loaded({"ann": (0.0, 0.0)})
        index.tag("ann", 1)
        assert index.ranked_metres(0, 0, 5, filtered=Filter(only=groups)) == ["ann"]
        index.remove("ann")
        index.move("bob", 0.0, 0.0)
        assert index.ranked_metres(0, 0, 5, filtered=Filter(only=(1,))) == []
        assert index.ranked_metres(0, 0, 5, filtered=Filter()) == ["bob"]


def test_tags_given_while_a_generation_is_built_are_not_lost() -> None:
    index = loaded({"ann": (0.0, 0.0), "eve": (5.0, 0.0), "tom": (6.0, 0.0)})
    index.tag("tom", 4)

    def read() -> Iterator[PublishedBatch]:
        # The store was read before these changes.
        yield PublishedBatch(
            ["ann", "bob", "tom"], np.zeros((3, 2), dtype=np.int64), np.array([1, 1, 4], dtype=np.uint64)
        )
        index.tag("ann", 2)
        index.tag("bob", 2)
        index.tag("eve", 2)
        index.remove("tom")
        index.move("tom", 6.0, 0.0)
        # Nothing of the next generation is seen before it answers.
        assert index.ranked_metres(0, 0, 5, filtered=Filter(only=(2,))) == ["ann", "eve"]

    index.advance(read(), as_metres, KEY)
    assert set(index.ranked_metres(0, 0, 5, filtered=Filter(only=(2,)))) == {"ann", "bob", "eve"}
    assert index.ranked_metres(0, 0, 5, filtered=Filter(only=(1,))) == []
    assert index.ranked_metres(0, 0, 5, filtered=Filter(only=(4,))) == []


def test_a_list_does_not_go_on_after_somebody_who_left() -> None:
    index = loaded({"ann": (0.0, 0.0), "bob": (10.0, 0.0)})
    assert index.ranked_metres(0, 0, 5, filtered=Filter(after="ann")) == ["bob"]
    index.remove("ann")
    for person in ("ann", "nobody"):
        with pytest.raises(LeftError):
            index.ranked_metres(0, 0, 5, filtered=Filter(after=person))
