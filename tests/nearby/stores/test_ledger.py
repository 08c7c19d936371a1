"""What every store keeps of people that callers never see: the ledger, last reports, and marks of the erased."""

import json

import pytest

from nearveil.nearby.stores.base import ErasedMark, Held, Standing, Store
from tests.nearby.stores.draws import (
    EPOCH,
    WINDOW,
    charge,
    charged_in,
    draw,
    elsewhere,
    held,
    known,
    known_places,
    publish,
    published_steps,
    put,
    shown,
    stand,
    standing,
)

NOBODY = "nobody"


@pytest.fixture(autouse=True)
def _people(store: Store) -> None:
    store.add_people(["ann", "bob", "cem"])


class TestRecords:
    def test_a_record_says_what_callers_may_see(self, store: Store) -> None:
        put(store, draw("ann", 2))
        publish(store)
        record = shown(store, "ann")
        assert json.loads(json.dumps(record)) == record
        assert record.pop("created").endswith("+00:00")
        assert record == {
            "id": "ann",
            "published": {"x_m": 250.0, "y_m": -250.125},
            "tags": [],
            "blocked": [],
        }
        bob = shown(store, "bob")
        assert bob == {"id": "bob", "created": bob["created"], "published": None, "tags": [], "blocked": []}
        assert store.record(NOBODY) is None

    @pytest.mark.parametrize("is_published", [True, False])
    def test_a_record_tells_nothing_of_reports_and_the_ledger(self, store: Store, is_published: bool) -> None:
        if is_published:
            put(store, draw("ann"))
            publish(store)
        before = shown(store, "ann")

        def check() -> None:
            assert json.dumps(shown(store, "ann")) == json.dumps(before)

        stand(store, ann=standing(1))
        check()
        put(store, draw("ann", 2), epoch=EPOCH + 3)
        check()
        with store.writing() as writing:
            writing.drop_pending(["ann"])
        check()
        charge(store, draw("ann", 3), draw("ann", 4))
        check()
        store.renew_token_mark("ann")
        check()
        if is_published:
            # Another place that was replaced by the same point, in the next window.
            same_point = elsewhere(draw("ann", 5, window=WINDOW + 1), draw("ann"))
            put(store, same_point, epoch=EPOCH + 1)
            publish(store, EPOCH + 1, window=WINDOW + 1)
            assert held(store, "ann", WINDOW + 1) == Held(
                published=same_point,
                known=known_places(draw("ann"), draw("ann", 3), draw("ann", 4), same_point),
                charged=1,
            )
            check()


class TestCharges:
    """Places that were drawn and are never published."""

    def test_they_are_charged_once(self, store: Store) -> None:
        for _ in range(3):
            charge(store, draw("ann", 1), draw("ann", 2), draw("bob", 1))
        charge(store)
        assert held(store, "ann") == Held(known=known_places(draw("ann", 1), draw("ann", 2)), charged=2)
        assert held(store, "bob") == Held(known=known_places(draw("bob", 1)), charged=1)
        assert store.totals().charged_by_window == {WINDOW: 3}
        publish(store)
        assert published_steps(store) == {}

    def test_the_same_place_twice_at_once_is_one(self, store: Store) -> None:
        charge(store, draw("ann"), draw("bob"), elsewhere(draw("ann")), draw("ann", window=WINDOW + 1))
        assert held(store, "ann") == Held(known=known_places(draw("ann")), charged=1)
        assert known(store, "ann")["charges"] == {str(WINDOW): 1}
        assert store.totals().charged_by_window == {WINDOW: 2}

    def test_the_noisy_place_of_the_first_time_stays(self, store: Store) -> None:
        charge(store, draw("ann"))
        charge(store, elsewhere(draw("ann", window=WINDOW + 1)), draw("ann", 2, window=WINDOW + 1))
        for window in (WINDOW, WINDOW + 1):
            assert held(store, "ann", window) == Held(known=known_places(draw("ann"), draw("ann", 2)), charged=1)
        assert store.totals().charged_by_window == {WINDOW: 1, WINDOW + 1: 1}

    def test_a_place_that_waits_or_is_published_costs_no_more(self, store: Store) -> None:
        put(store, draw("ann"))
        charge(store, draw("ann"))
        assert held(store, "ann") == Held(pending=draw("ann"), known=known_places(draw("ann")), charged=1)
        publish(store)
        charge(store, draw("ann"))
        assert held(store, "ann") == Held(published=draw("ann"), known=known_places(draw("ann")), charged=1)
        assert store.totals().charged_by_window == {WINDOW: 1}


class TestOrder:
    """Places are in the order in which they were drawn: which of them a new one is replaced by depends on it."""

    def test_the_oldest_come_first(self, store: Store) -> None:
        charge(store, draw("ann", 5), draw("bob", 8), draw("ann", 3), draw("ann", 5), draw("bob", 7))
        put(store, draw("ann", 4), draw("bob", 9))
        publish(store)
        charge(store, draw("ann", 2), draw("ann", 3), draw("ann", 1, window=WINDOW - 1))
        # Back at a place, and one that was drawn again: both stay where they were.
        for later, place in enumerate((3, 6, 5), start=1):
            put(store, elsewhere(draw("ann", place, window=WINDOW + later)), epoch=EPOCH + later)
            publish(store, EPOCH + later, window=WINDOW + later)
        assert self.places(store, "ann") == [5, 3, 4, 2, 1, 6]
        assert self.places(store, "bob") == [8, 7, 9]

    def places(self, store: Store, person: str) -> list[int]:
        found = held(store, person)
        assert found is not None
        return [tag[0] for tag in found.known]


class TestStandings:
    @pytest.mark.parametrize("candidate", [None, b"c" * 16, b"\0" * 16, b"\0", b"'\"%s"])
    def test_a_standing_comes_back_as_it_was(self, store: Store, candidate: bytes | None) -> None:
        one = Standing(receipt="report", epoch=EPOCH, candidate=candidate, candidate_epoch=EPOCH - 3, seen=4)
        other = standing(9)
        # Between others with candidates and without.
        stand(store, bob=other, ann=one, cem=Standing(receipt="none", epoch=EPOCH))
        assert held(store, "ann") == Held(standing=one)
        assert held(store, "bob") == Held(standing=other)
        assert held(store, "cem") == Held(standing=Standing(receipt="none", epoch=EPOCH))
        assert known(store, "ann")["candidate"] == (candidate and candidate.hex())

    def test_the_last_one_stays(self, store: Store) -> None:
        stand(store, ann=standing(1), bob=standing(2))
        plain = Standing(receipt="later", epoch=EPOCH + 1)
        stand(store, ann=plain)
        stand(store)
        assert held(store, "ann") == Held(standing=plain)
        assert known(store, "ann")["candidate"] is None
        assert held(store, "bob") == Held(standing=standing(2))
        stand(store, ann=standing(3))
        assert held(store, "ann") == Held(standing=standing(3))


def mark_of(person: str, window: int = WINDOW) -> ErasedMark:
    return ErasedMark(f"mark of {person}".encode(), window)


class TestErasedMarks:
    """Erasing somebody and creating them anew brings no new budget within a window."""

    def spend(self, store: Store, person: str, places: int, *, window: int = WINDOW, first: int = 1) -> None:
        charge(store, *(draw(person, first + number, window=window) for number in range(places)))

    def test_what_was_spent_stays_spent(self, store: Store) -> None:
        put(store, draw("ann", 100))
        publish(store)
        self.spend(store, "ann", 3)
        self.spend(store, "bob", 1)
        stand(store, ann=standing(1))
        assert store.erase("ann", mark_of("ann"))
        assert store.add_people(["ann"], [mark_of("ann")]) == ["ann"]
        # The number, and nothing else.
        assert held(store, "ann") == Held(charged=4)
        assert known(store, "ann")["charges"] == {}
        assert shown(store, "ann")["published"] is None
        assert store.totals().charged_by_window == {WINDOW: 5}

    def test_again_and_again(self, store: Store) -> None:
        for times in range(1, 4):
            self.spend(store, "ann", 2)
            assert charged_in(store, "ann") == 2 * times
            assert store.erase("ann", mark_of("ann"))
            store.add_people(["ann"], [mark_of("ann")])
            assert charged_in(store, "ann") == 2 * times
        # Also if nothing was spent meanwhile.
        store.erase("ann", mark_of("ann"))
        store.add_people(["ann"], [mark_of("ann")])
        assert charged_in(store, "ann") == 6

    def test_the_next_window_has_a_budget_of_its_own(self, store: Store) -> None:
        self.spend(store, "ann", 2, window=WINDOW)
        self.spend(store, "ann", 1, window=WINDOW + 1, first=10)
        store.erase("ann", mark_of("ann", WINDOW + 1))
        store.add_people(["ann"], [mark_of("ann", WINDOW + 1)])
        assert charged_in(store, "ann", WINDOW + 1) == 1
        assert charged_in(store, "ann", WINDOW) == charged_in(store, "ann", WINDOW + 2) == 0
        # What is left of a window is not counted again in another.
        store.erase("ann", mark_of("ann", WINDOW + 2))
        store.add_people(["ann"], [mark_of("ann", WINDOW + 2)])
        assert charged_in(store, "ann", WINDOW + 2) == 0

    def test_who_comes_back_in_the_next_window_begins_anew(self, store: Store) -> None:
        self.spend(store, "ann", 2)
        store.erase("ann", mark_of("ann"))
        store.add_people(["ann"], [mark_of("ann", WINDOW + 1)])
        assert charged_in(store, "ann", WINDOW) == charged_in(store, "ann", WINDOW + 1) == 0

    def test_the_mark_goes_with_the_window(self, store: Store) -> None:
        for person in ("ann", "bob"):
            self.spend(store, person, 2)
            store.erase(person, mark_of(person))
        publish(store, EPOCH, window=WINDOW)
        store.add_people(["ann"], [mark_of("ann")])
        assert charged_in(store, "ann") == 2
        publish(store, EPOCH + 1, window=WINDOW + 1)
        store.add_people(["bob"], [mark_of("bob")])
        assert charged_in(store, "bob") == 0
        # Who was back before keeps it as long as the window is asked about.
        assert charged_in(store, "ann") == 2

    def test_others_keep_what_they_have(self, store: Store) -> None:
        self.spend(store, "ann", 3)
        self.spend(store, "bob", 1)
        store.erase("ann", mark_of("ann"))
        people = ["bob", "dee", "ann", "eve", "ann"]
        assert store.add_people(people, [mark_of(person) for person in people]) == ["dee", "ann", "eve"]
        assert [charged_in(store, person) for person in ("ann", "bob", "dee", "eve")] == [3, 1, 0, 0]
        # Somebody who is there already does not lose anything by a mark of another one.
        store.add_people(["cem"], [mark_of("ann")])
        assert charged_in(store, "cem") == 0

    def test_without_a_mark_nothing_is_kept(self, store: Store) -> None:
        self.spend(store, "ann", 2)
        store.erase("ann")
        store.add_people(["ann"], [mark_of("ann")])
        assert held(store, "ann") == Held()
        assert not store.erase(NOBODY, mark_of("ann"))
        self.spend(store, "bob", 2)
        store.erase("bob", mark_of("bob"))
        store.add_people(["bob"])
        assert held(store, "bob") == Held()
        assert store.add_people([], []) == []

    def test_many_at_once(self, store: Store) -> None:
        people = [f"person {number}" for number in range(300)]
        marks = [ErasedMark(b"%05d" % number * (1 + number % 3), WINDOW) for number in range(300)]
        store.add_people(people, marks)
        charge(store, *(draw(one, place) for number, one in enumerate(people) for place in range(1, 1 + number % 4)))
        for person, mark in zip(people, marks, strict=True):
            store.erase(person, mark)
        assert store.add_people(people[::-1], marks[::-1]) == people[::-1]
        with store.writing() as writing:
            found = writing.held(people, WINDOW)
        assert [found[person] for person in people] == [Held(charged=number % 4) for number in range(300)]
