"""Two services that share limits through a real Redis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from tests.server.clocks import Clock
from tests.server.running import HERE, Running, running
from tests.server.test_shared_limits import MadeUpState
from tests.services.redis_server import RedisServer, running_redis
from tests.waiting import until

from nearveil.errors import UsageError
from nearveil.nearby.publishing.keys import new_keys
from nearveil.server.service import Service
from nearveil.server.settings import Settings
from nearveil.server.shared_limits import RedisState, SharedLimits, Spent

LONG_S = 120.0
REFILL_S = 60_000.0


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture
def both(redis_server: RedisServer) -> Iterator[tuple[Running, Running]]:
    """Two services with the same keys, each with a store of its own: nothing but Redis connects them."""
    with ExitStack() as stack:
        keys = new_keys()
        options: dict[str, Any] = {"shared_limits": redis_server.address}
        # A rate so low that nothing is earned again while the test runs.
        options |= {"questions_per_minute": 60 / REFILL_S, "question_burst": 20, "key_questions_per_s": 0}
        first, second = (stack.enter_context(running(keys=keys, **options)) for _ in range(2))
        for service in (first, second):
            service.add("ann", "bob")
        yield first, second


def shared(service: Running) -> SharedLimits:
    found = service.service.shared_limits
    assert found is not None
    return found


def ask(service: Running, person: str) -> int:
    answer = service.call("POST", "/v1/nearby", json={**HERE, "k": 1, "asker": person})
    return answer.status_code


def test_a_limit_holds_for_both_together(both: tuple[Running, Running], redis_server: RedisServer) -> None:
    first, second = both
    assert [ask(first, "ann") for _ in range(21)] == [200] * 20 + [429]
    until(lambda: second.service.limits._full_elsewhere_in_s(("person", "ann")) > 0)  # type: ignore[misc]
    refused = second.call("POST", "/v1/nearby", json={**HERE, "k": 1, "asker": "ann"})
    assert refused.status_code == 429
    assert refused.json()["type"].endswith("too-many-requests")
    assert int(refused.headers["Retry-After"]) > 1000
    assert ask(second, "bob") == 200
    assert_names_nobody(redis_server)


def test_half_here_and_half_there_is_all(both: tuple[Running, Running], redis_server: RedisServer) -> None:
    first, second = both
    assert [ask(first, "ann") for _ in range(12)] == [200] * 12
    until(lambda: redis_server.spent(REFILL_S) == 12)
    assert ask(second, "ann") == 200
    until(lambda: spent_here(second, "ann") == 13)
    assert [ask(second, "ann") for _ in range(8)] == [200] * 7 + [429]


def spent_here(service: Running, person: str) -> int:
    limits = service.service.limits
    return round((limits._people.full_at[person] - limits._clock()) / REFILL_S)


def assert_names_nobody(server: RedisServer) -> None:
    """All keys are hashes or the list of them, all expire, and all values are times or hashes."""
    with server.client() as client:
        keys = list(client.scan_iter())
        assert len(keys) >= 2
        for key in keys:
            assert 0 < client.ttl(key) <= 30_000_000
            if key == "nearveil:recent":
                assert set(client.zrange(key, 0, -1)) <= set(keys)
            else:
                prefix, digest = key.split(":")
                assert (prefix, len(bytes.fromhex(digest))) == ("nearveil", 16)
                assert client.get(key).isdigit()


@pytest.mark.evidence
def test_redis_is_killed_and_started_again(both: tuple[Running, Running], redis_server: RedisServer) -> None:
    first, second = both
    until(lambda: not shared(first).is_away and shared(first)._since > 0)
    redis_server.kill()
    assert [ask(first, "ann") for _ in range(21)] == [200] * 20 + [429]
    until(lambda: shared(first).is_away and shared(second).is_away)
    # Alone, each service has its own limits.
    assert [ask(second, "ann") for _ in range(21)] == [200] * 20 + [429]
    redis_server.start()
    until(lambda: not (shared(first).is_away or shared(second).is_away))
    assert [ask(first, "bob") for _ in range(20)] == [200] * 20
    until(lambda: ask(second, "bob") == 429)


def test_the_script_counts_as_the_made_up_state_does(redis_server: RedisServer) -> None:
    """Buckets far from full or empty, so that the time that passes in between does not matter."""
    clock = Clock(1000.0)
    here, there = MadeUpState(clock), RedisState(redis_server.address)
    spent = [
        [Spent(1000.0, 30.0, [("a", 1.0), ("b", 29.5)]), Spent(50.0, 1000.0, [("c", 2500.0)])],
        [Spent(1000.0, 30.0, [("b", 3.0), ("a", 2.5)])],
        [],
    ]
    since = [0, 0]
    for some in spent:
        expected, found = here.exchange(some, since[0]), there.exchange(some, since[1])
        assert found.full_in_s == pytest.approx(expected.full_in_s, abs=LONG_S)
        assert found.recent == pytest.approx(expected.recent, abs=LONG_S)
        since = [expected.at + 1, found.at + 1]
        clock.pass_time(0.1)
    assert set(there.exchange([], 0).recent) == {"b", "c"}
    there.close()


def test_a_cluster_is_refused_in_one_sentence(tmp_path: Path) -> None:
    # A cluster writes down who belongs to it, in the folder where it is started.
    with running_redis("--cluster-enabled", "yes", "--dir", str(tmp_path)) as server:
        options = {"shared_limits": server.address, "store": str(tmp_path / "people.db"), "region": "berlin"}
        settings = Settings.load(options=options)
        with pytest.raises(UsageError, match="Redis Cluster") as caught:
            Service.open(settings)
        assert str(caught.value).count(".") == 0
    assert not (tmp_path / "people.db").exists()


def test_a_redis_that_is_away_or_of_one_server_is_not_refused(redis_server: RedisServer) -> None:
    with closing(RedisState(redis_server.address)) as state:
        state.refuse_cluster()
        redis_server.kill()
        state.refuse_cluster()


@pytest.mark.evidence
def test_thousands_of_callers_at_once(redis_server: RedisServer) -> None:
    state = RedisState(redis_server.address)
    some = [(f"person-{number}", 1.0 + number % 2) for number in range(2500)]
    answer = state.exchange([Spent(1000.0, 30.0, some)], 0)
    assert answer.full_in_s == pytest.approx([1000.0 * cost for _, cost in some], abs=LONG_S)
    state.close()
