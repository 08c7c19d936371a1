"""What every store does, one suite for all."""

import sys
from typing import Any

import numpy as np
import pytest

from nearveil.errors import DataError
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.fit_cells import cells_from_points
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.nearby.publishing.keys import SecretKeys
from nearveil.nearby.publishing.protection import Protection
from nearveil.nearby.publishing.publisher import Publisher
from nearveil.nearby.stores import _postgis_connections, _sqlite_connections, postgis, sqlite
from nearveil.nearby.stores.base import ErasedMark, Held, PlatformKey, Standing, Store, StoreError
from nearveil.nearby.stores.sqlite import SqliteStore
from nearveil.region import Region
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
from tests.nearby.stores.kept import everything_kept

NOBODY = "nobody"


@pytest.fixture(autouse=True)
def _people(store: Store) -> None:
    store.add_people(["ann", "bob", "cem"])


class TestPeople:
    def test_only_new_people_are_named(self, store: Store) -> None:
        assert store.add_people(["dee", "ann", "eve", "dee"]) == ["dee", "eve"]
        assert store.add_people(["dee"]) == []
        assert store.add_people([]) == []
        assert store.totals().people == 5

    def test_people_are_known(self, store: Store) -> None:
        assert store.token_mark("ann") is not None
        assert store.token_mark(NOBODY) is None

    def test_tokens_bear_a_mark_that_nobody_had_before(self, store: Store) -> None:
        mark = store.token_mark("ann")
        assert mark is not None
        assert store.token_mark("ann") == mark
        assert store.token_mark(NOBODY) is None
        assert store.renew_token_mark("ann")
        renewed = store.token_mark("ann")
        store.erase("ann")
        assert store.token_mark("ann") is None
        assert not store.renew_token_mark("ann")
        store.add_people(["ann", "bob"])
        assert len({mark, renewed, store.token_mark("ann")}) == 3
        assert 0 <= mark < 2**63

    @pytest.mark.parametrize("person", ["Ann", "a'; DROP TABLE people; --", "Zoë 🦉", '"', "%s", "x" * 128])
    def test_any_printable_id_is_an_id(self, store: Store, person: str) -> None:
        assert store.add_people([person]) == [person]
        put(store, draw(person))
        assert publish(store)
        assert published_steps(store) == {person: (1000, -1001)}
        assert known(store, person)["id"] == shown(store, person)["id"] == person
        assert store.erase(person, ErasedMark(b"mark", WINDOW))
        assert store.add_people([person], [ErasedMark(b"mark", WINDOW)]) == [person]
        assert charged_in(store, person) == 1

    @pytest.mark.parametrize("person", ["", "x" * 129, "a\0b", "a\nb", "\ud800", ".", ".."])
    def test_other_ids_are_refused_and_unknown(self, store: Store, person: str) -> None:
        with pytest.raises(DataError, match="id number 2 must be 1 to 128 printable"):
            store.add_people(["fay", person])
        assert store.token_mark("fay") is None
        assert store.token_mark(person) is None
        assert not store.erase(person)
        assert not store.withdraw(person)
        assert store.record(person) is None
        assert everything_kept(store, person) is None
        assert held(store, person) is None
        charge(store, draw(person))
        stand(store, **{person: Standing(receipt="last", epoch=EPOCH)})
        assert store.totals().charged_by_window == {}


class TestReports:
    def test_a_draw_waits(self, store: Store) -> None:
        put(store, draw("ann"), draw("bob", 2))
        assert held(store, "ann") == Held(pending=draw("ann"))
        assert held(store, "cem") == Held()
        assert held(store, NOBODY) is None
        assert known(store, "bob")["pending"] == (2000, -2001)
        assert known(store, "cem")["pending"] is None
        assert published_steps(store) == {}

    def test_a_later_draw_replaces_it(self, store: Store) -> None:
        put(store, draw("ann", 1), draw("bob", 1))
        put(store, draw("ann", 2), epoch=EPOCH + 1)
        assert held(store, "ann") == Held(pending=draw("ann", 2))
        assert held(store, "bob") == Held(pending=draw("bob", 1))
        # It waits for the later epoch.
        publish(store, EPOCH)
        assert list(published_steps(store)) == ["bob"]
        publish(store, EPOCH + 1)
        assert published_steps(store)["ann"] == (2000, -2001)

    def test_of_two_draws_at_once_the_last_counts(self, store: Store) -> None:
        put(store, draw("ann", 1), draw("ann", 2))
        assert held(store, "ann") == Held(pending=draw("ann", 2))

    def test_a_draw_is_dropped(self, store: Store) -> None:
        put(store, draw("ann"), draw("bob"))
        with store.writing() as writing:
            writing.drop_pending(["ann", "cem", NOBODY])
            writing.drop_pending([])
        assert held(store, "ann") == Held()
        assert held(store, "bob") == Held(pending=draw("bob"))

    def test_nothing_is_kept_of_strangers(self, store: Store) -> None:
        put(store, draw(NOBODY), draw("ann"))
        with store.writing() as writing:
            writing.charge([draw(NOBODY), draw("bob", 2), draw(NOBODY, 2)])
            writing.put_standings(dict.fromkeys([NOBODY, "ann"], Standing(receipt="last", epoch=EPOCH)))
        assert store.totals().published == 0
        assert store.totals().charged_by_window == {WINDOW: 1}
        assert held(store, "ann") == Held(pending=draw("ann"), standing=Standing(receipt="last", epoch=EPOCH))
        assert held(store, "bob") == Held(known=known_places(draw("bob", 2)), charged=1)
        # Nor does it come to light when somebody is called so.
        store.add_people([NOBODY])
        assert held(store, NOBODY) == Held()
        publish(store)
        assert list(published_steps(store)) == ["ann"]

    def test_a_transaction_sees_what_it_wrote(self, store: Store) -> None:
        with store.writing() as writing:
            writing.put_pending([draw("ann")], EPOCH)
            writing.charge([draw("ann", 2)])
            last = Standing(receipt="last", epoch=EPOCH)
            writing.put_standings({"ann": last})
            assert writing.held(["ann"], WINDOW)["ann"] == Held(
                pending=draw("ann"), known=known_places(draw("ann", 2)), charged=1, standing=last
            )

    def test_many_at_once(self, store: Store) -> None:
        people = [f"person {number}" for number in range(3000)]
        store.add_people(people)
        put(store, *(draw(person, 1 + number % 200) for number, person in enumerate(people)))
        charge(store, *(draw(person, 201 + number % 50) for number, person in enumerate(people)))
        standings = {person: standing(number) for number, person in enumerate(people)}
        stand(store, **standings)
        with store.writing() as writing:
            found = writing.held([*people, NOBODY], WINDOW)
        assert found.keys() == set(people)
        for number, person in enumerate(people):
            assert found[person] == Held(
                pending=draw(person, 1 + number % 200),
                known=known_places(draw(person, 201 + number % 50)),
                charged=1,
                standing=standings[person],
            )

    def test_an_error_undoes_all_of_it(self, store: Store) -> None:
        put(store, draw("ann", 1))
        with pytest.raises(OSError, match="of the caller"), store.writing() as writing:
            writing.put_pending([draw("ann", 2), draw("bob")], EPOCH)
            writing.drop_pending(["ann"])
            writing.charge([draw("bob", 3)])
            writing.put_standings({"bob": Standing(receipt="last", epoch=EPOCH)})
            raise OSError("of the caller")
        assert held(store, "ann") == Held(pending=draw("ann", 1))
        assert held(store, "bob") == Held()
        assert held(store, "cem") == Held()
        assert store.totals().charged_by_window == {}

    def test_the_largest_steps_are_kept(self, store: Store) -> None:
        far = draw("ann", 200)
        far = type(far)(**{name: getattr(far, name) for name in ("person", "tag", "window", "receipt")},
                        x_steps=2**31 - 1, y_steps=-(2**31))  # fmt: skip
        put(store, far)
        publish(store)
        assert published_steps(store) == {"ann": (2**31 - 1, -(2**31))}
        assert held(store, "ann") == Held(published=far, known=known_places(far), charged=1)


class TestBorders:
    def test_what_waits_is_published_and_charged(self, store: Store) -> None:
        put(store, draw("ann"), draw("bob", 2))
        assert store.last_epoch() is None
        assert publish(store)
        assert store.last_epoch() == EPOCH
        assert published_steps(store) == {"ann": (1000, -1001), "bob": (2000, -2001)}
        assert held(store, "ann") == Held(published=draw("ann"), known=known_places(draw("ann")), charged=1)
        totals = store.totals()
        assert (totals.people, totals.published) == (3, 2)
        assert totals.charged_by_window == {WINDOW: 2}

    def test_an_epoch_is_published_once(self, store: Store) -> None:
        put(store, draw("ann"))
        assert publish(store, EPOCH)
        put(store, draw("bob"), epoch=EPOCH)
        assert not publish(store, EPOCH)
        assert not publish(store, EPOCH - 1)
        assert list(published_steps(store)) == ["ann"]
        assert store.last_epoch() == EPOCH
        assert publish(store, EPOCH + 1)
        assert set(published_steps(store)) == {"ann", "bob"}

    def test_what_waits_for_a_later_border_waits_on(self, store: Store) -> None:
        put(store, draw("ann"), epoch=EPOCH)
        put(store, draw("bob"), epoch=EPOCH + 1)
        publish(store, EPOCH)
        assert list(published_steps(store)) == ["ann"]
        assert held(store, "bob") == Held(pending=draw("bob"))
        assert store.totals().charged_by_window == {WINDOW: 1}

    def test_a_border_that_nobody_kept_is_made_up_for(self, store: Store) -> None:
        put(store, draw("ann"), epoch=EPOCH)
        assert publish(store, EPOCH + 7)
        assert published_steps(store, EPOCH + 7) == {"ann": (1000, -1001)}
        assert published_steps(store, EPOCH + 8) == {}

    def test_only_new_places_are_charged(self, store: Store) -> None:
        for step, place in enumerate([1, 2, 1, 1, 3]):
            put(store, draw("ann", place), draw("bob", 9), epoch=EPOCH + step)
            publish(store, EPOCH + step)
        ann = held(store, "ann")
        assert ann is not None
        assert ann.charged == 3
        assert ann.known == known_places(*(draw("ann", place) for place in (1, 2, 3)))
        assert ann.published == draw("ann", 3)
        assert store.totals().charged_by_window == {WINDOW: 4}
        assert known(store, "ann")["charges"] == {str(WINDOW): 3}

    def test_windows_are_charged_apart(self, store: Store) -> None:
        put(store, draw("ann", 1, window=WINDOW))
        publish(store, EPOCH)
        put(store, draw("ann", 2, window=WINDOW + 1), epoch=EPOCH + 1)
        publish(store, EPOCH + 1, window=WINDOW + 1)
        for window, charged in ((WINDOW - 1, 0), (WINDOW, 1), (WINDOW + 1, 1), (WINDOW + 2, 0)):
            assert held(store, "ann", window) == Held(
                published=draw("ann", 2, window=WINDOW + 1),
                known=known_places(draw("ann", 1), draw("ann", 2)),
                charged=charged,
            )
        assert store.totals().charged_by_window == {WINDOW: 1, WINDOW + 1: 1}

    def test_a_place_is_charged_in_the_first_of_its_windows(self, store: Store) -> None:
        """Its noise lasts, so that coming back to it costs nothing more."""
        put(store, draw("ann", 1))
        publish(store, EPOCH)
        for later in (1, 2):
            put(store, draw("ann", 1, window=WINDOW + later), epoch=EPOCH + later)
            publish(store, EPOCH + later, window=WINDOW + later)
        assert known(store, "ann")["charges"] == {str(WINDOW): 1}
        assert charged_in(store, "ann", WINDOW + 2) == 0
        assert store.totals().charged_by_window == {WINDOW: 1}

    def test_a_place_that_is_drawn_again_is_kept_as_published(self, store: Store) -> None:
        with store.writing() as writing:
            writing.charge([draw("ann", 1)])
        again = elsewhere(draw("ann", 1))
        put(store, again)
        publish(store)
        assert held(store, "ann") == Held(published=again, known=known_places(again), charged=1)
        assert store.totals().charged_by_window == {WINDOW: 1}

    @pytest.mark.parametrize("people", [5, 6, 7])
    def test_many_are_published_some_at_a_time(
        self, store: Store, people: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys.modules[type(store).__module__], "PUBLISHED_AT_ONCE", 3)
        names = [f"person {number}" for number in range(people)]
        store.add_people(names)
        put(store, *(draw(person) for person in names))
        assert publish(store)
        assert not publish(store)
        assert set(published_steps(store, since_epoch=EPOCH)) == set(names)
        assert store.totals().charged_by_window == {WINDOW: people}

    def test_a_publication_that_failed_in_between_goes_on(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        module = sys.modules[type(store).__module__]
        monkeypatch.setattr(module, "PUBLISHED_AT_ONCE", 3)
        names = [f"person {number}" for number in range(8)]
        store.add_people(names)
        put(store, *(draw(person) for person in names))
        publish_some, turns = module.publish_some, iter([True, False])

        def fails_once(*arguments: Any) -> None:
            publish_some(*arguments)
            if not next(turns):
                raise StoreError("the disk is full")

        with monkeypatch.context() as patched, pytest.raises(StoreError, match="full"):
            patched.setattr(module, "publish_some", fails_once)
            publish(store)
        assert len(published_steps(store)) == 3
        # Not yet: who is left is still to be published.
        assert store.last_epoch() is None
        assert publish(store)
        assert store.last_epoch() == EPOCH
        assert set(published_steps(store, since_epoch=EPOCH)) == set(names)
        assert store.totals().charged_by_window == {WINDOW: 8}

    def test_what_is_due_is_published_before_a_report_is_looked_at(self, store: Store) -> None:
        store.add_people(["eve"])
        put(store, draw("ann"), draw("bob"))
        put(store, draw("eve"), epoch=EPOCH + 1)
        with store.writing() as writing:
            writing.settle_due(["ann", "eve", NOBODY], EPOCH)
            found = writing.held(["ann", "bob", "eve"], WINDOW)
        assert (found["ann"].published, found["ann"].pending) == (draw("ann"), None)
        assert (found["bob"].published, found["bob"].pending) == (None, draw("bob"))
        assert (found["eve"].published, found["eve"].pending) == (None, draw("eve"))
        assert store.totals().charged_by_window == {WINDOW: 1}
        assert publish(store)
        # All of them are new in this epoch for whoever loads what was published since the last.
        assert set(published_steps(store, since_epoch=EPOCH)) == {"ann", "bob"}
        assert store.totals().charged_by_window == {WINDOW: 2}

    def test_what_comes_late_waits_for_the_next_boundary(self, store: Store) -> None:
        """Who loaded this epoch already would not see it."""
        assert publish(store)
        put(store, draw("ann"))
        with store.writing() as writing:
            writing.settle_due(["ann"], EPOCH)
        assert published_steps(store) == {}
        assert publish(store, EPOCH + 1)
        assert set(published_steps(store, since_epoch=EPOCH + 1)) == {"ann"}

    def test_places_last_as_long_as_they_are_to(self, store: Store) -> None:
        put(store, draw("ann"))
        charge(store, draw("bob", 2))
        for later in range(4):
            publish(store, EPOCH + later, window=WINDOW + later)
        assert held(store, "ann", WINDOW + 3) == Held(published=draw("ann"), known=known_places(draw("ann")))
        assert held(store, "bob", WINDOW + 3) == Held(known=known_places(draw("bob", 2)))

    def test_what_was_published_since(self, store: Store) -> None:
        for step, person in enumerate(["ann", "bob", "cem"]):
            put(store, draw(person), epoch=EPOCH + step)
            publish(store, EPOCH + step)
        assert set(published_steps(store, EPOCH)) == {"ann", "bob", "cem"}
        assert set(published_steps(store, EPOCH + 1)) == {"bob", "cem"}
        assert published_steps(store, EPOCH + 3) == {}

    def test_published_people_come_in_batches(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in (sqlite, postgis):
            monkeypatch.setattr(module, "BATCH_PEOPLE", 10)
        people = [f"person {number}" for number in range(35)]
        store.add_people(people)
        put(store, *(draw(person, 1 + number) for number, person in enumerate(people)))
        publish(store)
        batches = list(store.published())
        assert [len(batch.people) for batch in batches] == [10, 10, 10, 5]
        assert all(batch.steps.dtype == np.int64 and batch.steps.shape == (len(batch.people), 2) for batch in batches)
        assert published_steps(store)["person 34"] == (35_000, -35_001)

    def test_a_reader_that_is_not_finished_stops_nobody(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in (sqlite, postgis):
            monkeypatch.setattr(module, "BATCH_PEOPLE", 1)
        put(store, draw("ann"), draw("bob"))
        publish(store)
        reader = store.published()
        seen = next(reader).people
        put(store, draw("ann", 2), draw("bob", 2), draw("cem", 2), epoch=EPOCH + 1)
        assert publish(store, EPOCH + 1)
        assert store.erase("cem")
        # It goes on seeing the store as it was.
        rest = list(reader)
        assert sorted([*seen, *(person for batch in rest for person in batch.people)]) == ["ann", "bob"]
        assert rest[0].steps[0, 0] == 1000
        assert set(published_steps(store)) == {"ann", "bob"}


class TestLeaving:
    def test_erasing_leaves_nothing_but_the_total(self, store: Store) -> None:
        put(store, draw("ann", 1), draw("bob", 1))
        publish(store)
        put(store, draw("ann", 2), epoch=EPOCH + 1)
        assert store.erase("ann")
        assert not store.erase("ann")
        assert store.token_mark("ann") is None
        assert store.record("ann") is None
        assert everything_kept(store, "ann") is None
        assert list(published_steps(store)) == ["bob"]
        totals = store.totals()
        assert (totals.people, totals.published) == (2, 1)
        assert totals.charged_by_window == {WINDOW: 2}
        # Nothing that waited is published or charged later.
        publish(store, EPOCH + 1)
        assert store.totals().charged_by_window == {WINDOW: 2}

    def test_who_comes_back_begins_anew(self, store: Store) -> None:
        put(store, draw("ann"))
        publish(store)
        charge(store, draw("ann", 2))
        put(store, draw("ann", 3), epoch=EPOCH + 1)
        stand(store, ann=standing(1))
        store.erase("ann")
        assert store.add_people(["ann"]) == ["ann"]
        assert held(store, "ann") == Held()
        assert known(store, "ann")["charges"] == {}

    def test_withdrawing_keeps_the_charges(self, store: Store) -> None:
        put(store, draw("ann", 1), draw("bob", 1))
        publish(store)
        put(store, draw("ann", 2), epoch=EPOCH + 1)
        stand(store, ann=standing(4), bob=standing(2))
        assert store.withdraw("ann")
        assert store.withdraw("ann")
        assert not store.withdraw(NOBODY)
        assert held(store, "ann") == Held(known=known_places(draw("ann", 1)), charged=1)
        assert shown(store, "ann")["published"] is None
        assert known(store, "bob")["receipt"] == "report 2"
        assert list(published_steps(store)) == ["bob"]
        publish(store, EPOCH + 1)
        assert list(published_steps(store)) == ["bob"]
        assert store.totals().charged_by_window == {WINDOW: 2}

    def test_withdrawing_keeps_a_chain_and_nothing_else_of_a_standing(self, store: Store) -> None:
        stand(store, ann=standing(2), bob=standing(2))
        assert store.withdraw("ann")
        left = Standing(receipt="report 2", epoch=EPOCH + 2, chain=("2-0", "2-1"))
        assert held(store, "ann") == Held(standing=left)
        assert held(store, "bob") == Held(standing=standing(2))

    def test_revoking_tokens_ends_a_chain_and_drops_what_waits(self, store: Store) -> None:
        put(store, draw("ann", 1), draw("bob", 1))
        publish(store)
        put(store, draw("ann", 2), draw("bob", 2), epoch=EPOCH + 1)
        stand(store, ann=standing(2), bob=standing(2))
        before = held(store, "bob")
        assert store.renew_token_mark("ann")
        assert held(store, "ann") == Held(published=draw("ann"), known=known_places(draw("ann")), charged=1)
        assert held(store, "bob") == before


def platform_key(name: str, number: int, *scopes: str) -> PlatformKey:
    return PlatformKey(name=name, digest=bytes([number]) * 32, scopes=frozenset(scopes))


class TestKeysAndSettings:
    def test_a_store_says_how_large_it_is(self, store: Store) -> None:
        before = store.extent()
        tables = _sqlite_connections if isinstance(store, SqliteStore) else _postgis_connections
        assert before.version == tables.VERSION
        store.add_people([f"{number:0100}" for number in range(2000)])
        after = store.extent()
        assert after.version == before.version
        assert after.size_bytes - before.size_bytes > 100_000

    def test_keys(self, store: Store) -> None:
        store.add_key(platform_key("web", 0, "ask", "people"))
        store.add_key(platform_key("app", 1, "report"))
        store.add_key(platform_key("web", 2, "ask"))
        assert store.keys() == [platform_key("app", 1, "report"), platform_key("web", 2, "ask")]
        assert store.remove_key("web")
        assert not store.remove_key("web")
        assert store.keys() == [platform_key("app", 1, "report")]

    def test_a_key_is_made_once_and_the_last_one_with_a_scope_stays(self, store: Store) -> None:
        first, second = platform_key("one", 1, "ask", "admin"), platform_key("two", 2, "admin")
        assert store.add_new_key(first)
        assert not store.add_new_key(platform_key("one", 3, "people"))
        assert store.keys() == [first]
        assert not store.remove_key_but_the_last("one", scope="admin")
        # Words that only look like the scope do not count.
        assert store.add_new_key(platform_key("other", 4, "ask", "administer", "sysadmin"))
        assert not store.remove_key_but_the_last("one", scope="admin")
        assert store.remove_key_but_the_last("other", scope="admin")
        assert store.add_new_key(second)
        assert not store.remove_key_but_the_last("three", scope="admin")
        assert store.remove_key_but_the_last("one", scope="admin")
        assert store.keys() == [second]

    def test_a_setting_is_settled_once(self, store: Store) -> None:
        assert store.settle("colour", "red") == "red"
        assert store.settle("colour", "blue") == "red"
        assert store.setting("colour") == "red"
        store.keep_setting("colour", "green")
        assert store.settle("colour", "blue") == "green"


def test_a_closed_store_says_so(store: Store) -> None:
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.token_mark("ann")
    with pytest.raises(StoreError, match="closed"), store.writing():
        pass


class TestAmongPeople:
    def test_the_same_point_is_published_from_every_store(self, store: Store) -> None:
        """And the channel that was settled is read again: as long as a table of all cells."""
        region = Region(47.9, 11.0, 48.1, 11.3)
        cells = cells_from_points(synthetic_city(300, region, rng=1), region)
        keys = SecretKeys(noise=bytes(range(32)), tokens=bytes(32))
        protection = Protection(region=region, among=HideAmong(50, cells=cells))
        points = []
        for one in (store, store, SqliteStore.in_memory()):
            one.add_people(["ann"])
            publisher = Publisher(protection, keys, one, clock=lambda: 0.0, always_chained=False)
            assert publisher.report("ann", 48.0, 11.1).status == "taken"
            found = held(one, "ann", 0)
            assert found is not None
            assert found.pending is not None
            points.append((found.pending.x_steps, found.pending.y_steps, found.pending.tag))
        assert points[0] == points[1] == points[2]
        assert known(store, "ann")["pending"] == points[0][:2]
        assert shown(store, "ann")["published"] is None


class TestSettingBack:
    """A clock was ahead: the store is set back to an epoch, and loses nothing."""

    AHEAD = EPOCH + 72

    def _used_ahead(self, store: Store) -> None:
        put(store, draw("ann", 1), draw("bob", 2))
        publish(store)
        put(store, draw("ann", 3), epoch=self.AHEAD)
        publish(store, self.AHEAD)
        put(store, draw("cem", 4), epoch=self.AHEAD + 1)

    def test_nothing_is_lost_and_what_waits_is_published_next(self, store: Store) -> None:
        self._used_ahead(store)
        before, charged = published_steps(store), store.totals().charged_by_window
        ahead = store.set_back(EPOCH + 5, window=WINDOW)
        assert (ahead.first_epoch, ahead.last_epoch) == (EPOCH, self.AHEAD)
        assert (ahead.epochs, ahead.published, ahead.pending) == (1, 1, 1)
        assert store.last_epoch() == EPOCH + 5
        assert published_steps(store) == before
        assert store.totals().charged_by_window == charged
        assert set(published_steps(store, since_epoch=EPOCH + 5)) == {"ann"}
        assert not publish(store, EPOCH + 5)
        assert publish(store, EPOCH + 6)
        assert published_steps(store, since_epoch=EPOCH + 6) == {"cem": (4000, -4001)}
        # Once more it has nothing to do.
        assert store.set_back(EPOCH + 6, window=WINDOW).epochs == 0
