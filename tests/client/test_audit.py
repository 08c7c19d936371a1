"""An audit: made-up targets, attacks, figures against the truth, and nothing left behind."""

from typing import Any

import httpx
import numpy as np
import pytest

from nearveil.attacks.base import Outcome
from nearveil.client.audit import AttackAudit, Audit, AuditPlan, KnownTarget, ServiceAttempt, audit_table
from nearveil.client.calls import ServiceError
from nearveil.client.http import region_of
from nearveil.client.oracle import NoEpochError, StartSearch
from nearveil.errors import UsageError
from nearveil.region import named_region
from tests.client.stub_service import KEY, StubService, answer, problem


def audit(service: StubService, **options: Any) -> Any:
    plan = AuditPlan(**{"names": ["gi-lia"], "targets": 4, "seed": 3, **options})
    done: list[int] = []
    work = Audit(service.client(), service.region, plan, pause=lambda _: None, clock=lambda: 0.0)
    found = work.run(done.append)
    assert sum(done) <= work.attacks
    return found


@pytest.mark.parametrize("at_once", [True, False])
def test_finds_made_up_people_where_nothing_protects_them(service: StubService, at_once: bool) -> None:
    service.at_once = at_once
    found = audit(service, names=["gi-lia", "adaptive"])
    assert [(row.attack, len(row.attempts)) for row in found.rows] == [("gi-lia", 4), ("adaptive", 4)]
    for row in found.rows:
        assert row.share_found == 1.0
        assert row.median_error_m < 100
        assert row.refused == row.stopped == 0
    assert found.epochs == service.epoch - 100
    assert (found.epochs == 0) is at_once
    # Four targets; for each attack one who asks and one who stands on the map, or where places have to last, one for
    # every move.
    assert found.accounts == 4 + 2 * 4 * 2 if at_once else found.accounts > 4 + 2 * 4 * 2
    assert set(service.people) == {f"person-{number}" for number in range(600)}


def test_the_error_is_to_the_true_place_alone(service: StubService) -> None:
    """Whoever reports is published 800 m to the west: the attack finds that, and the audit counts it as 800 m off."""
    honest = service.handle

    def moved(request: httpx.Request) -> httpx.Response:
        said = honest(request)
        if request.method == "PUT" and "-target-" in request.url.path:
            person = request.url.path.split("/")[3]
            x, y = service.published[person]
            service.published[person] = (x - 800.0, y)
        return said

    service.handle = moved  # type: ignore[method-assign]
    [row] = audit(service).rows
    assert row.found == 0
    assert row.median_error_m == pytest.approx(800.0, abs=30.0)


def test_an_account_of_ones_own(service: StubService) -> None:
    x, y = service.published["person-9"]
    latitude, longitude = service.region.from_metres(np.array([[x, y]]))[0]
    known = KnownTarget("person-9", float(latitude), float(longitude))
    found = audit(service, known_target=known)
    assert (found.targets, found.rows[0].found) == (1, 1)
    assert "person-9" in service.published
    assert str(latitude)[:6] not in repr(known)


def test_sees_the_throttle(service: StubService) -> None:
    asked = 0

    def throttle(request: httpx.Request) -> httpx.Response | None:
        nonlocal asked
        if request.url.path != "/v1/nearby" or request.headers["Authorization"].endswith(KEY):
            return None
        asked += 1
        return problem(429, "too-many-requests", "Too many requests", **{"Retry-After": "60"}) if asked > 5 else None

    service.refuse = throttle
    found = audit(service, targets=2)
    [row] = found.rows
    assert (row.refused, row.stopped, row.first_refusal) == (2, 2, 3.5)
    assert len(service.people) == 600


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_stopped_halfway_nothing_is_left(service: StubService, stop: type[BaseException]) -> None:
    def interrupt(request: httpx.Request) -> httpx.Response | None:
        if request.url.path == "/v1/nearby" and len(service.requests) > 200:
            raise stop
        return None

    service.refuse = interrupt
    with pytest.raises(stop):
        audit(service)
    assert len(service.people) == 600


def test_without_test_hook_and_with_long_epochs(service: StubService) -> None:
    service.at_once = service.test_hooks = False
    with pytest.raises(NoEpochError, match=r"in 83 minutes; audit a copy of it that has test hooks"):
        audit(service)
    assert len(service.people) == 600


def test_refuses_a_key_that_is_not_the_platforms(service: StubService) -> None:
    service.tokens["nvt_ann"] = "ann"
    for key in ("nvk_other", "nvt_ann"):
        work = Audit(service.client(key), service.region, AuditPlan(names=["gi-lia"]))
        with pytest.raises(UsageError, match="does not accept this"):
            work.run(lambda _: None)
    assert len(service.people) == 600


def test_a_target_that_nobody_can_see(service: StubService) -> None:
    """A crowd around everywhere the target could be listed from."""
    service.refuse = lambda one: answer(200, {"ids": ["person-1"]}) if one.url.path == "/v1/nearby" else None
    with pytest.raises(UsageError, match="raise k="):
        audit(service)
    assert len(service.people) == 600


def test_table_and_document_agree(service: StubService) -> None:
    found = audit(service, targets=2)
    row = found.document()["attacks"][0]
    cells = audit_table(found).splitlines()[1].split()
    assert cells[:4] == ["gi-lia", "1", "2", "1.000"]
    assert (row["attacked"], row["found"], row["acc"]) == (2, 2, 1.0)


def test_figures_by_hand() -> None:
    def attempt(error_m: float, first: int | None) -> ServiceAttempt:
        return ServiceAttempt(error_m, 50.0, 10, 0.1, Outcome.FOUND, 0 if first is None else 2, 1.0, first, first == 9)

    row = AttackAudit("x", 1, 100.0, (attempt(10.0, None), attempt(100.0, 7), attempt(250.0, 9)))
    assert (row.found, row.median_error_m, row.mean_error_m) == (2, 100.0, 120.0)
    assert (row.refused, row.stopped, row.first_refusal, row.starts_within) == (2, 1, 8.0, 1.0)
    # Clopper and Pearson for 2 of 3.
    assert row.share_interval == pytest.approx((0.0943, 0.9916), abs=1e-4)


def test_starts_are_where_the_target_is_last_in_the_list(service: StubService) -> None:
    client, region = service.client(), service.region

    def listing(spot: tuple[float, float], k: int) -> list[str]:
        latitude, longitude = region.from_metres(np.array([spot]))[0]
        return client.nearby(float(latitude), float(longitude), k=k)

    search = StartSearch(listing, k=10, half_extent_m=region.half_extent_m, rng=np.random.default_rng(1))
    inner = [one for one, (x, y) in service.published.items() if max(abs(x), abs(y)) < 1500][:20]
    ranks = []
    for target in inner:
        # The truth is not where the service has it, as under protection.
        x, y = service.published[target]
        start = search.start_for(target, (x + 400.0, y + 300.0))
        assert start is not None
        ranks.append(listing(start, 10).index(target) + 1)
    assert np.mean(ranks) > 8.5


def test_the_services_own_region(service: StubService) -> None:
    client = service.client()
    with pytest.raises(UsageError, match="does not say which region"):
        region_of(client, None)
    assert region_of(client, "san-francisco").same_edges(named_region("san-francisco"))
    edges = {"south": 48.8, "west": 2.2, "north": 48.9, "east": 2.4}
    service.refuse = lambda _: answer(200, {"text": "", "region": edges})
    assert region_of(client, None).east == 2.4
    assert region_of(client, "1,2,3,4").east == 4.0


@pytest.mark.parametrize("options", [{"k": 0}, {"k": 101}, {"targets": 0}, {"targets": 10**6}])
def test_impossible_plans(options: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        AuditPlan(names=["gi-lia"], **options)  # type: ignore[arg-type]


def test_a_service_that_dies_meanwhile_names_what_is_left(service: StubService) -> None:
    def die(request: httpx.Request) -> httpx.Response | None:
        if len(service.requests) > 100:
            raise httpx.ConnectError("gone", request=request)
        return None

    service.refuse = die
    with pytest.raises(ServiceError, match=r"could not be removed; remove the people whose ids begin with nearveil-"):
        audit(service)
