"""A platform key does what its scopes allow, on every route, and nothing else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from nearveil.errors import UsageError
from nearveil.server.app import create_api
from nearveil.server.auth import new_platform_key
from nearveil.server.guard import HEALTH_PATH
from nearveil.server.openapi import PERSON, PLATFORM
from nearveil.server.scopes import ABOUT, ALL_SCOPES, ROUTES, Scope, parse_scopes
from tests.server.running import HERE, Running, running

OPEN = {("GET", HEALTH_PATH), ("GET", "/"), ("GET", "/console/{name}")}
BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/v1/nearby"): HERE,
    ("PUT", "/v1/people/{id}/location"): HERE,
    ("POST", "/v1/locations"): {"reports": [{"id": "ann", **HERE}]},
    ("POST", "/v1/people"): {"ids": ["ann"]},
    ("PUT", "/v1/people/{id}/tags"): {"tags": []},
    ("PUT", "/v1/people/{id}/blocked"): {"ids": []},
    ("POST", "/v1/people/{id}/tokens"): {},
    ("POST", "/v1/platform-keys/{name}"): {"scopes": ["admin"]},
    ("PUT", "/v1/intervals"): {},
    ("POST", "/v1/console/demonstration"): {"nonsense": 1},
}


@pytest.fixture(scope="module")
def here() -> Iterator[Running]:
    with running(console=True, test_hooks=True, questions_per_minute=0) as service:
        yield service


def key_with(here: Running, *scopes: Scope) -> str:
    secret, kept = new_platform_key("narrow", frozenset(scopes))
    here.service.store.add_key(kept)
    here.service.access.reread()
    return secret


def answer_of(here: Running, route: tuple[str, str], key: str) -> Any:
    method, path = route
    here.service.store.add_people(["ann"])
    body = {"json": BODIES[route]} if route in BODIES else {}
    return here.call(method, in_path(path, "ann", "shop"), key=key, **body)


def in_path(path: str, person: str, name: str) -> str:
    """A route's path with what clients choose in it."""
    return path.replace("{id}", person).replace("{other}", "bob").replace("{name}", name)


def test_every_route_has_a_rule_and_every_rule_a_route(here: Running) -> None:
    api = create_api(here.service)
    found = {(method, route.path) for route in _routes(api.routes) for method in route.methods}
    assert found - OPEN == set(ROUTES)


def _routes(routes: Any) -> Iterator[Any]:
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
        elif hasattr(route, "original_router"):
            yield from _routes(route.original_router.routes)


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
def test_all_scopes_but_one_that_is_needed_are_not_enough(here: Running, route: tuple[str, str]) -> None:
    for scope in ROUTES[route].scopes:
        here.service.store.erase("ann")
        here.service.store.remove_key("narrow")
        before = here.state()
        key = key_with(here, *(ALL_SCOPES - {scope}))
        answer = answer_of(here, route, key)
        assert answer.status_code == 403
        assert answer.json()["type"] == "urn:nearveil:problem:missing-scope"
        assert f"the scope '{scope}'" in answer.json()["detail"]
        here.service.store.erase("ann")
        here.service.store.remove_key("narrow")
        assert here.state() == before


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
def test_the_scopes_that_are_needed_are_enough(here: Running, route: tuple[str, str]) -> None:
    # A key has at least one scope, whatever the route.
    key = key_with(here, *(ROUTES[route].scopes or (Scope.REPORT,)))
    answer = answer_of(here, route, key)
    # Whatever else is wrong with what is sent: the caller is not.
    assert answer.status_code not in (401, 403), answer.text


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
def test_a_person_s_token_keeps_its_rights(here: Running, route: tuple[str, str]) -> None:
    here.service.store.add_people(["ann", "bob"])
    for person in ("bob", "ann"):
        answer = answer_of(here, route, here.token(person))
        allowed = {"own": person == "ann", "any": True, None: False}[ROUTES[route].person]
        assert (answer.status_code == 403) == (not allowed), (person, answer.text)
        if not allowed:
            assert answer.json()["type"] == "urn:nearveil:problem:forbidden"


def test_a_key_that_reports_is_no_oracle(here: Running) -> None:
    """Neither by asking itself, nor by a token, an export, the map, or a key that it makes."""
    key = key_with(here, Scope.REPORT)
    here.service.store.add_people(["ann"])
    assert here.report("ann", key=key).status_code == 202
    for method, path, body in (
        ("POST", "/v1/nearby", HERE),
        ("POST", "/v1/nearby", {**HERE, "asker": "ann"}),
        ("POST", "/v1/people/ann/tokens", {}),
        ("GET", "/v1/people/ann", None),
        ("GET", "/v1/console/map", None),
        ("GET", "/v1/cells", None),
        ("POST", "/v1/platform-keys/other", {"scopes": ["ask"]}),
    ):
        assert here.call(method, path, key=key, json=body).status_code == 403, path


def test_no_key_signs_a_token_that_may_do_more(here: Running) -> None:
    """A token may ask and report."""
    here.service.store.add_people(["ann"])
    for scopes in ({Scope.PEOPLE, Scope.REPORT}, {Scope.PEOPLE, Scope.ASK}, {Scope.ASK, Scope.REPORT}):
        answer = here.call("POST", "/v1/people/ann/tokens", key=key_with(here, *scopes), json={})
        assert answer.status_code == 403
    key = key_with(here, Scope.PEOPLE, Scope.ASK, Scope.REPORT)
    assert here.call("POST", "/v1/people/ann/tokens", key=key, json={}).status_code == 201


def test_no_key_makes_one_that_may_do_more(here: Running) -> None:
    key = key_with(here, Scope.ADMIN, Scope.METRICS)
    state = here.state()
    answer = here.call("POST", "/v1/platform-keys/broad", key=key, json={"scopes": ["metrics", "ask"]})
    assert (answer.status_code, "'ask'" in answer.json()["detail"]) == (403, True)
    assert here.state() == state
    made = here.call("POST", "/v1/platform-keys/made", key=key, json={"scopes": ["metrics", "metrics"]})
    assert (made.status_code, made.json()["scopes"]) == (201, ["metrics"])
    assert here.call("GET", "/v1/ledger", key=made.json()["key"]).status_code == 200
    assert here.call("GET", "/v1/platform-keys", key=made.json()["key"]).status_code == 403


@pytest.mark.parametrize("body", [None, {}, {"scopes": []}, {"scopes": ["all"]}, {"scopes": "ask"}, {"scopes": [1]}])
def test_a_new_key_says_what_it_may_do(here: Running, body: Any) -> None:
    answer = here.call("POST", "/v1/platform-keys/vague", json=body)
    assert answer.status_code in (400, 422)
    assert "vague" not in here.state()[3]


def test_the_last_key_that_can_make_keys_stays(here: Running) -> None:
    key_with(here, *(ALL_SCOPES - {Scope.ADMIN}))
    answer = here.call("DELETE", "/v1/platform-keys/tests")
    assert (answer.status_code, "last key with the scope admin" in answer.json()["detail"]) == (409, True)
    assert here.call("DELETE", "/v1/platform-keys/narrow").status_code == 204


def test_the_description_names_the_scopes(here: Running) -> None:
    paths = here.call("GET", "/openapi.json").json()["paths"]
    described = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert {route for route in ROUTES if "console" not in route[1]} - described == {("GET", "/openapi.json")}
    for method, path in described - OPEN:
        rule, security = ROUTES[method, path], paths[path][method.lower()]["security"]
        assert security[0] == {PLATFORM: list(rule.scopes)}
        assert ({PERSON: []} in security) == (rule.person is not None)
        assert ("403" in paths[path][method.lower()]["responses"]) == (bool(rule.scopes) or rule.person == "own")


def as_markdown() -> str:
    """Return the table of scopes in the documentation."""
    rows = ["| scope | a key with it may | routes |", "|---|---|---|"]
    for scope in Scope:
        routes = [f"`{method} {path}`" for (method, path), rule in ROUTES.items() if scope in rule.scopes]
        rows.append(f"| `{scope}` | {ABOUT[scope]} | {', '.join(routes)} |")
    return "\n".join(rows) + "\n"


def test_the_documentation_has_the_table_of_scopes() -> None:
    page = Path(__file__).parents[2] / "docs" / "guides" / "keys-and-tokens.md"
    assert as_markdown() in page.read_text(encoding="utf-8")


def test_scopes_as_people_write_them() -> None:
    assert parse_scopes("all") == ALL_SCOPES == set(ABOUT)
    assert parse_scopes(" Ask,report ") == {Scope.ASK, Scope.REPORT}
    with pytest.raises(UsageError, match="'all', or some of ask, report"):
        parse_scopes("write")
