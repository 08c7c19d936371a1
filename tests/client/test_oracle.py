"""The oracle over HTTP: an attack cannot tell it from the simulator's."""

import json
from typing import Any

import httpx
import pytest

from nearveil.attacks.base import Outcome
from nearveil.attacks.gi_lia import GILIA
from nearveil.client.calls import ServiceError
from nearveil.client.oracle import Attacker, Epochs, MadeUpAccounts, NoEpochError, Patience, degrees_of
from nearveil.region import Region
from tests.client.stub_service import KEY, StubService, gap_m, problem

WAITS: list[float] = []


@pytest.fixture(autouse=True)
def no_waits() -> None:
    WAITS.clear()


def attacker_at(service: StubService, **options: Any) -> tuple[MadeUpAccounts, Attacker]:
    client = service.client()
    accounts = MadeUpAccounts(client, pause=WAITS.append)
    options = {"k": 10, "accounts": 1, **options}
    borders = options.pop("borders", None) or Epochs(client, pause=WAITS.append, clock=lambda: 4995.0)
    return accounts, Attacker(accounts, service.region, borders, pause=WAITS.append, **options)


def test_an_attack_finds_somebody(service: StubService) -> None:
    accounts, attacker = attacker_at(service)
    target = "person-5"
    x, y = service.published[target]
    result = GILIA(farthest_m=8000).infer(attacker.oracle(), target, (x + 60.0, y - 40.0))
    assert result.outcome is Outcome.FOUND
    assert result.estimate is not None
    assert gap_m(result.estimate, (x, y)) < 2.0
    assert attacker.throttle.refusals == 0
    attacker.leave()
    assert len(accounts) == 0
    assert len(service.people) == 600


def test_who_asks_is_not_on_the_map_and_asks_with_a_token(service: StubService) -> None:
    accounts, attacker = attacker_at(service)
    oracle = attacker.oracle()
    oracle.put("account-0", (0.0, 0.0))
    assert oracle.nearby((0.0, 0.0))[0] == "account-0"
    on_the_map = {person for person in service.published if person.startswith(accounts.prefix)}
    [asker] = service.askers()
    assert (len(on_the_map), asker in on_the_map) == (1, False)
    moves = [one for one in service.requests if one.url.path.endswith("/location")]
    assert all(one.headers["Authorization"] != f"Bearer {KEY}" for one in moves)
    oracle.put("account-0", None)
    assert "account-0" not in oracle.nearby((0.0, 0.0))
    assert not any(person.startswith(accounts.prefix) for person in service.published)


def test_moves_are_published_together_before_the_next_question(service: StubService) -> None:
    service.at_once = False
    _, attacker = attacker_at(service, accounts=3)
    oracle = attacker.oracle()
    for number, account in enumerate(oracle.accounts):
        oracle.put(account, (10.0 * number, 0.0))
    assert service.epoch == 100
    assert oracle.nearby((0.0, 0.0))[:3] == ["account-0", "account-1", "account-2"]
    assert service.epoch == 101
    oracle.nearby((0.0, 0.0))
    assert service.epoch == 101


def test_where_places_have_to_last_every_move_is_a_new_account_unnoticed(service: StubService) -> None:
    service.at_once = False
    accounts, attacker = attacker_at(service)
    oracle = attacker.oracle()
    for number in range(5):
        oracle.put("account-0", (100.0 * number, 0.0))
        assert oracle.nearby((100.0 * number, 0.0))[0] == "account-0"
        assert sum(person.startswith(accounts.prefix) for person in service.published) == 1
    assert sum("-account-" in person for person in service.people) == 1
    # Off the map and back is a move too.
    oracle.put("account-0", None)
    assert "account-0" not in oracle.nearby((0.0, 0.0))
    oracle.put("account-0", (0.0, 50.0))
    assert oracle.nearby((0.0, 50.0))[0] == "account-0"


def test_without_protection_one_account_makes_all_moves(service: StubService) -> None:
    _, attacker = attacker_at(service)
    oracle = attacker.oracle()
    for number in range(5):
        oracle.put("account-0", (100.0 * number, 0.0))
        assert oracle.nearby((100.0 * number, 0.0))[0] == "account-0"
    made = [one for one in service.requests if one.url.path == "/v1/people"]
    assert len(made) == 2
    # Any receipt, and then that of the report before, which the stub calls r.
    sent = [json.loads(one.content)["previous"] for one in service.requests if one.url.path.endswith("/location")]
    assert (len(sent[0]), sent[1:]) == (24, ["r"] * 4)


def test_a_border_that_comes_soon_is_waited_for(service: StubService) -> None:
    service.at_once = service.test_hooks = False
    client = service.client()

    def pause(wait_s: float) -> None:
        WAITS.append(wait_s)
        service.border()

    borders = Epochs(client, pause=pause, clock=lambda: 4995.0)
    _, attacker = attacker_at(service, borders=borders)
    oracle = attacker.oracle()
    oracle.put("account-0", (0.0, 0.0))
    assert oracle.nearby((0.0, 0.0))[0] == "account-0"
    assert WAITS == [6.0]
    assert borders.advanced == 0


@pytest.mark.parametrize(("now_s", "says"), [(4000.0, "in 17 minutes"), (4950.0, "in time")])
def test_a_border_that_does_not_is_an_error(service: StubService, now_s: float, says: str) -> None:
    service.at_once = service.test_hooks = False
    borders = Epochs(service.client(), pause=WAITS.append, clock=lambda: now_s)
    _, attacker = attacker_at(service, borders=borders)
    oracle = attacker.oracle()
    oracle.put("account-0", (0.0, 0.0))
    with pytest.raises(NoEpochError, match=rf"{says}.*--test-hooks"):
        oracle.nearby((0.0, 0.0))
    assert WAITS == []


class Limit:
    """Refuses the questions of every token from some number on, so many times."""

    def __init__(self, after: int, times: int, retry_after: str = "1") -> None:
        self.after, self.times, self.retry_after, self.asked = after, times, retry_after, 0

    def __call__(self, request: httpx.Request) -> httpx.Response | None:
        if request.url.path != "/v1/nearby" or request.headers["Authorization"].endswith(KEY):
            return None
        self.asked += 1
        if self.after < self.asked <= self.after + self.times:
            return problem(429, "too-many-requests", "Too many", **{"Retry-After": self.retry_after})
        return None


def test_short_waits_are_waited_and_counted(service: StubService) -> None:
    service.refuse = Limit(after=3, times=2)
    _, attacker = attacker_at(service)
    oracle = attacker.oracle()
    for _ in range(5):
        assert len(oracle.nearby((0.0, 0.0))) == 10
    throttle = attacker.throttle
    assert (throttle.refusals, throttle.waited_s, throttle.first_at, throttle.stopped) == (2, 2.0, 4, False)
    assert WAITS == [1.0, 1.0]


@pytest.mark.parametrize("retry_after", ["60", "soon", "-3", "nan"])
def test_long_waits_end_the_attack(service: StubService, retry_after: str) -> None:
    service.refuse = Limit(after=3, times=99, retry_after=retry_after)
    _, attacker = attacker_at(service)
    result = GILIA(farthest_m=8000).infer(attacker.oracle(), "person-5", service.published["person-5"])
    assert result.outcome is Outcome.OUT_OF_QUERIES
    assert (attacker.throttle.stopped, attacker.throttle.first_at, WAITS) == (True, 4, [])


def test_waits_have_an_end_in_all(service: StubService) -> None:
    service.refuse = Limit(after=0, times=10**9, retry_after="0")
    _, attacker = attacker_at(service, patience=Patience(longest_wait_s=1.0, most_waiting_s=2.0))
    result = GILIA().infer(attacker.oracle(), "person-5", (0.0, 0.0))
    assert result.outcome is Outcome.OUT_OF_QUERIES
    assert attacker.throttle.waited_s == pytest.approx(2.0)


def test_an_account_that_may_not_leave_the_map_is_given_up(service: StubService) -> None:
    def refuse(request: httpx.Request) -> httpx.Response | None:
        leaves = request.method == "DELETE" and request.url.path.endswith("/location")
        return problem(429, "too-many-requests") if leaves else None

    service.refuse = refuse
    accounts, attacker = attacker_at(service)
    oracle = attacker.oracle()
    oracle.put("account-0", (0.0, 0.0))
    oracle.put("account-0", None)
    assert not any(person.startswith(accounts.prefix) for person in service.published)
    oracle.put("account-0", (0.0, 0.0))
    assert oracle.nearby((0.0, 0.0))[0] == "account-0"


def test_a_token_that_has_run_out_is_renewed(service: StubService) -> None:
    _, attacker = attacker_at(service)
    oracle = attacker.oracle()
    service.tokens.clear()
    service.tokens["nvt_used"] = "somebody"
    assert len(oracle.nearby((0.0, 0.0))) == 10


def test_any_other_refusal_is_an_error(service: StubService) -> None:
    _, attacker = attacker_at(service)
    service.refuse = lambda _: problem(500, "internal", "Broken")
    with pytest.raises(ServiceError, match="500"):
        attacker.oracle().nearby((0.0, 0.0))


def test_places_stay_in_the_region(town: Region) -> None:
    for spot in ((0.0, 0.0), (9e4, 0.0), (-9e4, 9e4), (1234.5, -2000.0)):
        assert town.contains([degrees_of(town, spot)])[0]
    assert gap_m(tuple(town.to_metres([degrees_of(town, (1234.5, -2000.0))])[0]), (1234.5, -2000.0)) < 0.01


def test_accounts_are_removed_although_some_cannot_be(service: StubService) -> None:
    client = service.client()
    with (
        pytest.raises(ServiceError, match="1 accounts of this audit could not be removed"),
        MadeUpAccounts(client) as made,
    ):
        first, *_ = made.create("target", 5)
        service.refuse = lambda one: problem(500, "internal") if one.url.path.endswith(first) else None
    assert [person for person in service.people if person.startswith(made.prefix)] == [first]


def test_accounts_go_after_an_error_too(service: StubService) -> None:
    class StoppedError(BaseException):
        pass

    def work() -> None:
        with MadeUpAccounts(service.client()) as made:
            made.create("target", 5)
            raise StoppedError

    with pytest.raises(StoppedError):
        work()
    assert len(service.people) == 600
