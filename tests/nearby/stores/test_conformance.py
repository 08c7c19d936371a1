"""What every store does, one suite for all."""

import json

import numpy as np
import pytest

from nearveil.errors import DataError
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.fit_cells import cells_from_points
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.nearby.publishing.keys import NoiseKey, SecretKeys
from nearveil.nearby.publishing.protection import Protection
from nearveil.nearby.publishing.publisher import Publisher
from nearveil.nearby.stores import postgis, sqlite
from nearveil.nearby.stores.base import Held, PlatformKey, Store, StoreError
from nearveil.nearby.stores.sqlite import SqliteStore
from nearveil.region import Region
from tests.nearby.stores.draws import EPOCH, OLDEST, WINDOW, draw, held, known, publish, published_steps, put

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
        assert known(store, person)["id"] == person
        assert store.erase(person)

    @pytest.mark.parametrize("person", ["", "x" * 129, "a\0b", "a\nb", "\ud800"])
    def test_other_ids_are_refused_and_unknown(self, store: Store, person: str) -> None:
        with pytest.raises(DataError, match="id number 2 must be 1 to 128 printable"):
            store.add_people(["fay", person])
        assert store.token_mark("fay") is None
        assert store.token_mark(person) is None
        assert not store.erase(person)
        assert not store.withdraw(person)
        assert store.record(person) is None
        assert held(store, person) is None


class TestReports:
    def test_a_draw_waits(self, store: Store) -> None:
        put(store, draw("ann"), draw("bob", 2))
        assert held(store, "ann") == Held(pending=draw("ann"))
        assert held(store, "cem") == Held()
        assert held(store, NOBODY) is None
        assert store.totals().pending == 2
        assert published_steps(store) == {}

    def test_a_later_draw_replaces_it(self, store: Store) -> None:
        put(store, draw("ann", 1), draw("bob", 1))
        put(store, draw("ann", 2), epoch=EPOCH + 1)
        assert held(store, "ann") == Held(pending=draw("ann", 2))
        assert known(store, "ann")["pending"]["publishes_in_epoch"] == EPOCH + 1
        assert held(store, "bob") == Held(pending=draw("bob", 1))

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
            writing.publish_now([draw(NOBODY)], EPOCH)
        assert store.totals().pending == 1
        assert store.totals().published == 0

    def test_a_transaction_sees_what_it_wrote(self, store: Store) -> None:
        with store.writing() as writing:
            writing.put_pending([draw("ann")], EPOCH)
            assert writing.held(["ann"], WINDOW)["ann"].pending == draw("ann")

    def test_many_at_once(self, store: Store) -> None:
        people = [f"person {number}" for number in range(3000)]
        store.add_people(people)
        put(store, *(draw(person, 1 + number % 200) for number, person in enumerate(people)))
        with store.writing() as writing:
            found = writing.held([*people, NOBODY], WINDOW)
        assert found.keys() == set(people)
        assert all(found[person].pending == draw(person, 1 + i % 200) for i, person in enumerate(people))

    def test_an_error_undoes_all_of_it(self, store: Store) -> None:
        put(store, draw("ann", 1))
        with pytest.raises(OSError, match="of the caller"), store.writing() as writing:
            writing.put_pending([draw("ann", 2), draw("bob")], EPOCH)
            writing.publish_now([draw("cem")], EPOCH)
            writing.drop_pending(["ann"])
            raise OSError("of the caller")
        assert held(store, "ann") == Held(pending=draw("ann", 1))
        assert held(store, "bob") == Held()
        assert held(store, "cem") == Held()

    def test_the_largest_steps_are_kept(self, store: Store) -> None:
        far = draw("ann", 200)
        far = type(far)(**{name: getattr(far, name) for name in ("person", "tag", "window", "receipt")},
                        x_steps=2**31 - 1, y_steps=-(2**31))  # fmt: skip
        put(store, far)
        publish(store)
        assert published_steps(store) == {"ann": (2**31 - 1, -(2**31))}


class TestBorders:
    def test_what_waits_is_published_and_charged(self, store: Store) -> None:
        put(store, draw("ann"), draw("bob", 2))
        assert store.last_epoch() is None
        assert publish(store)
        assert store.last_epoch() == EPOCH
        assert published_steps(store) == {"ann": (1000, -1001), "bob": (2000, -2001)}
        assert held(store, "ann") == Held(published=draw("ann"), charged=frozenset([draw("ann").tag]))
        totals = store.totals()
        assert (totals.people, totals.published, totals.pending) == (3, 2, 0)
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
        assert known(store, "ann")["published"]["epoch"] == EPOCH + 7

    def test_only_new_places_are_charged(self, store: Store) -> None:
        for step, place in enumerate([1, 2, 1, 1, 3]):
            put(store, draw("ann", place), draw("bob", 9), epoch=EPOCH + step)
            publish(store, EPOCH + step)
        ann = held(store, "ann")
        assert ann is not None
        assert ann.charged == {bytes([place]) * 16 for place in (1, 2, 3)}
        assert ann.published == draw("ann", 3)
        assert store.totals().charged_by_window == {WINDOW: 4}
        assert known(store, "ann")["charges"] == {str(WINDOW): 3}

    def test_windows_are_charged_apart(self, store: Store) -> None:
        put(store, draw("ann", 1, window=WINDOW))
        publish(store, EPOCH)
        put(store, draw("ann", 1, window=WINDOW + 1), epoch=EPOCH + 1)
        publish(store, EPOCH + 1)
        for window in (WINDOW, WINDOW + 1):
            found = held(store, "ann", window)
            assert found is not None
            assert found.charged == {bytes([1]) * 16}
        assert held(store, "ann", WINDOW + 2) == Held(published=draw("ann", 1, window=WINDOW + 1))
        assert store.totals().charged_by_window == {WINDOW: 1, WINDOW + 1: 1}

    def test_old_tags_are_forgotten_and_totals_stay(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        for borders in (sqlite, postgis):
            monkeypatch.setattr(borders, "FORGET_AT_ONCE", 2)
        put(store, draw("ann"), draw("bob"), draw("cem", 2))
        publish(store, EPOCH)
        put(store, draw("ann", 3, window=WINDOW + 1), epoch=EPOCH + 1)
        publish(store, EPOCH + 1, oldest_window=WINDOW)
        assert known(store, "ann")["charges"] == {str(WINDOW): 1, str(WINDOW + 1): 1}
        publish(store, EPOCH + 2, oldest_window=WINDOW + 1)
        assert known(store, "ann")["charges"] == {str(WINDOW + 1): 1}
        assert known(store, "ann")["tags"] == [draw("ann", 3).tag.hex()]
        assert known(store, "bob")["tags"] == known(store, "cem")["tags"] == []
        assert known(store, "bob")["published"]["receipt"] == "bob at 1"
        assert store.totals().charged_by_window == {WINDOW: 3, WINDOW + 1: 1}

    def test_publishing_now_costs_nothing_and_drops_what_waits(self, store: Store) -> None:
        put(store, draw("ann", 1), draw("bob", 1))
        with store.writing() as writing:
            writing.publish_now([draw("ann", 2)], EPOCH - 1)
            writing.publish_now([], EPOCH - 1)
        assert held(store, "ann") == Held(published=draw("ann", 2))
        assert store.totals().charged_by_window == {}
        assert store.last_epoch() is None
        assert known(store, "ann")["published"]["epoch"] == EPOCH - 1
        with store.writing() as writing:
            writing.publish_now([draw("ann", 3)], EPOCH)
        assert published_steps(store) == {"ann": (3000, -3001)}

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

    def test_a_reader_can_be_left(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in (sqlite, postgis):
            monkeypatch.setattr(module, "BATCH_PEOPLE", 1)
        put(store, draw("ann"), draw("bob"))
        publish(store)
        for _ in range(20):
            for _batch in store.published():
                break
        assert len(published_steps(store)) == 2


class TestLeaving:
    def test_erasing_leaves_nothing_but_the_total(self, store: Store) -> None:
        put(store, draw("ann", 1), draw("bob", 1))
        publish(store)
        put(store, draw("ann", 2), epoch=EPOCH + 1)
        assert store.erase("ann")
        assert not store.erase("ann")
        assert store.token_mark("ann") is None
        assert store.record("ann") is None
        assert list(published_steps(store)) == ["bob"]
        totals = store.totals()
        assert (totals.people, totals.published, totals.pending) == (2, 1, 0)
        assert totals.charged_by_window == {WINDOW: 2}
        # Nothing that waited is published or charged later.
        publish(store, EPOCH + 1)
        assert store.totals().charged_by_window == {WINDOW: 2}

    def test_who_comes_back_begins_anew(self, store: Store) -> None:
        put(store, draw("ann"))
        publish(store)
        store.erase("ann")
        assert store.add_people(["ann"]) == ["ann"]
        assert held(store, "ann") == Held()
        assert known(store, "ann")["charges"] == {}

    def test_withdrawing_keeps_the_charges(self, store: Store) -> None:
        put(store, draw("ann", 1), draw("bob", 1))
        publish(store)
        put(store, draw("ann", 2), epoch=EPOCH + 1)
        assert store.withdraw("ann")
        assert store.withdraw("ann")
        assert not store.withdraw(NOBODY)
        assert held(store, "ann") == Held(charged=frozenset([draw("ann", 1).tag]))
        assert list(published_steps(store)) == ["bob"]
        publish(store, EPOCH + 1)
        assert list(published_steps(store)) == ["bob"]
        assert store.totals().charged_by_window == {WINDOW: 2}

    def test_a_record_says_everything_but_what_waits(self, store: Store) -> None:
        put(store, draw("ann", 2))
        publish(store)
        put(store, draw("ann", 1), epoch=EPOCH + 1)
        record = known(store, "ann")
        assert json.loads(json.dumps(record)) == record
        assert record.pop("created").endswith("+00:00")
        assert record.pop("token_mark") == store.token_mark("ann")
        assert record == {
            "id": "ann",
            # That something waits, and not what: it is not charged yet, and may never be.
            "pending": {"window": WINDOW, "receipt": "ann at 1", "publishes_in_epoch": EPOCH + 1},
            "published": {
                "x_m": 250.0, "y_m": -250.125, "tag": "02" * 16, "window": WINDOW, "receipt": "ann at 2",
                "epoch": EPOCH,
            },
            "charges": {str(WINDOW): 1},
            "tags": ["02" * 16],
        }  # fmt: skip
        assert known(store, "bob")["pending"] is None
        assert store.record(NOBODY) is None


class TestKeysAndSettings:
    def test_keys(self, store: Store) -> None:
        store.add_key(PlatformKey(name="web", digest=b"\0" * 32))
        store.add_key(PlatformKey(name="app", digest=b"\1" * 32))
        store.add_key(PlatformKey(name="web", digest=b"\2" * 32))
        assert store.keys() == [
            PlatformKey(name="app", digest=b"\1" * 32),
            PlatformKey(name="web", digest=b"\2" * 32),
        ]
        assert store.remove_key("web")
        assert not store.remove_key("web")
        assert store.keys() == [PlatformKey(name="app", digest=b"\1" * 32)]

    def test_a_key_is_made_once_and_the_last_one_stays(self, store: Store) -> None:
        first, second = (PlatformKey(name=name, digest=name.encode() * 8) for name in ("one", "two"))
        assert store.add_new_key(first)
        assert not store.add_new_key(PlatformKey(name="one", digest=b"other"))
        assert store.keys() == [first]
        assert not store.remove_key_but_the_last("one")
        assert store.add_new_key(second)
        assert not store.remove_key_but_the_last("three")
        assert store.remove_key_but_the_last("one")
        assert store.keys() == [second]

    def test_a_setting_is_settled_once(self, store: Store) -> None:
        assert store.settle("colour", "red") == "red"
        assert store.settle("colour", "blue") == "red"
        assert store.setting("colour") == "red"
        store.keep_setting("colour", "green")
        assert store.settle("colour", "blue") == "green"

    def test_settings(self, store: Store) -> None:
        assert store.setting("offset") is None
        store.keep_setting("offset", "1")
        store.keep_setting("offset", "2")
        assert store.setting("offset") == "2"


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
        keys = SecretKeys(noise=(NoiseKey(0, bytes(range(32))),), tokens=bytes(32))
        protection = Protection(region=region, among=HideAmong(50, cells=cells))
        points = []
        for one in (store, store, SqliteStore.in_memory()):
            one.add_people(["ann"])
            publisher = Publisher(protection, keys, one, clock=lambda: 0.0)
            assert publisher.report("ann", 48.0, 11.1).status == "pending"
            found = held(one, "ann", 0)
            assert found is not None
            assert found.pending is not None
            points.append((found.pending.x_steps, found.pending.y_steps, found.pending.tag))
        assert points[0] == points[1] == points[2]
        assert "pending" in json.dumps(store.record("ann"))
        assert "x_m" not in json.dumps(store.record("ann"))


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
        ahead = store.set_back(EPOCH + 5, oldest_window=OLDEST)
        assert (ahead.first_epoch, ahead.last_epoch) == (EPOCH, self.AHEAD)
        assert (ahead.epochs, ahead.published, ahead.pending) == (1, 1, 1)
        assert store.last_epoch() == EPOCH + 5
        assert published_steps(store) == before
        assert store.totals().charged_by_window == charged
        assert known(store, "ann")["published"]["epoch"] == EPOCH + 5
        assert known(store, "bob")["published"]["epoch"] == EPOCH
        assert not publish(store, EPOCH + 5)
        assert publish(store, EPOCH + 6)
        assert published_steps(store, since_epoch=EPOCH + 6) == {"cem": (4000, -4001)}
        # Once more it has nothing to do.
        assert store.set_back(EPOCH + 6, oldest_window=OLDEST).epochs == 0

    def test_a_dry_run_only_counts(self, store: Store) -> None:
        self._used_ahead(store)
        before = [known(store, person) for person in ("ann", "bob", "cem")]
        ahead = store.set_back(EPOCH + 5, oldest_window=OLDEST, dry_run=True)
        assert (ahead.epochs, ahead.published, ahead.pending) == (1, 1, 1)
        assert store.last_epoch() == self.AHEAD
        assert [known(store, person) for person in ("ann", "bob", "cem")] == before

    def test_an_empty_store(self, store: Store) -> None:
        ahead = store.set_back(EPOCH, oldest_window=OLDEST, dry_run=True)
        assert (ahead.first_epoch, ahead.last_epoch, ahead.epochs) == (None, None, 0)
