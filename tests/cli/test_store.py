"""``nearveil store repair-clock`` says what it would change, changes it with --yes, and refuses a store in use."""

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from nearveil.nearby.publishing.keys import new_keys, write_keys
from nearveil.nearby.publishing.protection import Schedule
from nearveil.nearby.stores import is_postgres, open_store
from nearveil.nearby.stores.base import Store
from tests.cli.conftest import Run
from tests.nearby.stores.draws import draw
from tests.services.postgres import postgis_cluster, private_database

__all__ = ["postgis_cluster"]

SCHEDULE = Schedule()


def now() -> int:
    return SCHEDULE.epoch_at(time.time())


@pytest.fixture(params=["sqlite", "postgis"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store that was used now, and three days ahead."""
    if request.param == "sqlite":
        used_ahead(str(tmp_path / "people.db"))
        yield str(tmp_path / "people.db")
        return
    request.getfixturevalue("postgis_cluster")
    with private_database() as found:
        used_ahead(found)
        yield found


def used_ahead(address: str, epochs: int = 72) -> None:
    with closing(open_store(address)) as store:
        store.add_people(["ann", "bob"])
        for epoch in (now(), now() + epochs):
            publish(store, "ann", epoch)
        with store.writing() as writing:
            writing.put_pending([draw("bob", window=SCHEDULE.window_of(now()))], now() + epochs + 1)


def publish(store: Store, person: str, epoch: int) -> None:
    with store.writing() as writing:
        writing.put_pending([draw(person, window=SCHEDULE.window_of(epoch))], epoch)
    store.publish(epoch, window=SCHEDULE.window_of(epoch))


def last_epoch(address: str) -> int | None:
    with closing(open_store(address)) as store:
        return store.last_epoch()


def test_it_says_what_it_would_change_and_changes_it_with_yes(
    run: Run, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An address with a password is not taken from the command line.
    monkeypatch.setenv("NEARVEIL_STORE", address)
    before = last_epoch(address)
    shown = run("store", "repair-clock")
    assert shown.code == 0
    assert "set back: 1 epoch(s)" in shown.out
    assert "published then: 1 noisy location(s)" in shown.out
    assert "waiting for a later epoch: 1 noisy location(s)" in shown.out
    assert "nothing was changed; if this clock is right, add --yes" in shown.out
    assert last_epoch(address) == before
    done = run("store", "repair-clock", "--yes")
    assert (done.code, "start the service" in done.out) == (0, True)
    assert last_epoch(address) == now()
    again = run("store", "repair-clock", "--yes")
    assert (again.code, "is not ahead" in again.out) == (0, True)


def test_it_refuses_a_store_that_a_service_uses(run: Run, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARVEIL_STORE", address)
    with closing(open_store(address)) as store:
        nothing = {f"on_{name}": lambda *_: None for name in ("erased", "withdrawn", "epoch", "lost")}
        store.follow(**nothing)
        refused = run("store", "repair-clock", "--yes")
        assert refused.code == 4
        assert ("stop all services" if is_postgres(address) else "another process uses the store") in refused.err
    assert last_epoch(address) == now() + 72


def test_the_length_of_an_epoch_comes_from_the_key_file(run: Run, tmp_path: Path) -> None:
    short = Schedule(epoch=timedelta(minutes=15), window=timedelta(days=30))
    path = tmp_path / "people.db"
    epoch = short.epoch_at(time.time())
    with closing(open_store(str(path))) as store:
        store.publish(epoch - 1, window=1)
        store.publish(epoch + 8, window=1)
    # By the default of an hour, this store would be centuries ahead.
    refused = run("store", "repair-clock", path, "--yes")
    assert (refused.code, "--epoch" in refused.err) == (2, True)
    write_keys(tmp_path / "keys.json", new_keys(short))
    assert "set back: 1 epoch(s)" in run("store", "repair-clock", path).out
    differs = run("store", "repair-clock", path, "--epoch", "1h")
    assert (differs.code, "the keys are for an epoch of 15m" in differs.err) == (2, True)
    assert run("store", "repair-clock", path, "--yes").code == 0
    assert last_epoch(str(path)) in (epoch, epoch + 1)


def test_a_store_that_is_not_there_is_not_made(run: Run, tmp_path: Path) -> None:
    refused = run("store", "repair-clock", tmp_path / "people.db")
    assert (refused.code, "there is no such store" in refused.err) == (2, True)
    assert not (tmp_path / "people.db").exists()
