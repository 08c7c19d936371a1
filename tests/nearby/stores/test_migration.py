"""A store of the version before: it opens, keeps what it has, and nobody's published place is drawn or charged again.

``store_of_version_2.json`` holds the rows that the version before wrote, whose tables were those of two steps: in one
store by a service's own key ("own"), and in the other by the key that services shared before that ("shared"). Its
``points`` are the noisy places that it drew, also those that it did not keep.
"""

import hashlib
import itertools
import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from nearveil.nearby.publishing.keys import NoiseKey, SecretKeys, place_tags
from nearveil.nearby.publishing.protection import Protection, grid_for
from nearveil.nearby.publishing.publisher import Publisher, Status
from nearveil.nearby.publishing.store_identity import check_identity
from nearveil.nearby.stores import _postgis_connections, _sqlite_connections, is_postgres, open_store
from nearveil.nearby.stores.base import STEP_M, Held, NoisyLocation, PlatformKey, Standing, Store
from nearveil.region import named_region
from nearveil.server.scopes import ALL_SCOPES
from tests.nearby.stores.draws import charge, draw, held, known, published_steps, shown

STEPS_BEFORE = 2
STEPS_BEFORE_CHAINS = 6
STEPS_BEFORE_TAGS = 7
STORES: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("store_of_version_2.json").read_text(encoding="utf-8")
)
BYTES = ("tag", "digest")
HOME, WORK, AWAY = (37.61, -122.51), (37.79, -122.29), (37.75, -122.33)
EPOCH, WINDOW = 472_222, 655
HOUR_S = 3600.0
EPOCHS_PER_WINDOW = 720


@pytest.fixture(params=sorted(STORES))
def before(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the version before wrote."""
    return STORES[request.param]


@pytest.fixture
def old_address(address: str, before: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with the tables and the rows of the version before."""
    with monkeypatch.context() as patch:
        for connections in (_sqlite_connections, _postgis_connections):
            patch.setattr(connections, "MIGRATIONS", connections.MIGRATIONS[:STEPS_BEFORE])
        open_store(address).close()
    for table, rows in before["tables"].items():
        columns = list(rows[0])
        values = [[bytes.fromhex(row[name]) if name in BYTES else row[name] for name in columns] for row in rows]
        insert = _insert_into_postgis if is_postgres(address) else _insert_into_sqlite
        insert(address, table, columns, values)
    return address


def _insert_into_sqlite(address: str, table: str, columns: list[str], values: list[list[Any]]) -> None:
    connection = sqlite3.connect(address)
    marks = ", ".join("?" * len(columns))
    with connection:
        connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", values)  # noqa: S608
    connection.close()


def _insert_into_postgis(address: str, table: str, columns: list[str], values: list[list[Any]]) -> None:
    marks = ", ".join(["%s"] * len(columns))
    insert = f"INSERT INTO nearveil.{table} ({', '.join(columns)}) OVERRIDING SYSTEM VALUE VALUES ({marks})"  # noqa: S608
    with psycopg.connect(address) as connection:
        connection.cursor().executemany(insert.encode(), values)
        if table == "people":
            connection.execute(
                "SELECT setval(pg_get_serial_sequence('nearveil.people', 'number'), max(number)) FROM nearveil.people"
            )


class World:
    """A service with the keys and the settings of the version before, at a moment that the test says."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.now_s = EPOCH * HOUR_S
        self.keys = SecretKeys(noise=(NoiseKey(0, bytes(range(32))),), tokens=bytes(range(32, 64)))
        self.protection = Protection(region=named_region("san-francisco"), new_places=3)
        self.publisher = Publisher(self.protection, self.keys, store, clock=lambda: self.now_s)
        self.receipts: dict[str, str] = {}
        self.publisher.publish_due()

    def report(self, person: str, place: tuple[float, float]) -> None:
        check_identity(self.store, self.protection, self.keys, self.window)
        answer = self.publisher.report(person, *place, previous=self.receipts.get(person))
        assert answer.status is Status.TAKEN
        self.receipts[person] = answer.receipt

    def later(self, epochs: int = 1) -> None:
        self.now_s += epochs * HOUR_S
        assert self.publisher.publish_due()

    @property
    def window(self) -> int:
        return self.publisher.epoch // EPOCHS_PER_WINDOW


def location(before: dict[str, Any], table: str, number: int) -> NoisyLocation | None:
    """A row of before as a location."""
    people = {row["number"]: row["id"] for row in before["tables"]["people"]}
    for row in before["tables"][table]:
        if row["person"] == number:
            return NoisyLocation(
                person=people[number],
                x_steps=row["x_steps"],
                y_steps=row["y_steps"],
                tag=bytes.fromhex(row["tag"]),
                window=row["in_window"],
                receipt=row["receipt"],
            )
    return None


def test_everything_is_kept(old_address: str, before: dict[str, Any]) -> None:
    tables = before["tables"]
    # Opened twice: what was brought up once is not brought up again.
    for _ in range(2):
        store = open_store(old_address)
        totals = store.totals()
        assert (totals.people, totals.published) == (len(tables["people"]), len(tables["published"]))
        assert totals.charged_by_window == {row["in_window"]: row["places"] for row in tables["charged"]}
        assert store.last_epoch() == EPOCH
        assert store.keys() == [PlatformKey(name="web", digest=bytes(range(64, 96)), scopes=frozenset(ALL_SCOPES))]
        assert all(store.setting(row["name"]) == row["value"] for row in tables["settings"])
        for row in tables["people"]:
            number, person = row["number"], row["id"]
            charges = [(one["in_window"], one["tag"]) for one in tables["charges"] if one["person"] == number]
            published = location(before, "published", number)
            points = {published.tag: (published.x_steps, published.y_steps)} if published else {}
            for window in (WINDOW - 1, WINDOW, WINDOW + 1):
                assert held(store, person, window) == Held(
                    pending=location(before, "pending", number),
                    published=published,
                    # Of places before the published one only the tag was kept.
                    known={bytes.fromhex(tag): points.get(bytes.fromhex(tag)) for _, tag in charges},
                    charged=sum(one == window for one, _ in charges),
                )
            assert store.token_mark(person) == row["token_mark"]
            assert known(store, person)["tags"] == [tag for _, tag in sorted(charges)]
        assert sorted(published_steps(store)) == ["ann", "bob", "cem"]
        store.close()


def test_a_standing_of_before_chains_gets_one_with_the_next_receipt(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        for connections in (_sqlite_connections, _postgis_connections):
            patch.setattr(connections, "MIGRATIONS", connections.MIGRATIONS[:STEPS_BEFORE_CHAINS])
        store = open_store(address)
        store.add_people(["ann"])
        store.close()
    insert = _insert_into_postgis if is_postgres(address) else _insert_into_sqlite
    columns = ["person", "receipt", "epoch", "candidate", "candidate_epoch", "seen"]
    insert(address, "standings", columns, [[1, "report", EPOCH, b"candidate", EPOCH, 1]])
    store = open_store(address)
    kept = held(store, "ann")
    assert kept == Held(
        standing=Standing(receipt="report", epoch=EPOCH, candidate=b"candidate", candidate_epoch=EPOCH, seen=1)
    )
    world = World(store)
    # The next report counts as the first one: it may bring any receipt, and is taken again if its answer was lost.
    chosen = "0" * 24
    last = [world.publisher.report("ann", *HOME, previous=chosen).receipt for _ in range(2)][1]
    assert world.publisher.report("ann", *HOME, previous=last).status is Status.TAKEN
    assert world.publisher.report("ann", *HOME).status is Status.CHAIN_BROKEN
    store.close()


def test_people_of_before_tags_have_none_and_block_nobody(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        for connections in (_sqlite_connections, _postgis_connections):
            patch.setattr(connections, "MIGRATIONS", connections.MIGRATIONS[:STEPS_BEFORE_TAGS])
        store = open_store(address)
        store.add_people(["ann", "bob"])
        with store.writing() as writing:
            writing.publish_now([draw("ann")], EPOCH)
        store.close()
    for tagged in (0, 1):
        store = open_store(address)
        assert store.tags_of(["ann", "bob"]) == {"ann": tagged, "bob": 0}
        assert [batch.tags.tolist() for batch in store.published() if batch.tags is not None] == [[tagged]]
        assert store.blocked("ann") == ["bob"] * tagged
        assert (store.set_tags("ann", ["new"]), store.block("ann", "bob")) == (1, True)
        store.close()


def test_places_of_before_come_first_by_window_and_tag(old_address: str, before: dict[str, Any]) -> None:
    """In which order they were drawn was not kept; what matters is that it is the same for good."""
    charges = [one for one in before["tables"]["charges"] if one["person"] == 1]
    assert len({one["in_window"] for one in charges}) < len(charges) > 1
    expected = [tag for _, tag in sorted((one["in_window"], one["tag"]) for one in charges)]
    store = open_store(old_address)
    for place in (200, 100):
        charge(store, draw("ann", place, window=WINDOW - 5))
        expected.append(bytes([place] * 16).hex())
    for _ in range(2):
        found = held(store, "ann", WINDOW)
        assert found is not None
        assert [tag.hex() for tag in found.known] == expected
        store.close()
        store = open_store(old_address)
    store.close()


def test_a_store_of_before_is_used_on(old_address: str) -> None:
    store = open_store(old_address)
    assert store.add_people(["gus", "ann"]) == ["gus"]
    assert store.erase("ann")
    assert store.add_people(["ann"]) == ["ann"]
    assert held(store, "ann", WINDOW) == held(store, "gus", WINDOW) == Held()
    assert store.withdraw("cem")
    assert shown(store, "cem")["published"] is None
    store.close()


def test_who_stays_where_they_are_published_costs_nothing_for_good(old_address: str, before: dict[str, Any]) -> None:
    store = open_store(old_address)
    world = World(store)
    ann, charged = held(store, "ann", WINDOW), store.totals().charged_by_window
    assert ann is not None
    # In the same window, and in windows to come.
    for epochs in (1, 1, 60, EPOCHS_PER_WINDOW, 1, 5 * EPOCHS_PER_WINDOW, 1):
        world.report("ann", WORK)
        found = held(store, "ann", WINDOW)
        assert found is not None
        assert (found.pending, found.published, found.known, found.charged) == (None, ann.published, ann.known, 2)
        world.later(epochs)
    assert world.window == WINDOW + 6
    assert held(store, "ann", world.window).charged == 0  # type: ignore[union-attr]
    assert published_steps(store)["ann"] == tuple(before["points"]["ann work"])
    # Bob's place was drawn before, waited, and was charged at its border.
    charged[WINDOW] += 1
    assert store.totals().charged_by_window == charged
    store.close()


@pytest.mark.parametrize("windows_later", [0, 3])
def test_who_was_published_in_a_window_before_keeps_the_point(
    old_address: str, before: dict[str, Any], windows_later: int
) -> None:
    """Cem, in the window before the one in which this version is first used. Where is found by the tag and the key."""
    store = open_store(old_address)
    world = World(store)
    point, grid = before["points"]["cem home"], grid_for(500.0)
    around = [round(steps * STEP_M / grid.side_m) for steps in point]
    key = world.publisher._place_key(WINDOW - 1)
    cells = list(itertools.product(*(range(middle - 40, middle + 41) for middle in around)))
    cem = held(store, "cem", WINDOW)
    assert cem is not None
    assert cem.published is not None
    cell = cells[place_tags(key, "cem", cells, WINDOW - 1, grid.identity).index(cem.published.tag)]
    [home] = world.protection.region.from_metres(np.array([grid.centre_of(cell)])).tolist()
    world.later(1 + windows_later * EPOCHS_PER_WINDOW)
    charged = store.totals().charged_by_window
    for _ in range(3):
        world.report("cem", home)
        world.later()
        assert published_steps(store)["cem"] == tuple(point)
    assert store.totals().charged_by_window == charged
    # Back from elsewhere too.
    for place, is_home in ((AWAY, False), (home, True)):
        for _ in range(world.protection.dwell_epochs):
            world.report("cem", place)
            world.later()
        assert (published_steps(store)["cem"] == tuple(point)) is is_home
    assert sum(store.totals().charged_by_window.values()) == sum(charged.values()) + 1
    store.close()


@pytest.mark.parametrize("windows_later", [0, 3])
def test_a_place_of_before_has_its_noise_again(old_address: str, before: dict[str, Any], windows_later: int) -> None:
    """Only its tag was kept; the key gives the same noisy place, and it is not charged again."""
    store = open_store(old_address)
    world = World(store)
    # The noise goes on from the window in which this version was first used.
    world.report("ann", WORK)
    world.later(1 + windows_later * EPOCHS_PER_WINDOW)
    charged = store.totals().charged_by_window
    for _ in range(world.protection.dwell_epochs):
        world.report("ann", HOME)
        assert published_steps(store)["ann"] == tuple(before["points"]["ann work"])
        world.later()
    assert published_steps(store)["ann"] == tuple(before["points"]["ann home"])
    assert store.totals().charged_by_window == charged
    found = held(store, "ann", WINDOW)
    assert found is not None
    assert sorted(found.known.values()) == sorted(  # type: ignore[type-var]
        tuple(before["points"][place]) for place in ("ann home", "ann work")
    )
    store.close()


def test_what_waited_is_published_and_charged(old_address: str, before: dict[str, Any]) -> None:
    store = open_store(old_address)
    world = World(store)
    assert published_steps(store)["bob"] == tuple(before["points"]["bob home"])
    # It is still where they are.
    world.report("bob", AWAY)
    world.later()
    assert published_steps(store)["bob"] == tuple(before["points"]["bob away"])
    assert known(store, "bob")["charges"] == {str(WINDOW): 2}
    assert store.totals().charged_by_window == {WINDOW - 1: 2, WINDOW: 6}
    store.close()


def test_a_budget_that_was_spent_before_stays_spent(old_address: str) -> None:
    """Three new places were allowed; ann has one left in this window."""
    store = open_store(old_address)
    world = World(store)
    for place in ((37.55, -122.3), (37.85, -122.55)):
        for _ in range(world.protection.dwell_epochs):
            world.report("ann", place)
            world.later()
    assert known(store, "ann")["charges"] == {str(WINDOW): 3}
    store.close()


def test_released_steps_are_never_changed() -> None:
    """A store that has taken a step would not take it again."""
    digests = {
        connections.__name__.rpartition(".")[2]: hashlib.sha256(
            json.dumps(connections.MIGRATIONS[:STEPS_BEFORE]).encode()
        ).hexdigest()[:16]
        for connections in (_sqlite_connections, _postgis_connections)
    }
    assert digests == {"_sqlite_connections": "e3a808273f299e3b", "_postgis_connections": "e95d3117b93b4467"}
