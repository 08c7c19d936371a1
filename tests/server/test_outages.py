"""While the store is away, known callers may ask; nothing is acknowledged that is not kept; readiness says why."""

import asyncio
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nearveil.nearby.stores.base import Reason, Store, StoreError
from nearveil.server.metrics import Metrics
from nearveil.server.store_health import PROBE_EVERY_S, PROBE_LATE_S, StoreHealth
from tests.nearby.stores.kept import everything_kept
from tests.server.clocks import Clock as AnyClock
from tests.server.running import HERE, HOUR_S, Running, in_folder, running
from tests.server.test_abuse import logged
from tests.server.test_metrics import samples
from tests.waiting import PATIENCE_S

__all__ = ["logged"]

GRACE_S = 120.0


class Breakable:
    """A store whose every call fails while it is broken, but for closing it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.broken: Reason | None = None

    def __getattr__(self, name: str) -> Any:
        if self.broken is not None and name != "close":
            return self._fail
        return getattr(self._store, name)

    def _fail(self, *_: Any, **__: Any) -> Any:
        raise StoreError("out of order", reason=self.broken or "failed", code="ECONNREFUSED")


@pytest.fixture
def place() -> Iterator[Running]:
    with running(wrapped=Breakable, grace="2m") as found:  # type: ignore[arg-type]
        # One clock for keys, which are asked for by the time of day, and for people.
        found.service.people._clock = found.clock
        found.add("ann", "bob")
        found.report("ann")
        found.next_epoch()
        yield found


def broken(place: Running, reason: Reason | None = "database-away") -> None:
    place.service.store.broken = reason  # type: ignore[attr-defined]


class TestGrace:
    def test_known_callers_ask_until_it_ends(self, place: Running) -> None:
        token = place.token("bob")
        asks: list[dict[str, Any]] = [{}, {"key": token}, {"extra": {"asker": "bob"}}, {"extra": {"asker": "ann"}}]
        before = [place.nearby(**dict(ask)) for ask in asks]
        broken(place)
        for _ in range(int(GRACE_S) // 10 - 1):
            place.clock.now += 10
            assert [place.nearby(**dict(ask)) for ask in asks] == before
        place.clock.now += 10
        for key in ("", token):
            answer = place.call("POST", "/v1/nearby", json={**HERE, "k": 3}, key=key)
            assert (answer.status_code, "Retry-After" in answer.headers) == (503, True)
        broken(place, None)
        assert place.nearby() == place.nearby(key=token) == ["ann"]

    def test_those_who_are_not_known_are_not_let_in(self, place: Running) -> None:
        ann = place.token("ann")
        secret = place.call("POST", "/v1/platform-keys/later", json={"scopes": ["ask"]}).json()["key"]
        place.nearby()
        broken(place)
        place.clock.now += 10
        for key in (ann, "nvk_" + "a" * 43):
            assert place.call("POST", "/v1/nearby", json={**HERE, "k": 3}, key=key).status_code == 503
        # Keys are read together, so that this one is known although it was not used before.
        assert place.call("POST", "/v1/nearby", json={**HERE, "k": 3}, key=secret).status_code == 200
        forged = ann[:-3] + "aaa"
        assert place.call("POST", "/v1/nearby", json={**HERE, "k": 3}, key=forged).status_code == 401

    def test_whoever_was_revoked_before_is_not_known(self, place: Running) -> None:
        token = place.token("bob")
        assert place.nearby(key=token) == ["ann"]
        place.call("DELETE", "/v1/people/bob/tokens")
        broken(place)
        assert place.call("POST", "/v1/nearby", json={**HERE, "k": 3}, key=token).status_code == 503

    def test_nothing_is_acknowledged_and_limits_and_the_watch_go_on(self, place: Running) -> None:
        token = place.token("bob")
        place.nearby(key=token)
        broken(place)
        for method, path in (
            ("PUT", "/v1/people/bob/location"),
            ("PUT", "/v1/people/eve"),
            ("DELETE", "/v1/people/ann"),
            ("DELETE", "/v1/people/ann/location"),
            ("DELETE", "/v1/people/bob/tokens"),
            ("GET", "/v1/people/ann"),
            ("GET", "/v1/ledger"),
        ):
            answer = place.call(method, path, json=HERE)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        statuses = [place.call("POST", "/v1/nearby", json={**HERE, "k": 3}, key=token).status_code for _ in range(31)]
        assert statuses[-1] == 429
        broken(place, None)
        assert (everything_kept(place.service.store, "bob") or {})["receipt"] is None

    def test_metrics_are_there_when_they_are_needed(self, place: Running) -> None:
        place.nearby()
        broken(place)
        place.report("bob")
        answer = place.call("GET", "/metrics")
        assert answer.status_code == 200
        assert 'nearveil_store_failures_total{reason="database-away"} 1.0' in answer.text


class TestReadiness:
    @pytest.mark.parametrize("reason", ["database-away", "disk-full", "read-only", "disk-failed", "damaged"])
    def test_it_says_why_the_store_cannot_be_written(self, place: Running, reason: Reason) -> None:
        place.service.health._clock = clock = AnyClock()
        assert place.call("GET", "/readyz").status_code == 200
        broken(place, reason)
        # Something was written lately.
        assert place.call("GET", "/readyz").status_code == 200
        clock.pass_time(PROBE_EVERY_S)
        answer = place.call("GET", "/readyz")
        assert (answer.status_code, answer.json()["reason"]) == (503, reason)
        assert place.call("GET", "/readyz?for=questions").status_code == 200
        broken(place, None)
        assert place.call("GET", "/readyz").status_code == 200

    def test_a_report_that_is_not_kept_is_seen_at_once(self, place: Running) -> None:
        place.call("GET", "/readyz")
        broken(place, "disk-full")
        assert place.report("bob").status_code == 503
        assert place.call("GET", "/readyz").json()["reason"] == "disk-full"

    def test_it_is_refused_on_the_fast_lane_too(self, place: Running) -> None:
        caller = place.service.access.identify(f"Bearer {place.key}")

        async def report(person: str) -> int:
            answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            body = json.dumps(HERE).encode()
            refused = place.app.report_now(caller, person, [], body, answered.set_result)
            return int((refused or await answered)[0])

        assert [asyncio.run(report(person)) for person in ("bob", "nobody")] == [202, 404]
        broken(place, "disk-full")
        assert asyncio.run(report("bob")) == 503

    def test_other_words_are_refused(self, place: Running) -> None:
        assert place.call("GET", "/readyz?for=reports").status_code == 422


def test_a_full_disk_refuses_reports_says_so_and_recovers(tmp_path: Path, logged: io.StringIO) -> None:
    """A real one: SQLite may not make the file larger."""
    with running(in_folder(tmp_path), questions_per_minute=0.0) as place:
        store = place.service.store
        people = [f"person-{number}" for number in range(400)]
        place.add(*people)
        writer = store._connections._writer  # type: ignore[attr-defined]
        writer.run("PRAGMA max_page_count = 1")
        refused = next(person for person in people if place.report(person).status_code == 503)
        assert (everything_kept(store, refused) or {})["receipt"] is None
        answer = place.call("GET", "/readyz")
        assert (answer.status_code, answer.json()["reason"]) == (503, "disk-full")
        lines = [json.loads(line) for line in logged.getvalue().splitlines()]
        said = next(line for line in lines if line["event"] == "store failed")
        assert (said["reason"], said["code"]) == ("disk-full", "SQLITE_FULL")
        assert str(tmp_path) not in logged.getvalue()
        writer.run("PRAGMA max_page_count = 1000000")
        assert place.call("GET", "/readyz").status_code == 200
        assert place.report(refused).status_code == 202


def test_failed_epochs_are_counted_once_each(place: Running) -> None:
    scheduler = place.service.scheduler
    scheduler._turn_and_wait()

    def failed() -> float:
        return samples(place.service.metrics)["nearveil_failed_epochs_total{}"]

    broken(place)
    scheduler._turn_and_wait()
    assert failed() == 0  # nothing was due
    for expected in (1, 2):
        place.clock.now += HOUR_S
        for _ in range(3):
            scheduler._turn_and_wait()
        assert failed() == expected
    broken(place, None)
    scheduler._turn_and_wait()
    assert failed() == 2


def test_a_probe_that_hangs_is_seen_and_not_repeated() -> None:
    begun, allowed, clock = threading.Event(), threading.Event(), AnyClock()
    writes = []

    class Hanging:
        def keep_setting(self, name: str, value: str) -> None:
            writes.append((name, len(value)))
            begun.set()
            assert allowed.wait(PATIENCE_S)

    health = StoreHealth(Hanging(), Metrics(), clock)  # type: ignore[arg-type]
    thread = threading.Thread(target=health.probe)
    thread.start()
    assert begun.wait(PATIENCE_S)
    health.probe()
    assert (len(writes), health.reason) == (1, None)
    clock.pass_time(PROBE_LATE_S + 1)
    assert health.reason == "slow"
    allowed.set()
    thread.join()
    assert (health.reason, health.is_probe_due) == (None, False)
