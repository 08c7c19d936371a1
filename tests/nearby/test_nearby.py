"""Nearby: the feature inside an app, on every store."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nearveil import ChainBrokenError, Nearby
from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.fitting import build_public_intervals
from nearveil.nearby.publishing.intervals_in_use import IntervalsInUse
from nearveil.nearby.publishing.keys import new_keys, write_keys
from nearveil.nearby.stores import is_postgres, open_store
from nearveil.nearby.stores.base import STEP_M, StoreError
from nearveil.region import named_region

HERE = (37.77, -122.42)
THERE = (37.60, -122.30)
HOUR_S = 3600.0
SAN_FRANCISCO = named_region("san-francisco")

Opener = Callable[..., Nearby]


class Clock:
    now = 486_000 * HOUR_S + 60.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_nearby(address: str, tmp_path: Path, clock: Clock) -> Iterator[Opener]:
    """Opens the store of the test, as one process of an app does; what is open is closed at the end."""
    opened: list[Nearby] = []
    keys = tmp_path / "keys.json"
    if is_postgres(address):
        write_keys(keys, new_keys())

    def open_one(**changed: Any) -> Nearby:
        shared = {"keys": keys} if is_postgres(address) else {}
        options: dict[str, Any] = {"region": "san-francisco", "clock": clock, **shared, **changed}
        opened.append(Nearby(address, **options))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def test_from_reports_to_lists(open_nearby: Opener, clock: Clock) -> None:
    app = open_nearby()
    assert app.report("ann", *HERE).status.value == "taken"
    app.report("bob", *HERE)
    app.report("eve", *THERE)
    assert (app.nearby(*HERE), len(app)) == ([], 0)
    assert not app.publish_due()
    clock.now += HOUR_S
    assert app.publish_due()
    assert not app.publish_due()
    assert set(app.nearby(*HERE, k=2)) == {"ann", "bob"}
    assert app.nearby(*HERE, k=2, exclude="ann")[0] == "bob"
    assert app.nearby(*HERE, k=2, exclude={"ann", "bob", "nobody"}) == ["eve"]
    assert app.nearby(*THERE, within_m=10_000.0) == ["eve"]
    # Nothing else: above all not how many places were new.
    epoch = int(clock.now // HOUR_S)
    assert asdict(app.ledger()) == {
        "people": 3,
        "published": 3,
        "epoch": epoch,
        "window": epoch // (30 * 24),
        "new_places_per_window": 20,
    }


def test_a_report_must_bring_the_receipt_of_the_last(open_nearby: Opener) -> None:
    app = open_nearby()
    first = app.report("ann", *HERE)
    with pytest.raises(ChainBrokenError, match="end_chain"):
        app.report("ann", *HERE)
    second = app.report("ann", *HERE, previous=first.receipt)
    assert app.end_chain("ann")
    assert not app.end_chain("nobody")
    third = app.report("ann", *HERE)
    assert len({first.receipt, second.receipt, third.receipt}) == 3


def test_who_leaves_is_gone_at_once(open_nearby: Opener, clock: Clock) -> None:
    app = open_nearby()
    receipt = app.report("ann", *HERE).receipt
    app.report("bob", *HERE)
    clock.now += HOUR_S
    app.publish_due()
    assert app.withdraw("ann")
    assert app.nearby(*HERE) == ["bob"]
    assert app.forget("bob")
    assert app.nearby(*HERE) == []
    assert (app.export("bob"), app.forget("bob"), app.withdraw("bob")) == (None, False, False)
    exported = app.export("ann")
    assert exported is not None
    assert exported["published"] is None
    app.report("ann", *HERE, previous=receipt)
    clock.now += HOUR_S
    app.publish_due()


def test_nothing_is_acknowledged_while_the_store_is_ahead_of_the_clock(open_nearby: Opener, clock: Clock) -> None:
    app = open_nearby()
    clock.now += 72 * HOUR_S
    app.publish_due()
    clock.now -= 72 * HOUR_S
    with pytest.raises(StoreError, match="repair-clock"):
        app.report("ann", *HERE)
    assert app.ledger().people == 0


def test_another_protection_on_the_same_store_is_refused(open_nearby: Opener) -> None:
    app = open_nearby()
    app.report("ann", *HERE)
    app.close()
    with pytest.raises(UsageError):
        open_nearby(noise_m=300)
    # It was let go of, too.
    assert open_nearby().ledger().people == 1


def test_intervals_that_the_store_has_are_used(address: str, open_nearby: Opener, clock: Clock) -> None:
    app = open_nearby()
    for number in range(30):
        app.report(f"person {number}", *HERE)
    app.close()
    store = open_store(address)
    intervals = build_public_intervals(region=SAN_FRANCISCO, centres=9, gamma=0.01, rng=1)
    epoch = int(clock.now // HOUR_S)
    in_use = IntervalsInUse(store, SAN_FRANCISCO)
    in_use.put(intervals, epoch=epoch, from_epoch=epoch + 1)
    remap = in_use.remap(epoch + 1)
    store.close()
    app = open_nearby()
    clock.now += HOUR_S
    app.publish_due()
    people, places = app._index.sample(30, np.random.default_rng(1))
    for person, place in zip(people, places, strict=True):
        exported = app.export(person)
        assert exported is not None
        noisy = np.array([[exported["published"]["x_m"], exported["published"]["y_m"]]])
        moved = remap(np.rint(noisy / STEP_M).astype(np.int64))
        np.testing.assert_allclose(SAN_FRANCISCO.to_metres([place]), moved, atol=1.0)
        assert np.hypot(*(moved - noisy)[0]) > 1.0


def test_tags_and_blocks(open_nearby: Opener, clock: Clock) -> None:
    app = open_nearby()
    for person in ("ann", "bob", "eve", "kim"):
        app.report(person, *HERE)
    assert app.set_tags("bob", ["man", "25-35"])
    assert not app.set_tags("nobody", ["man"])
    clock.now += HOUR_S
    app.publish_due()
    # Before and after they are published.
    assert app.set_tags("eve", ["woman", "25-35"])

    def found(**question: Any) -> set[str]:
        return set(app.nearby(*HERE, **question))

    assert found() == {"ann", "bob", "eve", "kim"}
    assert found(asker="ann") == {"bob", "eve", "kim"}
    assert found(only=[["25-35"]]) == {"bob", "eve"}
    assert found(only=[["woman", "nonbinary"], ["25-35"]], asker="ann") == {"eve"}
    assert found(only=[["of-nobody"]]) == set()
    assert found(exclude=["ann", "eve", "nobody"], asker="kim") == {"bob"}
    assert app.block("ann", "bob")
    assert not app.block("ann", "nobody")
    assert (found(asker="ann"), found(asker="bob")) == ({"eve", "kim"}, {"eve", "kim"})
    assert (app.blocked("ann"), app.blocked("bob")) == (["bob"], [])
    assert app.set_blocked("eve", ["ann", "eve", "nobody"])
    assert found(asker="ann") == {"kim"}
    exported = app.export("eve")
    assert exported is not None
    assert (exported["tags"], exported["blocked"]) == (["25-35", "woman"], ["ann"])
    # What is kept is there again.
    app.close()
    app = open_nearby()
    assert found(asker="ann") == {"kim"}
    assert found(only=[["man"]]) == {"bob"}
    assert app.unblock("ann", "bob")
    app.forget("eve")
    assert found(asker="ann") == {"bob", "kim"}
    # Somebody new of the same id is not blocked; who was erased is published from the next window on.
    clock.now += 40 * 24 * HOUR_S
    app.publish_due()
    app.report("eve", *HERE)
    clock.now += HOUR_S
    app.publish_due()
    assert found(asker="ann") == {"bob", "eve", "kim"}


def test_tags_and_blocks_that_are_none(open_nearby: Opener) -> None:
    app = open_nearby()
    app.report("ann", *HERE)
    for wrong in ("", "a b", "x" * 65):
        with pytest.raises(DataError, match="a tag is 1 to 64"):
            app.set_tags("ann", [wrong])
    with pytest.raises(DataError, match="at most 60 different tags"):
        app.set_tags("ann", [f"t{number}" for number in range(61)])
    with pytest.raises(UsageError, match="block themselves"):
        app.block("ann", "ann")
    with pytest.raises(UsageError, match="each group is a list"):
        app.nearby(*HERE, only=["woman"])
    with pytest.raises(DataError, match="at most 5,000"):
        app.set_blocked("ann", [f"p{number}" for number in range(5_001)])


def test_a_second_process_follows(postgis_address: str, tmp_path: Path, clock: Clock) -> None:
    keys = tmp_path / "keys.json"
    write_keys(keys, new_keys())
    with (
        Nearby(postgis_address, region="san-francisco", keys=keys, clock=clock) as first,
        Nearby(postgis_address, region="san-francisco", keys=keys, clock=clock) as second,
    ):
        first.report("ann", *HERE)
        second.report("bob", *HERE)
        clock.now += HOUR_S
        assert first.publish_due()
        assert second.publish_due()
        assert set(first.nearby(*HERE)) == set(second.nearby(*HERE)) == {"ann", "bob"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"region": "atlantis"}, "region"),
        ({"noise_m": -1.0}, "noise"),
        ({"new_places": 0}, "new_places"),
        ({"chained_reports": "never"}, "'always' or 'if-sent'"),
    ],
)
def test_wrong_parameters(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        Nearby(tmp_path / "people.db", **{"region": "san-francisco", **options})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", [(0.0, 0.0), (float("nan"), 0.0)])
def test_places_outside_are_refused_and_nobody_is_added(tmp_path: Path, place: tuple[float, float]) -> None:
    with Nearby(tmp_path / "people.db", region="san-francisco") as app:
        with pytest.raises(DataError, match="outside"):
            app.report("ann", *place)
        with pytest.raises(DataError, match="region"):
            app.nearby(*place)
        assert app.ledger().people == 0
