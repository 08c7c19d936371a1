"""The fast lane answers what the usual way answers, byte for byte, however a request arrives."""

import json
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.services.running import RunningService
from tests.waiting import PATIENCE_S

PLACE = {"latitude": 37.774937, "longitude": -122.419418}
QUESTION = json.dumps({**PLACE, "k": 3}).encode()
PEOPLE = [f"person-{number}" for number in range(6)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service with some people on its map."""
    options = (
        "--noise", "1m", "--test-hooks", "--questions-per-minute", "0",
    )  # fmt: skip
    running = RunningService(tmp_path_factory.mktemp("service"), options, env={"NEARVEIL_CHAINED_REPORTS": "if-sent"})
    running.start()
    try:
        with connection(running) as line:
            ask(line, running, b"POST", b"/v1/people", json.dumps({"ids": PEOPLE}).encode())
            for number, person in enumerate(PEOPLE):
                place = {"latitude": PLACE["latitude"] + number / 100, "longitude": PLACE["longitude"]}
                ask(line, running, b"PUT", f"/v1/people/{person}/location".encode(), json.dumps(place).encode())
            ask(line, running, b"POST", b"/v1/epoch", b"")
        yield running
    finally:
        running.stop()


def connection(service: RunningService) -> socket.socket:
    return socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE_S)


def request(service: RunningService, method: bytes, path: bytes, body: bytes, *more: bytes) -> bytes:
    head = [
        method + b" " + path + b" HTTP/1.1",
        b"Host: service",
        b"Authorization: Bearer " + service.key.encode(),
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(body),
        *more,
    ]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def read(line: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Read one answer, and no byte more."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += line.recv(1) or _closed()
    head, _, _ = received.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (one.partition(": ") for one in lines)}
    body = b""
    while len(body) < int(headers.get("content-length", 0)):
        body += line.recv(int(headers["content-length"]) - len(body)) or _closed()
    return int(status.split()[1]), headers, body


def _closed() -> bytes:
    raise AssertionError("the connection was closed before the answer was complete")


def ask(
    line: socket.socket, service: RunningService, method: bytes, path: bytes, body: bytes, *more: bytes
) -> tuple[int, dict[str, str], bytes]:
    line.sendall(request(service, method, path, body, *more))
    return read(line)


def assert_closed(line: socket.socket, service: RunningService) -> None:
    """Another question finds nobody: a connection that idles is closed sooner or later anyway."""
    answered = b""
    with suppress(ConnectionError):
        line.sendall(request(service, b"POST", FAST, QUESTION))
        answered = line.recv(1)
    assert answered == b""


# A query string is not part of a plain question, so that this goes the usual way.
FAST, USUAL = b"/v1/nearby", b"/v1/nearby?"


@pytest.mark.parametrize(
    "body",
    [
        QUESTION,
        b"",
        b"{",
        b"[]",
        b'{"latitude": NaN, "longitude": 1, "k": 3}',
        json.dumps({**PLACE, "k": 0}).encode(),
        json.dumps({**PLACE, "k": 3, "within_m": 500}).encode(),
        json.dumps({"latitude": 0.5, "longitude": 0.5, "k": 3}).encode(),
        json.dumps({**PLACE, "k": 3, "more": 1}).encode(),
        json.dumps({**PLACE, "k": 3, "asker": PEOPLE[0]}).encode(),
        json.dumps({**PLACE, "k": 3, "asker": "nobody"}).encode(),
        json.dumps({**PLACE, "k": 3, "asker": "a b"}).encode(),
        json.dumps({**PLACE, "k": 2, "exclude": PEOPLE[:2], "paged": True}).encode(),
        json.dumps({**PLACE, "k": 3, "only": [["unheard-of"]]}).encode(),
        json.dumps({**PLACE, "k": 3, "only": ["flat"], "after": "AAAA"}).encode(),
        # Longer than what the fast lane collects.
        json.dumps({**PLACE, "k": 3, "exclude": [f"{number:0100}" for number in range(4000)]}).encode(),
        json.dumps({"latitude": 0.5, "longitude": 0.5, "k": 3, "asker": "nobody"}).encode(),
    ],
)
def test_both_ways_answer_alike(service: RunningService, body: bytes) -> None:
    with connection(service) as line:
        fast = ask(line, service, b"POST", FAST, body)
        usual = ask(line, service, b"POST", USUAL, body)
    assert fast[0] == usual[0]
    assert json.loads(fast[2]) == json.loads(usual[2])
    # A second may begin between the two.
    assert {**fast[1], "date": ""} == {**usual[1], "date": ""}


def test_the_answer_is_right(service: RunningService) -> None:
    with connection(service) as line:
        status, _, body = ask(line, service, b"POST", FAST, QUESTION)
    assert (status, json.loads(body)) == (200, {"ids": PEOPLE[:3]})


def test_an_asker_of_whom_only_the_store_knows_is_looked_up(service: RunningService) -> None:
    """These questions leave the fast lane when they are complete, with others behind them."""
    newcomer = json.dumps({**PLACE, "k": 1, "asker": "newcomer"}).encode()
    escaped = newcomer.replace(b'"asker"', b'"\\u0061sker"')
    stranger = newcomer.replace(b"newcomer", b"stranger")
    with connection(service) as line:
        assert ask(line, service, b"PUT", b"/v1/people/newcomer", b"")[0] == 201
        line.sendall(
            b"".join(request(service, b"POST", FAST, body) for body in (stranger, escaped, newcomer, QUESTION))
        )
        assert [read(line)[0] for _ in range(4)] == [422, 200, 200, 200]


def test_a_body_that_is_too_large_is_refused_and_the_connection_closed(service: RunningService) -> None:
    with connection(service) as line:
        # Refused by its length, before it is there.
        head = request(service, b"POST", FAST, b"").replace(b"Content-Length: 0", b"Content-Length: 900000")
        line.sendall(head + b" " * 70_000)
        status, headers, _ = read(line)
        assert (status, headers["connection"]) == (413, "close")
        assert_closed(line, service)


def test_an_answer_may_be_asked_for_before_the_body_is_sent(service: RunningService) -> None:
    head, _, body = request(service, b"POST", FAST, QUESTION, b"Expect: 100-continue").partition(b"\r\n\r\n")
    with connection(service) as line:
        line.sendall(head + b"\r\n\r\n")
        assert read(line)[0] == 100
        line.sendall(body)
        assert read(line)[0] == 200


@pytest.mark.parametrize("key", [b"nvk_wrong", b""])
def test_a_wrong_key_is_refused_on_the_fast_lane(service: RunningService, key: bytes) -> None:
    wrong = request(service, b"POST", FAST, QUESTION).replace(service.key.encode(), key)
    with connection(service) as line:
        line.sendall(wrong)
        assert read(line)[0] == 401


# Reports.

LOCATION, USUAL_LOCATION = b"/v1/people/person-0/location", b"/v1/people/person%2D0/location"


@pytest.mark.parametrize(
    ("fast_path", "usual_path", "body"),
    [
        (LOCATION, USUAL_LOCATION, json.dumps(PLACE).encode()),
        (LOCATION, USUAL_LOCATION, b"{"),
        (LOCATION, USUAL_LOCATION, json.dumps({**PLACE, "more": 1}).encode()),
        (LOCATION, USUAL_LOCATION, json.dumps({**PLACE, "previous": "no receipt"}).encode()),
        (LOCATION, USUAL_LOCATION, json.dumps({**PLACE, "previous": None}).encode()),
        (LOCATION, USUAL_LOCATION, json.dumps({"latitude": 0.5, "longitude": 0.5}).encode()),
        (b"/v1/people/a..b~c/location", b"/v1/people/a..b%7Ec/location", json.dumps(PLACE).encode()),
        (b"/v1/people/../location", b"/v1/people/%2E%2E/location", json.dumps(PLACE).encode()),
        (b"/v1/people/nobody/location", b"/v1/people/nobod%79/location", json.dumps(PLACE).encode()),
    ],
)
def test_reports_are_answered_alike(service: RunningService, fast_path: bytes, usual_path: bytes, body: bytes) -> None:
    """A path with an escape goes the usual way."""
    with connection(service) as line:
        fast = ask(line, service, b"PUT", fast_path, body)
        usual = ask(line, service, b"PUT", usual_path, body)
    assert fast[0] == usual[0]
    assert {**json.loads(fast[2]), "receipt": ""} == {**json.loads(usual[2]), "receipt": ""}
    # A second may begin between the two.
    assert {**fast[1], "date": ""} == {**usual[1], "date": ""}


def test_reports_of_a_chain_are_answered_alike(service: RunningService) -> None:
    """Each way begins and continues a chain, and refuses who does not have its receipt."""
    answers = []
    for path in (b"/v1/people/person-3/location", b"/v1/people/person%2D4/location"):
        with connection(service) as line:
            last, statuses = None, []
            for sends in ("none", "last", "none", "last", "other", "last"):
                previous = {"none": None, "last": last, "other": "0" * 24}[sends]
                sent = json.dumps({**PLACE, "previous": previous}).encode()
                status, headers, body = ask(line, service, b"PUT", path, sent)
                last = json.loads(body).get("receipt", last)
                refused = (headers["content-type"], body) if status == 409 else None
                statuses.append((status, refused))
        answers.append(statuses)
    assert answers[0] == answers[1]
    assert [status for status, _ in answers[0]] == [202, 202, 409, 202, 409, 202]


def test_what_follows_a_report_waits_for_it(service: RunningService) -> None:
    report = request(service, b"PUT", LOCATION, json.dumps(PLACE).encode())
    question = request(service, b"POST", FAST, QUESTION)
    health = request(service, b"GET", b"/healthz", b"")
    with connection(service) as line:
        line.sendall(report + question + report + health + report + report + question)
        assert [read(line)[0] for _ in range(7)] == [202, 200, 202, 200, 202, 202, 200]


def test_a_malformed_request_after_a_report_does_not_take_its_answer(service: RunningService) -> None:
    with connection(service) as line:
        line.sendall(request(service, b"PUT", LOCATION, json.dumps(PLACE).encode()) + b"nonsense\r\n\r\n")
        assert [read(line)[0] for _ in range(2)] == [202, 400]


def test_whoever_leaves_before_the_answer_has_reported(service: RunningService) -> None:
    """Far from everybody, and asked for until it is there: the connection is closed before the report is kept."""
    away = {"latitude": 37.53, "longitude": -122.25}
    question, found = json.dumps({**away, "k": 1, "within_m": 100}).encode(), b""
    with connection(service) as line:
        ask(line, service, b"POST", b"/v1/people", b'{"ids":["leaver"]}')
    with connection(service) as line:
        line.sendall(request(service, b"PUT", b"/v1/people/leaver/location", json.dumps(away).encode()))
    with connection(service) as line:
        for _ in range(1000):
            ask(line, service, b"POST", b"/v1/epoch", b"")
            found = ask(line, service, b"POST", FAST, question)[2]
            if b"leaver" in found:
                break
    assert b"leaver" in found
