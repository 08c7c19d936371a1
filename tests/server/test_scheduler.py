"""Epochs: what is due is published, the index follows, and intervals change at borders alone."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.fitting import build_public_intervals
from nearveil.mechanisms.intervals import Intervals
from nearveil.nearby.publishing.intervals_in_use import IntervalsInUse, fingerprint
from nearveil.nearby.publishing.keys import new_keys
from nearveil.nearby.stores.base import STEP_M, StoreError
from nearveil.nearby.stores.sqlite import SqliteStore
from nearveil.region import named_region
from nearveil.server.settings import Settings
from nearveil.server.store_tools import repair_clock
from tests.nearby.stores.kept import everything_kept
from tests.server.running import HOUR_S, START_S, Clock, Running, in_folder, running


@pytest.fixture
def place() -> Iterator[Running]:
    with running() as found:
        found.add("ann", "bob")
        yield found


@pytest.fixture(scope="module")
def coarse() -> Intervals:
    return build_public_intervals(region=named_region("san-francisco"), centres=9, gamma=0.01, rng=1)


@pytest.fixture(scope="module")
def fine() -> Intervals:
    return build_public_intervals(region=named_region("san-francisco"), centres=400, rng=1)


def test_a_draw_is_found_after_the_border_and_not_before(place: Running) -> None:
    place.report("ann")
    place.clock.now += HOUR_S / 2
    place.service.scheduler.turn()
    assert place.nearby() == []
    place.next_epoch()
    assert place.nearby() == ["ann"]


def test_what_is_overdue_is_published_at_the_start(tmp_path: Path) -> None:
    keys, clock = new_keys(), Clock()
    with running(in_folder(tmp_path), keys=keys, clock=clock) as first:
        first.add("ann")
        first.report("ann")
    clock.now += 5 * HOUR_S
    with running(in_folder(tmp_path), keys=keys, clock=clock) as second:
        assert second.nearby() == ["ann"]


def test_a_report_after_the_border_does_not_replace_what_waited_for_it(place: Running) -> None:
    place.report("ann")
    waits = everything_kept(place.service.store, "ann")
    assert waits is not None
    assert (waits["pending"] is not None, waits["published"]) == (True, None)
    place.clock.now += HOUR_S
    # The thread has not seen the border yet; the report comes first.
    receipt = place.report("ann", {"latitude": 37.6, "longitude": -122.5}).json()["receipt"]
    held = everything_kept(place.service.store, "ann")
    assert held is not None
    assert (held["published"], held["pending"], held["receipt"]) == (waits["pending"], None, receipt)
    assert held["candidate"] is not None


def test_a_store_that_fails_at_a_border_is_tried_again(place: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = place.service.scheduler
    place.report("ann")
    place.clock.now += HOUR_S
    with monkeypatch.context() as broken:
        broken.setattr(place.service.store, "publish", _fails)
        assert scheduler._turn_and_wait() == 1.0
    assert scheduler._turn_and_wait() > 1.0
    assert place.nearby() == ["ann"]


def test_a_border_that_passes_while_the_index_is_loaded_is_not_missed(
    place: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance = place.service.index.advance

    def slowly(*loaded: Any) -> None:
        advance(*loaded)
        place.clock.now += HOUR_S

    place.clock.now += HOUR_S
    with monkeypatch.context() as slow:
        slow.setattr(place.service.index, "advance", slowly)
        assert place.service.scheduler._turn_and_wait() == 0.0
    assert place.service.scheduler._turn_and_wait() == 30.0


def _fails(*_: Any, **__: Any) -> Any:
    raise StoreError("the disk is full")


# -- other processes on the same store ---------------------------------------------------------------------------


class _Followed(SqliteStore):
    """A store that says what others did, when a test does it."""

    def follow(self, **told: Any) -> None:
        self.told = told


def _followed() -> _Followed:
    store = _Followed.in_memory()
    assert isinstance(store, _Followed)
    return store


def test_what_other_processes_do_shows_here() -> None:
    store = _followed()
    with running(store, noise="1m") as place:
        place.add("ann", "bob", "eve")
        latitude, longitude = place.service.protection.region.centre
        middle = {"latitude": latitude, "longitude": longitude}
        for number, person in enumerate(("ann", "bob", "eve")):
            place.report(person, {**middle, "longitude": longitude + 0.01 * number})
        place.next_epoch()
        assert place.nearby(middle) == ["ann", "bob", "eve"]
        store.told["on_withdrawn"]("ann")
        assert place.nearby(middle) == ["bob", "eve"]
        token = place.token("eve")
        assert place.nearby(middle, key=token) == ["bob"]
        # The other process has erased her, and says so.
        store.erase("eve")
        store.told["on_erased"]("eve")
        assert place.call("GET", "/v1/guarantee", key=token).status_code == 401
        assert place.nearby(middle) == ["bob"]


def test_whoever_lost_track_loads_everything() -> None:
    store = _followed()
    with running(store) as place:
        place.add("ann", "bob")
        place.report("ann")
        place.report("bob")
        place.next_epoch()
        # Withdrawn by another process, without a word.
        store.withdraw("ann")
        assert sorted(place.nearby()) == ["ann", "bob"]
        store.told["on_lost"]()
        place.service.scheduler.turn()
        assert place.nearby() == ["bob"]


# -- intervals ---------------------------------------------------------------------------------------------------


def _shown(place: Running) -> list[float]:
    """Where ann is published, in metres."""
    region = place.service.protection.region
    _, degrees = place.service.index.sample(1, np.random.default_rng(0))
    return list(region.to_metres(degrees)[0].round(1).tolist())


def _kept(place: Running) -> list[float]:
    held = place.call("GET", "/v1/people/ann").json()["published"]
    return [held["x_m"], held["y_m"]]


def test_new_intervals_hold_from_the_border_on_and_for_everybody(place: Running, coarse: Intervals) -> None:
    place.report("ann")
    place.next_epoch()
    before = _shown(place)
    assert before == pytest.approx(_kept(place), abs=0.2)
    answer = place.call("PUT", "/v1/intervals", content=coarse.to_json(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 202
    epoch = place.service.publisher.epoch
    assert answer.json() == {"from_epoch": epoch + 1}
    place.service.scheduler.lost()
    place.service.scheduler.turn()
    assert _shown(place) == before
    assert place.call("GET", "/v1/intervals").json()["next_from_epoch"] == epoch + 1
    place.next_epoch()
    steps = np.round(np.array([_kept(place)]) / STEP_M).astype(np.int64)
    moved = place.service.intervals.remap(epoch + 1)(steps)[0]
    assert _shown(place) == pytest.approx(moved.tolist(), abs=0.2)
    assert _shown(place) != before
    now = place.call("GET", "/v1/intervals").json()
    assert (now["fingerprint"], now["number"], now["next_fingerprint"]) == (fingerprint(coarse), 9, None)


def test_intervals_just_before_a_border_hold_from_the_one_after_it(place: Running, coarse: Intervals) -> None:
    place.clock.now = START_S - 60.0 + HOUR_S - 1.0
    epoch = place.service.publisher.epoch
    assert place.service.put_intervals(json.loads(coarse.to_json())) == epoch + 2


def test_the_last_put_before_a_border_counts(place: Running, coarse: Intervals, fine: Intervals) -> None:
    epoch = place.service.publisher.epoch
    for intervals in (coarse, fine):
        place.service.put_intervals(json.loads(intervals.to_json()))
    found = place.service.intervals.at(epoch + 1)
    assert found is not None
    assert found.fingerprint == fingerprint(fine)
    assert place.service.intervals.at(epoch) is None


def test_intervals_survive_a_restart_and_the_file_named_at_the_start_counts_once(
    tmp_path: Path, coarse: Intervals, fine: Intervals
) -> None:
    keys, clock, named = new_keys(), Clock(), tmp_path / "coarse.json"
    named.write_text(coarse.to_json())
    with running(in_folder(tmp_path), keys=keys, clock=clock, intervals=named) as first:
        # Nothing was published before: they hold at once.
        assert first.call("GET", "/v1/intervals").json()["fingerprint"] == fingerprint(coarse)
        first.service.put_intervals(json.loads(fine.to_json()))
        first.next_epoch()
    with running(in_folder(tmp_path), keys=keys, clock=clock, intervals=named) as second:
        assert second.call("GET", "/v1/intervals").json()["fingerprint"] == fingerprint(fine)
    named.write_text(build_public_intervals(region=named_region("san-francisco"), centres=16, rng=1).to_json())
    with running(in_folder(tmp_path), keys=keys, clock=clock, intervals=named) as third:
        # Another file: from the next border on, the epoch that has begun keeps what it has.
        shown = third.call("GET", "/v1/intervals").json()
        assert shown["fingerprint"] == fingerprint(fine)
        assert shown["next_from_epoch"] == third.service.publisher.epoch + 1


def test_intervals_of_another_region_are_refused(coarse: Intervals) -> None:
    berlin = IntervalsInUse(SqliteStore.in_memory(), named_region("berlin"))
    with pytest.raises(DataError, match="region"):
        berlin.put(coarse, epoch=1, from_epoch=2)
    assert berlin.at(5) is None


# -- what a store was made with ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [{"noise": "400m"}, {"region": "berlin"}, {"epoch": "30m"}, {"window": "60d"}],
    ids=str,
)
def test_a_store_is_refused_with_what_would_change_the_noise(tmp_path: Path, other: dict[str, Any]) -> None:
    keys = new_keys()
    with running(in_folder(tmp_path), keys=keys):
        pass
    with pytest.raises(UsageError, match="this store was made with"), running(in_folder(tmp_path), keys=keys, **other):
        pass
    # What does not change the noise may change.
    with running(in_folder(tmp_path), keys=keys, new_places=3) as place:
        assert place.call("GET", "/readyz").status_code == 200


def test_other_keys_are_refused(tmp_path: Path) -> None:
    keys, clock = new_keys(), Clock()
    with running(in_folder(tmp_path), keys=keys, clock=clock):
        pass
    with pytest.raises(UsageError, match="this store was made with"), running(in_folder(tmp_path), clock=clock):
        pass
    other = replace(new_keys(), tokens=keys.tokens)
    with pytest.raises(UsageError, match="key of the noise"), running(in_folder(tmp_path), keys=other, clock=clock):
        pass


def test_a_report_in_an_epoch_that_is_not_published_wakes_the_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    with running(in_folder(tmp_path), clock=clock) as place:
        place.add("ann")
        woken: list[float] = []
        monkeypatch.setattr(place.service.scheduler, "soon", lambda: woken.append(clock.now))
        place.report("ann")
        assert woken == []
        clock.now += HOUR_S
        place.report("ann")
        assert woken == [clock.now]


class TestAStoreAheadOfTheClock:
    """A clock that once was wrong leaves epochs in the store that lie ahead: until then nothing is published."""

    def test_it_is_not_ready_and_says_why(self, tmp_path: Path) -> None:
        keys, clock = new_keys(), Clock(now=START_S + 72 * HOUR_S)
        with running(in_folder(tmp_path), keys=keys, clock=clock) as place:
            assert place.call("GET", "/readyz").status_code == 200
            clock.now = START_S
            place.service.scheduler.turn()
            answer = place.call("GET", "/readyz")
            assert (answer.status_code, answer.json()["reason"]) == (503, "clock")
            # What is published is shown all the same.
            assert place.call("GET", "/readyz?for=questions").status_code == 200
            clock.now = START_S + 73 * HOUR_S
            place.service.scheduler.turn()
            assert place.call("GET", "/readyz").status_code == 200

    @pytest.mark.parametrize("restarted", [False, True])
    def test_no_report_is_acknowledged_that_waits_for_days(self, tmp_path: Path, restarted: bool) -> None:
        keys, clock = new_keys(), Clock(now=START_S + 72 * HOUR_S)
        with running(in_folder(tmp_path), keys=keys, clock=clock) as place:
            place.add("ann")
            if not restarted:
                clock.now = START_S
                self._refused(place)
        clock.now = START_S
        with running(in_folder(tmp_path), keys=keys, clock=clock) as place:
            self._refused(place)

    def _refused(self, place: Running) -> None:
        answer = place.report("ann")
        assert answer.status_code == 503
        assert "'nearveil store repair-clock'" in answer.json()["detail"]
        assert "Retry-After" in answer.headers
        record = everything_kept(place.service.store, "ann")
        assert record is not None
        assert (record["pending"], record["receipt"]) == (None, None)

    def test_a_clock_that_is_a_moment_behind_others_is_right_enough(self, tmp_path: Path) -> None:
        clock = Clock(now=START_S + HOUR_S)
        with running(in_folder(tmp_path), clock=clock) as place:
            place.add("ann")
            clock.now = START_S + HOUR_S - 120.0
            assert place.report("ann").status_code == 202

    def test_the_repair_lets_it_go_on_at_the_next_boundary(self, tmp_path: Path) -> None:
        keys, clock = new_keys(), Clock()
        with running(in_folder(tmp_path), keys=keys, clock=clock) as place:
            place.add("ann", "bob")
            place.report("ann")
            place.next_epoch()
            clock.now += 72 * HOUR_S
            place.service.scheduler.turn()
            place.report("bob")
            charged = place.service.store.totals().charged_by_window
            shown = place.call("GET", "/v1/people/ann").json()["published"]
        clock.now -= 72 * HOUR_S
        settings = Settings.load(None, {}, {"store": str(tmp_path / "nearveil.db")})
        for dry_run in (True, False):
            found = repair_clock(settings, dry_run=dry_run, clock=clock)
            assert found is not None
            assert (found.ahead.epochs, found.ahead.pending) == (1, 1)
        assert repair_clock(settings, clock=clock) is None
        with running(in_folder(tmp_path), keys=keys, clock=clock) as place:
            assert place.call("GET", "/readyz").status_code == 200
            assert place.nearby() == ["ann"]
            # Where she is published is not drawn again, and is not charged again.
            assert place.report("ann").status_code == 202
            place.next_epoch()
            assert sorted(place.nearby()) == ["ann", "bob"]
            after = place.call("GET", "/v1/people/ann").json()["published"]
            assert (after["x_m"], after["y_m"]) == (shown["x_m"], shown["y_m"])
            totals = place.service.store.totals().charged_by_window
            assert sum(totals.values()) == sum(charged.values()) + 1

    def test_intervals_that_were_put_then_hold_from_the_next_boundary_on(
        self, tmp_path: Path, coarse: Intervals, fine: Intervals
    ) -> None:
        keys, clock = new_keys(), Clock()
        with running(in_folder(tmp_path), keys=keys, clock=clock) as place:
            place.service.put_intervals(json.loads(coarse.to_json()))
            place.next_epoch()
            clock.now += 72 * HOUR_S
            place.service.scheduler.turn()
            place.service.put_intervals(json.loads(fine.to_json()))
        clock.now -= 72 * HOUR_S
        repair_clock(
            Settings.load(None, {}, {"store": str(tmp_path / "nearveil.db")}),
            dry_run=False,
            clock=clock,
        )
        with running(in_folder(tmp_path), keys=keys, clock=clock) as place:
            shown = place.call("GET", "/v1/intervals").json()
            assert shown["fingerprint"] == fingerprint(coarse)
            assert shown["next_fingerprint"] == fingerprint(fine)
            assert shown["next_from_epoch"] == place.service.publisher.epoch + 1
