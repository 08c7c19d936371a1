"""Threads and processes on one store: nothing is lost, done twice, or done to half."""

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import psycopg
import pytest

from nearveil.nearby.publishing.keys import new_keys
from nearveil.nearby.publishing.protection import Protection, least_new_places
from nearveil.nearby.publishing.publisher import Publisher, Status
from nearveil.nearby.stores import open_store
from nearveil.nearby.stores.base import ErasedMark, Held, Standing, Store
from nearveil.nearby.stores.postgis import PostgisStore
from nearveil.region import Region
from tests.nearby.stores.draws import (
    EPOCH,
    WINDOW,
    charge,
    draw,
    held,
    known,
    known_places,
    publish,
    published_steps,
    put,
    stand,
)
from tests.nearby.stores.kept import everything_kept

# How long something that must not happen is given to happen; when all is well it is waited for in full.
CHANCE_S = 0.3


def run_all(*works: Callable[[], object]) -> list[object]:
    """Run all at the same moment, each in a thread."""
    barrier = threading.Barrier(len(works))

    def one(work: Callable[[], object]) -> object:
        barrier.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return [future.result() for future in [pool.submit(one, work) for work in works]]


def test_what_is_kept_is_there_when_opened_again(address: str) -> None:
    store = open_store(address)
    store.add_people(["ann", "bob"])
    put(store, draw("ann"))
    publish(store)
    put(store, draw("bob"), epoch=EPOCH + 1)
    standing = Standing(receipt="last", epoch=EPOCH, candidate=b"c" * 16, candidate_epoch=EPOCH, seen=1)
    stand(store, ann=standing)
    store.keep_setting("offset", "3")
    store.close()
    again = open_store(address)
    assert held(again, "ann") == Held(
        published=draw("ann"), known=known_places(draw("ann")), charged=1, standing=standing
    )
    assert held(again, "bob") == Held(pending=draw("bob"))
    assert again.setting("offset") == "3"
    assert again.last_epoch() == EPOCH
    assert again.totals().charged_by_window == {WINDOW: 1}
    again.close()


def test_two_write_at_once(two_stores: tuple[Store, Store]) -> None:
    people = [f"person {number}" for number in range(60)]

    def write(store: Store, order: list[str], place: int) -> None:
        store.add_people(order)
        for begin in range(0, len(order), 7):
            some = order[begin : begin + 7]
            with store.writing() as writing:
                writing.held(some, WINDOW)
                writing.put_pending([draw(person, place) for person in some], EPOCH)

    # In opposite orders, so that whoever locks people one by one as they come waits for ever.
    first, second = two_stores
    run_all(
        *(lambda: write(first, people, 1), lambda: write(second, people[::-1], 2)),
        *(lambda: write(second, people, 3), lambda: write(first, people[::-1], 4)),
    )
    for person in people:
        found = held(first, person)
        assert found is not None
        assert found.pending in [draw(person, place) for place in (1, 2, 3, 4)]


def test_two_charge_the_same_place_once(two_stores: tuple[Store, Store]) -> None:
    people = [f"person {number}" for number in range(40)]
    two_stores[0].add_people(people)
    draws = [draw(person, place) for person in people for place in (1, 2)]
    # In two windows, whose totals both change, in opposite orders.
    later = [draw(person, 3, window=WINDOW + 1) for person in people]
    first, second = two_stores
    run_all(
        *(lambda: charge(first, *draws, *later), lambda: charge(second, *later[::-1], *draws[::-1])),
        *(lambda: charge(second, *draws), lambda: charge(first, *later)),
    )
    assert first.totals().charged_by_window == {WINDOW: 2 * len(people), WINDOW + 1: len(people)}
    assert all(known(first, person)["charges"] == {str(WINDOW): 2, str(WINDOW + 1): 1} for person in people)


def test_who_is_erased_and_created_at_once_has_no_new_budget(two_stores: tuple[Store, Store]) -> None:
    people = [f"person {number}" for number in range(30)]
    marks = [ErasedMark(person.encode(), WINDOW) for person in people]
    first, second = two_stores
    first.add_people(people, marks)
    charge(first, *(draw(person, place) for person in people for place in (1, 2)))

    def erase_all() -> None:
        for person, mark in zip(people, marks, strict=True):
            first.erase(person, mark)

    def create_all() -> None:
        for _ in range(10):
            second.add_people(people, marks)

    run_all(erase_all, create_all)
    second.add_people(people, marks)
    with first.writing() as writing:
        assert {one.charged for one in writing.held(people, WINDOW).values()} == {2}


def test_two_add_the_same_people(two_stores: tuple[Store, Store]) -> None:
    people = [f"person {number}" for number in range(500)]
    added = run_all(lambda: two_stores[0].add_people(people), lambda: two_stores[1].add_people(people[::-1]))
    assert sorted(person for some in added for person in some) == sorted(people)  # type: ignore[attr-defined]


def test_a_border_waits_for_a_report(two_stores: tuple[Store, Store]) -> None:
    first, second = two_stores
    first.add_people(["ann"])
    put(first, draw("ann", 1))
    border = threading.Thread(target=publish, args=(second,))
    with first.writing() as writing:
        # The report is judged by what is held, which must not be published before the report is kept.
        assert writing.held(["ann"], WINDOW)["ann"].pending == draw("ann", 1)
        border.start()
        border.join(CHANCE_S)
        writing.put_pending([draw("ann", 2)], EPOCH)
    border.join()
    ann = held(first, "ann")
    assert ann == Held(published=draw("ann", 2), known=known_places(draw("ann", 2)), charged=1)


def test_a_report_waits_for_another_of_the_same_person(two_stores: tuple[Store, Store]) -> None:
    first, second = two_stores
    first.add_people(["ann"])
    seen: list[Held] = []

    def report() -> None:
        with second.writing() as writing:
            seen.append(writing.held(["ann"], WINDOW)["ann"])

    other = threading.Thread(target=report)
    with first.writing() as writing:
        writing.held(["ann"], WINDOW)
        other.start()
        other.join(CHANCE_S)
        writing.put_pending([draw("ann", 1)], EPOCH)
    other.join()
    assert seen == [Held(pending=draw("ann", 1))]


def test_nothing_is_kept_of_somebody_erased_meanwhile(two_stores: tuple[Store, Store]) -> None:
    first, second = two_stores
    first.add_people(["ann"])
    erasing = threading.Thread(target=second.erase, args=("ann",))
    with first.writing() as writing:
        writing.held(["ann"], WINDOW)
        erasing.start()
        erasing.join(CHANCE_S)
        writing.put_pending([draw("ann")], EPOCH)
        writing.put_standings({"ann": Standing(receipt="last", epoch=EPOCH)})
    erasing.join()
    assert first.totals().people == 0
    assert everything_kept(first, "ann") is None
    # Nor does anything of it come back with somebody of the same id.
    first.add_people(["ann"])
    assert held(first, "ann") == Held()
    publish(first)
    assert first.totals().published == 0


@pytest.mark.parametrize("at_once", [64, 4096])
def test_one_of_many_publishes(two_stores: tuple[Store, Store], at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[type(two_stores[0]).__module__], "PUBLISHED_AT_ONCE", at_once)
    people = [f"person {number}" for number in range(200)]
    two_stores[0].add_people(people)
    for epoch in range(EPOCH, EPOCH + 8):
        put(two_stores[0], *(draw(person, 1 + epoch - EPOCH) for person in people), epoch=epoch)
        done = run_all(*(partial(publish, store, epoch) for store in two_stores * 2))
        assert sorted(done) == [False, False, False, True]  # type: ignore[type-var]
    assert two_stores[0].totals().charged_by_window == {WINDOW: 8 * len(people)}


def test_nobody_is_published_twice_in_an_epoch(postgis_address: str) -> None:
    """The database itself watches: every change of a published place is written down by a trigger."""
    stores = [PostgisStore(postgis_address) for _ in range(2)]
    with psycopg.connect(postgis_address, autocommit=True) as watcher:
        watcher.execute("CREATE TABLE seen (person bigint, epoch bigint)")
        watcher.execute(
            "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN INSERT INTO public.seen VALUES (NEW.person, NEW.epoch); RETURN NULL; END'"
        )
        watcher.execute(
            "CREATE TRIGGER see AFTER INSERT OR UPDATE ON nearveil.published FOR EACH ROW EXECUTE FUNCTION see()"
        )
        people = [f"person {number}" for number in range(50)]
        stores[0].add_people(people)
        for epoch in range(EPOCH, EPOCH + 10):
            put(stores[0], *(draw(person) for person in people), epoch=epoch)
            run_all(*(partial(publish, store, epoch) for store in stores))
        counted = watcher.execute("SELECT count(*), count(DISTINCT (person, epoch)) FROM seen").fetchone()
    for store in stores:
        store.close()
    assert counted == (500, 500)


@pytest.mark.parametrize("at_once", [2, 4096])
def test_reports_and_borders_never_exceed_a_budget(
    two_stores: tuple[Store, Store], san_francisco: Region, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People who race through far more places than they may publish, while borders fall all the time."""
    monkeypatch.setattr(sys.modules[type(two_stores[0]).__module__], "PUBLISHED_AT_ONCE", at_once)
    first, second = two_stores
    people = [f"person {number}" for number in range(6)]
    first.add_people(people)
    protection, keys = Protection(region=san_francisco, new_places=4, dwell_epochs=1), new_keys()
    # From the first epoch of a window on, of which all borders are within the window.
    epoch_s, clock = protection.schedule.epoch_s, [1e9 - 1e9 % protection.schedule.window.total_seconds()]
    publishers = [
        Publisher(protection, keys, store, clock=lambda: clock[0], always_chained=False) for store in (first, second)
    ]
    done = threading.Event()

    def report(publisher: Publisher, seed: int) -> set[Status]:
        chance = np.random.default_rng(seed)
        told: set[Status] = set()
        for _ in range(40):
            places = chance.uniform((37.6, -122.5), (37.8, -122.3), (len(people), 2)).tolist()
            answers = publisher.receive([publisher.accept(p, *at) for p, at in zip(people, places, strict=True)])
            told.update(answer.status for answer in answers)
        return told

    def borders() -> None:
        for _ in range(protection.schedule.epochs_per_window - 2):
            if done.is_set():
                break
            clock[0] += epoch_s
            publishers[1].publish_due()

    border = threading.Thread(target=borders)
    border.start()
    told = run_all(lambda: report(publishers[0], 1), lambda: report(publishers[1], 2))
    done.set()
    border.join()
    clock[0] += epoch_s
    assert publishers[1].publish_due()
    numbers = [number for person in people for number in known(first, person)["charges"].values()]
    # How many there are in this window is a secret of each person.
    assert all(least_new_places(4) <= number <= 4 for number in numbers)
    # Nobody is told whether a place was new, or one too many.
    assert told == [{Status.TAKEN}, {Status.TAKEN}]
    assert sum(numbers) == sum(first.totals().charged_by_window.values())
    assert set(published_steps(first)) <= set(people)


def test_a_thread_that_writes_on_and_on_does_not_keep_others_waiting(address: str) -> None:
    store = open_store(address)
    store.add_people(["ann"])
    done = threading.Event()

    def on_and_on() -> None:
        while not done.is_set():
            put(store, draw("ann"), epoch=EPOCH + 1000)

    busy = threading.Thread(target=on_and_on)
    busy.start()
    try:
        for epoch in range(EPOCH, EPOCH + 20):
            assert publish(store, epoch)
    finally:
        done.set()
        busy.join()
    assert published_steps(store) == {}
    store.close()
