"""Threads and processes on one store: nothing is lost, done twice, or done to half."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import psycopg

from nearveil.nearby.publishing.keys import new_keys
from nearveil.nearby.publishing.protection import Protection
from nearveil.nearby.publishing.publisher import Publisher, Status
from nearveil.nearby.stores import open_store
from nearveil.nearby.stores.base import Held, Store
from nearveil.nearby.stores.postgis import PostgisStore
from nearveil.region import Region
from tests.nearby.stores.draws import EPOCH, WINDOW, draw, held, known, publish, published_steps, put

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
    store.keep_setting("offset", "3")
    store.close()
    again = open_store(address)
    assert held(again, "ann") == Held(published=draw("ann"), charged=frozenset([draw("ann").tag]))
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
    assert first.totals().pending == len(people)
    assert all(known(first, person)["pending"]["receipt"].startswith(f"{person} at ") for person in people)


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
    assert ann == Held(published=draw("ann", 2), charged=frozenset([draw("ann", 2).tag]))


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
    erasing.join()
    totals = first.totals()
    assert (totals.people, totals.pending) == (0, 0)


def test_one_of_many_publishes(two_stores: tuple[Store, Store]) -> None:
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


def test_reports_and_borders_never_exceed_a_budget(two_stores: tuple[Store, Store], san_francisco: Region) -> None:
    """People who race through far more places than they may publish, while borders fall all the time."""
    first, second = two_stores
    people = [f"person {number}" for number in range(6)]
    first.add_people(people)
    protection, keys = Protection(region=san_francisco, new_places=4), new_keys()
    publishers = [Publisher(protection, keys, store, clock=lambda: 1e9) for store in (first, second)]
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
        epoch = publishers[0].epoch + 1
        while not done.is_set():
            second.publish(epoch, oldest_window=0)
            epoch += 1

    border = threading.Thread(target=borders)
    border.start()
    told = run_all(lambda: report(publishers[0], 1), lambda: report(publishers[1], 2))
    done.set()
    border.join()
    numbers = [number for person in people for number in known(first, person)["charges"].values()]
    assert max(numbers) == 4
    assert all(Status.BUDGET_SPENT in statuses for statuses in told)  # type: ignore[operator]
    assert sum(numbers) == sum(first.totals().charged_by_window.values())


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
