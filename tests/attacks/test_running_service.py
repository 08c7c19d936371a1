"""A running Nearveil service of one's own: attacked over HTTP by ordinary accounts, of which none is left behind."""

import statistics
from typing import Any

import httpx
import pytest
from tests.client.stub_service import KEY, StubService, answer, populated, problem

from nearveil.attacks.adapter import AdapterResult
from nearveil.attacks.base import Outcome
from nearveil.attacks.oracle import OracleError
from nearveil.attacks.running_service import attack_service
from nearveil.client.calls import ServiceError
from nearveil.errors import UsageError

WAITS: list[float] = []


@pytest.fixture
def service() -> StubService:
    WAITS.clear()
    return populated()


def attack(service: StubService, key: str = KEY, **options: Any) -> list[AdapterResult]:
    options = {"method": "gi-lia", "targets": 2, "seed": 3, **options}
    return attack_service(service.client(key), service.region, pause=WAITS.append, **options)


def is_attackers(request: httpx.Request) -> bool:
    return request.url.path == "/v1/nearby" and not request.headers["Authorization"].endswith(KEY)


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(("method", "accounts"), [("gi-lia", 1), ("adaptive", 3), ("unfolding", 0)])
def test_test_users_are_found_where_nothing_protects_them(
    service: StubService, at_once: bool, method: str, accounts: int
) -> None:
    service.at_once = at_once
    results = attack(service, method=method, accounts=accounts)
    assert [each.error_m is not None and each.error_m < 100 for each in results] == [True, True]
    assert len(service.people) == len(service.published) == 600
    # Where a service publishes later, its test hook does so before the next query.
    assert (service.epoch == 100) is at_once
    reports = [each.url.path for each in service.requests if each.url.path.endswith("/location")]
    assert len(reports) == len(set(reports)), "each move is a new user"
    assert sum(map(is_attackers, service.requests)) == sum(each.result.queries for each in results)


def test_the_error_is_to_the_true_location(service: StubService) -> None:
    """Test users are published 800 m to the west: the attack finds that, and is 800 m off."""
    honest = service.handle

    def moved(request: httpx.Request) -> httpx.Response:
        said = honest(request)
        if request.method == "PUT" and request.url.path.endswith(("-0/location", "-1/location")):
            user = request.url.path.split("/")[3]
            service.published[user] = (service.published[user][0] - 800.0, service.published[user][1])
        return said

    service.handle = moved  # type: ignore[method-assign]
    assert statistics.median(each.error_m or 0.0 for each in attack(service)) == pytest.approx(800.0, abs=30.0)


@pytest.mark.parametrize(("retry_after", "outcome"), [("1", Outcome.FOUND), ("60", Outcome.OUT_OF_QUERIES)])
def test_short_waits_are_waited_and_long_ones_end_the_attack(
    service: StubService, retry_after: str, outcome: Outcome
) -> None:
    def refuse(request: httpx.Request) -> httpx.Response | None:
        is_refused = is_attackers(request) and sum(map(is_attackers, service.requests)) % 5 == 0
        return problem(429, "too-many-requests", **{"Retry-After": retry_after}) if is_refused else None

    service.refuse = refuse
    assert {each.result.outcome for each in attack(service)} == {outcome}
    assert set(WAITS) == ({1.0} if outcome is Outcome.FOUND else set())
    assert len(service.people) == 600


def test_a_service_that_dies_meanwhile_names_what_is_left(service: StubService) -> None:
    def refuse(request: httpx.Request) -> None:
        if len(service.requests) > 60:
            raise httpx.ConnectError("gone", request=request)

    service.refuse = refuse
    with pytest.raises(OracleError, match=r"could not be removed; remove the users whose ids begin with nearveil-"):
        attack(service)


def test_what_cannot_be_attacked_is_one_sentence(service: StubService) -> None:
    with pytest.raises(ServiceError, match=r"refused \(401"):
        attack(service, "nvk_other")
    with pytest.raises(UsageError, match="k=1 to 100 users, and targets="):
        attack(service, targets=0)
    assert not [each for each in service.requests if each.method != "GET"]
    service.at_once = service.test_hooks = False
    with pytest.raises(OracleError, match="--test-hooks"):
        attack(service)
    service.at_once = True
    service.refuse = lambda each: answer(200, {"ids": ["person-1"]}) if each.url.path == "/v1/nearby" else None
    with pytest.raises(UsageError, match="raise k="):
        attack(service)
    assert len(service.people) == 600
