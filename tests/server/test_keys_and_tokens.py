"""Tokens end with the person and with a revocation; platform keys come and go while the service runs."""

from collections.abc import Iterator
from typing import Any

import pytest

from nearveil.nearby.stores.base import StoreError
from nearveil.nearby.stores.sqlite import SqliteStore
from tests.nearby.stores.kept import everything_kept
from tests.server.running import HERE, Running, running

AWAY = {"latitude": 37.612345, "longitude": -122.512345}


def held(service: Running) -> dict[str, Any]:
    """What whoever has the store sees of ann."""
    record = everything_kept(service.service.store, "ann")
    assert record is not None
    return record


@pytest.fixture
def here() -> Iterator[Running]:
    with running() as service:
        service.add("ann", "bob")
        yield service


class TestTokens:
    def test_a_token_does_not_fit_whoever_has_the_id_after(self, here: Running) -> None:
        token = here.token("ann")
        assert here.report("ann", key=token).status_code == 202
        assert here.call("DELETE", "/v1/people/ann").status_code == 204
        assert here.report("ann", key=token).status_code == 401
        here.add("ann")
        assert here.report("ann", key=token).status_code == 401
        assert here.report("ann", key=here.token("ann")).status_code == 202

    def test_revoked_tokens_are_void_and_others_are_not(self, here: Running) -> None:
        ann, bob = here.token("ann"), here.token("bob")
        assert here.call("DELETE", "/v1/people/ann/tokens", key=bob).status_code == 403
        assert here.report("ann", key=ann).status_code == 202
        assert here.call("DELETE", "/v1/people/ann/tokens", key=ann).status_code == 204
        assert here.report("ann", key=ann).status_code == 401
        assert here.report("bob", key=bob).status_code == 202
        assert here.call("DELETE", "/v1/people/nobody/tokens").status_code == 404


class TestPlatformKeys:
    def test_a_key_is_made_used_and_removed(self, here: Running) -> None:
        made = here.call("POST", "/v1/platform-keys/shop", json={"scopes": ["report", "admin"]})
        assert made.status_code == 201
        secret = made.json()["key"]
        assert made.json()["scopes"] == ["admin", "report"]
        assert here.call("GET", "/v1/platform-keys", key=secret).json() == {
            "keys": [
                {"name": "shop", "scopes": ["admin", "report"]},
                {"name": "tests", "scopes": ["admin", "ask", "metrics", "people", "report"]},
            ]
        }
        assert here.call("DELETE", "/v1/platform-keys/shop").status_code == 204
        assert here.call("GET", "/v1/platform-keys", key=secret).status_code == 401
        assert here.call("DELETE", "/v1/platform-keys/shop").status_code == 404

    def test_no_key_is_replaced_and_the_last_one_stays(self, here: Running) -> None:
        state = here.state()
        for method, problem in (("POST", "name"), ("DELETE", "last")):
            answer = here.call(method, "/v1/platform-keys/tests", json={"scopes": ["ask"]})
            assert (answer.status_code, problem in answer.json()["detail"]) == (409, True)
        assert here.call("GET", "/v1/ledger").status_code == 200
        assert here.state() == state

    @pytest.mark.parametrize("name", ["a%20b", "a" * 65, "%C3%A4", "...", "%2E", "%2e%2e"])
    def test_a_name_is_a_name(self, here: Running, name: str) -> None:
        state = here.state()
        for method in ("POST", "DELETE"):
            answer = here.call(method, f"/v1/platform-keys/{name}", json={"scopes": ["ask"]})
            assert answer.status_code == 422
        assert here.state() == state


class TestOnBehalf:
    def test_a_platform_asks_for_somebody_who_exists(self, here: Running) -> None:
        asked = {**HERE, "asker": "nobody"}
        answer = here.call("POST", "/v1/nearby", json=asked)
        assert (answer.status_code, answer.json()["detail"]) == (422, "asker: there is no person with this id.")
        assert here.nearby(extra={"asker": "ann"}) == []

    def test_reports_through_a_platform_count_as_the_person_s(self) -> None:
        with running(questions_per_minute=60.0, question_burst=3.0) as service:
            service.add("ann", "bob")
            statuses = [service.report("ann").status_code for _ in range(5)]
            assert statuses == [202, 202, 202, 429, 429]
            assert service.report("bob").status_code == 202


class _Failing(SqliteStore):
    """A store that is out of reach when somebody is looked up."""

    def token_mark(self, person: str) -> int | None:
        raise StoreError("gone")


def test_a_store_out_of_reach_is_no_bug_of_the_service(here: Running) -> None:
    token = here.token("ann")
    here.service.store.__class__ = _Failing
    try:
        answers = [
            here.report("ann", key=token),
            here.call("POST", "/v1/nearby", json=HERE, key=token),
            here.call("POST", "/v1/nearby", json={**HERE, "asker": "ann"}),
            here.call("GET", "/v1/people/ann", key=token),
        ]
    finally:
        here.service.store.__class__ = SqliteStore
    assert [answer.status_code for answer in answers] == [503] * 4
    assert all("Retry-After" in answer.headers for answer in answers)


def test_a_mark_that_is_remembered_from_before_is_asked_for_again(here: Running) -> None:
    """Another process has revoked tokens and made a new one."""
    assert here.report("ann", key=here.token("ann")).status_code == 202
    here.service.store.renew_token_mark("ann")
    mark = here.service.store.token_mark("ann")
    assert mark is not None
    token, _ = here.service.access.issue_token("ann", mark, 60)
    assert here.report("ann", key=token).status_code == 202
