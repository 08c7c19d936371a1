"""Whatever is sent, the documented error comes back, nothing changes, and no coordinate is repeated anywhere."""

import asyncio
import io
import json
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from nearveil.client.calls import person_path
from nearveil.errors import DataError, UsageError
from nearveil.nearby.stores.base import StoreError
from nearveil.server.asgi import MOST_BYTES, MOST_BYTES_OF_QUESTION
from nearveil.server.logs import set_up_logs
from nearveil.server.problems import PROBLEM_TYPE
from tests.server.running import HERE, Running, running

LATITUDE, LONGITUDE = (str(value) for value in HERE.values())
NUMBERS = tuple(str(value).lstrip("-") for value in HERE.values())
ASK, REPORT = ("POST", "/v1/nearby"), ("PUT", "/v1/people/ann/location")


@pytest.fixture(scope="module")
def place() -> Iterator[Running]:
    with running() as found:
        found.add("ann", "bob")
        for person in ("ann", "bob"):
            found.report(person)
        found.next_epoch()
        yield found


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    with captured_log() as stream:
        yield stream


@contextmanager
def captured_log(level: str = "debug") -> Iterator[io.StringIO]:
    """All that is logged, as the service logs it."""
    root = logging.getLogger()
    handlers, level_before = list(root.handlers), root.level
    hooks = sys.excepthook, threading.excepthook, sys.unraisablehook
    stream = io.StringIO()
    set_up_logs(level, stream)
    try:
        yield stream
    finally:
        root.handlers[:] = handlers
        root.setLevel(level_before)
        logging.captureWarnings(False)
        sys.excepthook, threading.excepthook, sys.unraisablehook = hooks


def _refused(place: Running, status: int, method: str, path: str, **request: Any) -> Any:
    """Send what must be refused; see that it is, in the documented form, and that nothing changed."""
    before = place.state()
    answer = place.call(method, path, **request)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == PROBLEM_TYPE
    problem = answer.json()
    assert set(problem) == {"type", "title", "status", "detail"}
    assert problem["type"].startswith("urn:nearveil:problem:")
    assert problem["status"] == status
    assert not any(number in answer.text for number in NUMBERS)
    assert place.state() == before
    return problem


# -- bodies ------------------------------------------------------------------------------------------------------------

_DEEP = "[" * 50_000
_PLACE = f'"latitude":{LATITUDE},"longitude":{LONGITUDE}'

MALFORMED = {
    "nothing": "",
    "cut off": f'{{"latitude":{LATITUDE}',
    "no JSON": f"latitude={LATITUDE}&longitude={LONGITUDE}",
    "two documents": f"{{{_PLACE}}}{{{_PLACE}}}",
    "single quotes": f"{{'latitude':{LATITUDE}}}",
    "comment": f"{{{_PLACE}}} // here",
    "trailing comma": f"{{{_PLACE},}}",
    "not UTF-8": b"\xff\xfe{}",
    "with a mark": b"\xef\xbb\xbf{}",
    "half a surrogate": f'{{{_PLACE},"asker":"\\ud800"}}',
}
WRONG = {
    "NaN": f'{{"latitude":NaN,"longitude":{LONGITUDE}}}',
    "infinity": f'{{"latitude":{LATITUDE},"longitude":-Infinity}}',
    "beyond numbers": f'{{"latitude":{LATITUDE},"longitude":1e999}}',
    "many digits": f'{{"latitude":{"9" * 400},"longitude":{LONGITUDE}}}',
    "text for a number": f'{{"latitude":"{LATITUDE}","longitude":{LONGITUDE}}}',
    "true for a number": f'{{"latitude":{LATITUDE},"longitude":true}}',
    "null for a number": f'{{"latitude":{LATITUDE},"longitude":null}}',
    "list for a number": f'{{"latitude":[{LATITUDE}],"longitude":{LONGITUDE}}}',
    "beyond the pole": f'{{"latitude":90.5,"longitude":{LONGITUDE}}}',
    "beyond the date line": f'{{"latitude":{LATITUDE},"longitude":181}}',
    "a field is missing": f'{{"latitude":{LATITUDE}}}',
    "an unknown field": f'{{{_PLACE},"accuracy_m":5}}',
    "a place for a name": f'{{{_PLACE},"{LATITUDE}":{LONGITUDE}}}',
    "a list": f"[{LATITUDE},{LONGITUDE}]",
    "a number": LATITUDE,
    "a text": f'"{LATITUDE}"',
    "null": "null",
    "deep": _DEEP,
    "deep below a field": f'{{{_PLACE},"asker":{_DEEP}',
    "deep enough to be read": f'{{{_PLACE},"x":{"[" * 100}{"]" * 100}}}',
    "outside the region": '{"latitude":52.5,"longitude":13.4}',
}
WRONG_QUESTION = {
    "nobody": f'{{{_PLACE},"k":0}}',
    "too many": f'{{{_PLACE},"k":1001}}',
    "a part of a person": f'{{{_PLACE},"k":1.5}}',
    "k as text": f'{{{_PLACE},"k":"10"}}',
    "within nothing": f'{{{_PLACE},"within_m":0}}',
    "within NaN": f'{{{_PLACE},"within_m":NaN}}',
    "an id that is none": f'{{{_PLACE},"asker":"a b"}}',
    "an id of dots": f'{{{_PLACE},"asker":".."}}',
    "an empty id": f'{{{_PLACE},"asker":""}}',
    "a long id": f'{{{_PLACE},"asker":"{"a" * 129}"}}',
    "an id with a line break": f'{{{_PLACE},"asker":"ann\\n"}}',
}


@pytest.mark.parametrize("route", [ASK, REPORT], ids=lambda route: route[1])
@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_json_is_400(place: Running, route: tuple[str, str], body: str | bytes) -> None:
    _refused(place, 400, *route, content=body)


@pytest.mark.parametrize("route", [ASK, REPORT], ids=lambda route: route[1])
@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG.keys())
def test_wrong_values_are_422(place: Running, route: tuple[str, str], body: str) -> None:
    _refused(place, 422, *route, content=body)


@pytest.mark.parametrize("body", WRONG_QUESTION.values(), ids=WRONG_QUESTION.keys())
def test_wrong_questions_are_422(place: Running, body: str) -> None:
    _refused(place, 422, *ASK, content=body)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/people", '{"ids":["a b"]}'),
        ("/v1/people", '{"ids":[""]}'),
        ("/v1/people", '{"ids":["ann","."]}'),
        ("/v1/people", '{"ids":[".."]}'),
        ("/v1/people/%2e%2e/tokens", "{}"),
        ("/v1/people", '{"ids":[7]}'),
        ("/v1/people", '{"ids":"ann"}'),
        ("/v1/people", json.dumps({"ids": [f"p{number}" for number in range(10_001)]})),
        ("/v1/people/ann/tokens", '{"expires_in_s":0}'),
        ("/v1/people/ann/tokens", '{"expires_in_s":1e9}'),
        ("/v1/people/ann/tokens", '{"expires_in_s":2592001}'),
        ("/v1/people/ann/tokens", '{"expires_in_s":NaN}'),
    ],
)
def test_wrong_wishes_are_422(place: Running, path: str, body: str) -> None:
    _refused(place, 422, "POST", path, content=body)


@pytest.mark.parametrize(
    "body", ["{}", "[]", "null", '{"format":"nearveil-intervals","version":1}', '{"format":NaN}', _DEEP]
)
def test_what_is_no_intervals_file_is_422(place: Running, body: str) -> None:
    _refused(place, 422, "PUT", "/v1/intervals", content=body)
    assert place.call("GET", "/v1/intervals").json()["next_fingerprint"] is None


@pytest.mark.parametrize(
    ("method", "path", "most"),
    [
        (*ASK, MOST_BYTES_OF_QUESTION),
        (*REPORT, MOST_BYTES),
        ("POST", "/v1/people/ann/tokens", MOST_BYTES),
        ("POST", "/v1/people", 1024 * 1024),
        ("PUT", "/v1/intervals", 8 * 1024 * 1024),
    ],
)
@pytest.mark.parametrize("in_pieces", [False, True])
def test_huge_bodies_are_413(place: Running, method: str, path: str, most: int, in_pieces: bool) -> None:
    body = b" " * (most + 1)

    async def pieces() -> Any:
        for first in range(0, len(body), 10_000):
            yield body[first : first + 10_000]

    _refused(place, 413, method, path, content=pieces() if in_pieces else body)
    # One byte less is read, and found to be nothing.
    assert place.call(method, path, content=body[:-1]).status_code == 400


@pytest.mark.parametrize("route", [ASK, ("POST", "/v1/people")], ids=lambda route: route[1])
def test_a_body_without_an_end_is_not_read_to_its_end(place: Running, route: tuple[str, str]) -> None:
    sent = 0

    async def endless() -> Any:
        nonlocal sent
        while sent < 100_000_000:
            sent += 60_000
            yield b" " * 60_000

    _refused(place, 413, *route, content=endless())
    assert sent < 2_000_000


def test_a_body_is_not_awaited_once_its_length_is_too_large(place: Running) -> None:
    _refused(place, 413, *ASK, content=b"{}", headers={"Content-Length": str(10**15)})
    _refused(place, 413, *ASK, content=b"{}", headers={"Content-Length": "-5"})


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "a", ""])
@pytest.mark.parametrize("route", [ASK, REPORT, ("POST", "/v1/people")], ids=lambda route: route[1])
def test_another_content_type_is_415(place: Running, route: tuple[str, str], kind: str) -> None:
    _refused(place, 415, *route, content=json.dumps(HERE), headers={"Content-Type": kind})


# -- paths ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "path"),
    [
        (422, "/v1/people/%2e%2e/location"),
        (422, "/v1/people/%2e/location"),
        (422, "/v1/people/./location"),
        (422, "/v1/people/../location"),
        (422, "/v1/people/.../location"),
        (404, "/v1/people/ann%2flocation/location"),
        (404, "/v1/people/ann/location/"),
        (404, "/v1/people//location"),
        (404, "/v1//people/ann/location"),
        (404, "/V1/people/ann/location"),
        (404, "/v1/people/ann/../../people/ann/location"),
        (404, "/v1/nearby/"),
        (422, "/v1/people/ann%00/location"),
        (422, "/v1/people/ann%0a/location"),
        (422, "/v1/people/%F0%9F%99%82/location"),
        (422, "/v1/people/%ff/location"),
        (422, "/v1/people/ann%25/location"),
        (422, "/v1/people/a%20b/location"),
        (422, "/v1/people/" + "a" * 129 + "/location"),
        (422, "/v1/people/" + "a" * 50_000 + "/location"),
        (422, f"/v1/people/{LATITUDE}%2C{LONGITUDE}/location"),
    ],
)
def test_path_tricks_lead_nowhere(place: Running, status: int, path: str) -> None:
    """Sent as raw bytes of a path, since clients would tidy it up."""
    before = place.state()
    found, body = asyncio.run(_raw(place, "PUT", path))
    assert found == status
    assert json.loads(body)["status"] == status
    assert place.state() == before


@pytest.mark.parametrize("dots", [".", ".."])
def test_a_client_that_tidies_paths_up_reaches_nobody_else(place: Running, dots: str) -> None:
    """Whoever has the id "." would report as the person "location", so nobody can have it."""
    tidied = httpx.URL(f"http://service/v1/people/{dots}/location").path
    assert tidied in ("/v1/people/location", "/v1/location")
    before = place.state()
    assert place.call("POST", "/v1/people", json={"ids": ["eve", dots]}).status_code == 422
    assert place.call("PUT", f"/v1/people/{quote_dots(dots)}").status_code == 422
    with pytest.raises(DataError, match="dots"):
        place.service.store.add_people([dots])
    with pytest.raises(UsageError, match="dots"):
        place.service.access.issue_token(dots, 7, 60)
    with pytest.raises(UsageError, match="dots"):
        person_path(dots, "/location")
    assert place.state() == before
    # Dots beside other characters are no trick.
    assert place.call("PUT", "/v1/people/..ann.").status_code == 201
    assert place.call("DELETE", "/v1/people/..ann.").status_code == 204


def quote_dots(dots: str) -> str:
    return dots.replace(".", "%2E")


async def _raw(place: Running, method: str, path: str) -> tuple[int, bytes]:
    sent: list[Any] = []
    body = json.dumps(HERE).encode()
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"authorization", f"Bearer {place.key}".encode()), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("service", 80),
    }

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await place.app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


@pytest.mark.parametrize("method", ["GET", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "ANYTHING"])
def test_other_methods_are_405_and_say_which_are_there(place: Running, method: str) -> None:
    before = place.state()
    answer = place.call(method, "/v1/nearby")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert place.state() == before


def test_unknown_paths_are_404_with_a_key_and_401_without(place: Running) -> None:
    _refused(place, 404, "GET", "/v1/nothing")
    _refused(place, 401, "GET", "/v1/nothing", key=None)
    _refused(place, 404, "GET", "/nothing", key=None)
    _refused(place, 404, "GET", "/redoc", key=None)


# -- keys -------------------------------------------------------------------------------------------------------------

EVERY_ROUTE = [
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("PUT", "/v1/people/eve"),
    ("POST", "/v1/people"),
    ("GET", "/v1/people/ann"),
    ("DELETE", "/v1/people/ann"),
    ("POST", "/v1/people/ann/tokens"),
    REPORT,
    ("DELETE", "/v1/people/ann/location"),
    ASK,
    ("GET", "/v1/guarantee"),
    ("GET", "/v1/ledger"),
    ("PUT", "/v1/intervals"),
    ("GET", "/v1/intervals"),
    ("POST", "/v1/epoch"),
]


@pytest.mark.parametrize("route", EVERY_ROUTE, ids=" ".join)
def test_nothing_works_without_a_key(place: Running, route: tuple[str, str]) -> None:
    _refused(place, 401, *route, key=None, json=HERE)
    _refused(place, 401, *route, key="nvk_" + "A" * 43, json=HERE)


def _damaged(token: str) -> Iterator[str]:
    yield token[:-1] + ("A" if token[-1] != "A" else "B")
    payload, _, signature = token.partition(".")
    yield payload[:-1] + ("A" if payload[-1] != "A" else "B") + "." + signature
    yield payload + "."
    yield payload
    yield token + "A"
    yield "nvt_" + token
    yield token.upper()
    yield token.replace(".", "\u2024")
    yield "a" * 10_000


def test_forged_tokens_are_401(place: Running) -> None:
    for forged in _damaged(place.token("ann")):
        header = {"Authorization": f"Bearer {forged}".encode()}
        _refused(place, 401, *REPORT, key=None, headers=header, json=HERE)
    for scheme in ("", "Basic ", "Bearer", "Bearer  "):
        _refused(place, 401, *REPORT, key=None, headers={"Authorization": scheme + place.token("ann")}, json=HERE)


def test_expired_tokens_and_tokens_of_another_service_are_401(place: Running) -> None:
    token = place.token("ann", 5)
    place.clock.now += 6
    _refused(place, 401, *REPORT, key=token, json=HERE)
    with running() as other:
        other.add("ann")
        foreign = other.token("ann")
    _refused(place, 401, *REPORT, key=foreign, json=HERE)


def test_a_person_can_do_nothing_with_somebody_elses_id(place: Running) -> None:
    token = place.token("bob")
    for route in [*[route for route in EVERY_ROUTE if "/ann" in route[1]], ("PUT", "/v1/people/eve")]:
        _refused(place, 403, *route, key=token, json=HERE)
    # Nor with an id that nobody has, which would tell whether it is there.
    _refused(place, 403, "PUT", "/v1/people/nobody/location", key=token, json=HERE)
    _refused(place, 403, *ASK, key=token, json={**HERE, "asker": "ann"})


@pytest.mark.parametrize(
    "route",
    [
        ("GET", "/readyz"),
        ("GET", "/metrics"),
        ("POST", "/v1/people"),
        ("POST", "/v1/people/bob/tokens"),
        ("GET", "/v1/ledger"),
        ("PUT", "/v1/intervals"),
        ("POST", "/v1/epoch"),
    ],
    ids=" ".join,
)
def test_what_is_for_platforms_is_not_for_people(place: Running, route: tuple[str, str]) -> None:
    _refused(place, 403, *route, key=place.token("bob"), json=HERE)


def test_a_removed_platform_key_stops_working(place: Running) -> None:
    with running() as other:
        assert other.call("GET", "/v1/ledger").status_code == 200
        other.service.store.remove_key("tests")
        other.clock.now += 10
        assert other.call("GET", "/v1/ledger").status_code == 401


# -- failures ----------------------------------------------------------------------------------------------------------


def _breaks(error: Exception) -> Any:
    def broken(*_: Any, **__: Any) -> Any:
        raise error

    return broken


def test_a_store_that_fails_is_503_and_nothing_is_acknowledged(
    monkeypatch: pytest.MonkeyPatch, logged: io.StringIO
) -> None:
    with running() as place:
        place.add("ann")
        for name in ("writing", "add_people", "erase", "withdraw", "record", "totals"):
            monkeypatch.setattr(place.service.store, name, _breaks(StoreError(f"no disk at {LATITUDE}")))
        calls = [
            REPORT,
            ("PUT", "/v1/people/eve"),
            ("DELETE", "/v1/people/ann"),
            ("DELETE", "/v1/people/ann/location"),
            ("GET", "/v1/people/ann"),
            ("GET", "/v1/ledger"),
        ]
        answers = [place.call(*call, json=HERE) for call in calls]
        assert [answer.status_code for answer in answers] == [503] * len(calls)
        assert all("Retry-After" in answer.headers for answer in answers)
        assert not any(number in answer.text for answer in answers for number in NUMBERS)
    assert logged.getvalue().count("StoreError") >= len(calls)
    assert not any(number in logged.getvalue() for number in NUMBERS)


def test_a_bug_is_500_and_tells_nothing(monkeypatch: pytest.MonkeyPatch, logged: io.StringIO) -> None:
    with running() as place:
        place.add("ann")
        bug = _breaks(RuntimeError(f"at {LATITUDE},{LONGITUDE}"))
        monkeypatch.setattr(place.service.index, "ranked_metres", bug)
        monkeypatch.setattr(place.service.store, "record", bug)
        for route in (ASK, ("GET", "/v1/people/ann")):
            answer = place.call(*route, json=HERE)
            assert (answer.status_code, answer.json()["type"]) == (500, "urn:nearveil:problem:internal")
            assert not any(number in answer.text for number in NUMBERS)
    assert logged.getvalue().count("RuntimeError") == 2
    assert not any(number in logged.getvalue() for number in NUMBERS)


def test_no_line_and_no_metric_holds_a_place_or_a_path(logged: io.StringIO) -> None:
    with running(access_log=True) as place:
        place.add("ann")
        token = place.token("ann", 7200)
        place.report("ann", key=token)
        place.next_epoch()
        place.nearby(key=token)
        for body in (*WRONG.values(), *MALFORMED.values()):
            place.call(*REPORT, content=body)
            place.call(*ASK, content=body)
        place.call("GET", f"/{LATITUDE},{LONGITUDE}?q={LATITUDE}")
        place.call("GET", f"/v1/people/{LATITUDE}")
        metrics = place.call("GET", "/metrics").text
        card = place.call("GET", "/v1/guarantee").text
        held = place.call("GET", "/v1/people/ann").text
    text = logged.getvalue()
    assert text.count('"route": "/v1/people/{id}/location"') > 10
    assert text.count('"route": "/v1/nearby"') > 10
    for found in (text, metrics, card, held):
        assert not any(number in found for number in NUMBERS)
    assert "ann" not in text.replace("nearveil", "")
