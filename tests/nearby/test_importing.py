"""People of an app are brought into a store once, and only as noisy locations."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nearveil.nearby import importing
from nearveil.nearby.importing import PlacesOfPeople, import_people
from nearveil.nearby.publishing.keys import new_keys
from nearveil.nearby.publishing.protection import Protection
from nearveil.nearby.publishing.publisher import Publisher, Status
from nearveil.nearby.stores.base import Store
from nearveil.nearby.stores.sqlite import SqliteStore
from nearveil.region import named_region
from nearveil.types import FloatArray
from tests.nearby.stores.draws import published_steps
from tests.nearby.stores.kept import everything_kept

SAN_FRANCISCO = named_region("san-francisco")
HERE = (37.77, -122.42)


class World:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.now_s = 486_000 * 3600.0 + 60.0
        self.publisher = Publisher(Protection(region=SAN_FRANCISCO), new_keys(), store, clock=lambda: self.now_s)

    def publish(self) -> dict[str, tuple[int, ...]]:
        self.now_s += 3600.0
        self.publisher.publish_due()
        return published_steps(self.store)


@pytest.fixture
def world(store: Store) -> World:
    return World(store)


def people(number: int) -> PlacesOfPeople:
    chance = np.random.default_rng(1)
    return [f"u{row}" for row in range(number)], chance.uniform((37.55, -122.55), (37.85, -122.25), (number, 2))


def test_everybody_is_published_at_the_next_boundary_and_charged_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "AT_ONCE", 7)
    steps: list[int] = []
    imported = import_people(world.publisher, [people(20)], progress=steps.append)
    assert (imported.rows, imported.taken, imported.there_before) == (20, 20, 0)
    assert steps == [7, 7, 6]
    assert published_steps(world.store) == {}
    assert len(world.publish()) == 20
    assert sum(world.store.totals().charged_by_window.values()) == 20


def test_an_import_can_be_done_again(world: World) -> None:
    ids, places = people(30)
    import_people(world.publisher, [(ids[:10], places[:10])])
    before = world.publish()
    # Also of those who were published meanwhile, with other places: they are not asked about a second time.
    again = import_people(world.publisher, [(ids, places[::-1].copy())])
    assert (again.taken, again.there_before) == (20, 10)
    after = world.publish()
    assert {person: after[person] for person in before} == before
    assert len(after) == 30


def test_who_has_reported_is_left_alone(world: World) -> None:
    world.publisher.add_people(["u0"])
    receipt = world.publisher.report("u0", *HERE).receipt
    assert import_people(world.publisher, [people(1)]).taken == 0
    # The chain of reports goes on.
    assert world.publisher.report("u0", *HERE, previous=receipt).status is Status.TAKEN


@pytest.mark.parametrize("previous", [None, "a receipt of its own"])
def test_the_first_report_of_a_phone_is_taken_after_an_import(world: World, previous: str | None) -> None:
    import_people(world.publisher, [people(1)])
    world.publish()
    assert world.publisher.report("u0", *HERE, previous=previous).status is Status.TAKEN
    assert world.publisher.report("u0", *HERE).status is Status.CHAIN_BROKEN


def moved(places: FloatArray, north_m: float) -> FloatArray:
    return places + np.array([north_m / 111_000.0, 0.0])


@pytest.mark.parametrize("north_m", [0.0, 60.0, 400.0])
def test_guesses_before_the_boundary_change_nothing(world: World, north_m: float) -> None:
    """Whoever may report can begin the chain of somebody imported, and must not see whether a guess was right."""
    ids, places = people(20)
    import_people(world.publisher, [(ids, places)])
    waiting = {person: record(world, person)["pending"] for person in map(str, ids)}
    for person, (latitude, longitude) in zip(map(str, ids), moved(places, north_m).tolist(), strict=True):
        receipt = world.publisher.report(person, latitude, longitude).receipt
        world.publisher.report(person, latitude, longitude, previous=receipt)
    assert {person: record(world, person)["pending"] for person in waiting} == waiting
    assert len(world.publish()) == 20
    assert sum(world.store.totals().charged_by_window.values()) == 20


@pytest.mark.parametrize("north_m", [0.0, 3000.0])
def test_the_first_place_of_a_phone_is_drawn_anew_wherever_it_is(world: World, north_m: float) -> None:
    """All of 60 stay by chance with a probability under 1e-9: of new draws, some 0.6 are near enough to stay."""
    ids, places = people(60)
    import_people(world.publisher, [(ids, places)])
    before = world.publish()
    receipts: dict[str, str | None] = dict.fromkeys(map(str, ids))
    for _ in range(2):
        for person, (latitude, longitude) in zip(receipts, moved(places, north_m).tolist(), strict=True):
            receipts[person] = world.publisher.report(person, latitude, longitude, previous=receipts[person]).receipt
        after = world.publish()
    assert any(after[person] != before[person] for person in before)
    assert sum(world.store.totals().charged_by_window.values()) == 120


def record(world: World, person: str) -> dict[str, Any]:
    found = everything_kept(world.store, person)
    assert found is not None
    return found


def test_rows_that_cannot_be_used_are_counted(world: World) -> None:
    ids = ["ann", None, "..", "bob", "cem", "ann", "dan"]
    places = np.array([HERE, HERE, HERE, (np.nan, np.nan), (0.0, 0.0), (37.6, -122.3), HERE])
    imported = import_people(world.publisher, [(ids, places)])
    assert (imported.rows, imported.taken) == (7, 2)
    assert (imported.without_id, imported.without_place, imported.there_before) == (2, 2, 1)
    assert set(world.publish()) == {"ann", "dan"}


def test_people_outside_can_be_moved_to_the_edge(world: World) -> None:
    imported = import_people(world.publisher, [(["ann"], np.array([(0.0, 0.0)]))], clip=True)
    assert imported.taken == 1


def test_no_true_place_is_left_behind(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "people.db")
    world = World(store)
    ids, places = people(50)
    import_people(world.publisher, [(ids, places)])
    true_steps = np.rint(SAN_FRANCISCO.to_metres(places)).astype(int)
    for person, (x, y) in zip(ids, true_steps.tolist(), strict=True):
        record = everything_kept(store, str(person))
        assert record is not None
        assert str(x) not in str(record["pending"]) or str(y) not in str(record["pending"])
        assert record["candidate"] is None
    store.close()
