"""The same few hundred streams of bytes every time, and streams that once went wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.server.running import HERE
from tests.services.fuzz import KEY, LIMITS, Bench, Cuts, bench, check_stream, try_streams

BODY = json.dumps(HERE).encode()
CHUNKS = b"%x\r\n%b\r\n0\r\n" % (len(BODY), BODY)
PLAIN = b"GET /v1/guarantee HTTP/1.1\r\nauthorization: Bearer " + KEY + b"\r\n\r\n"
AUTHORIZED = b"authorization: Bearer " + KEY + b"\r\n"


@pytest.fixture(scope="module")
def place() -> Iterator[Bench]:
    with bench() as found:
        yield found


def question(*lines: bytes, size: int = len(BODY)) -> bytes:
    return (
        b"POST /v1/nearby HTTP/1.1\r\n"
        + AUTHORIZED
        + b"".join(line + b"\r\n" for line in lines)
        + b"content-length: %d\r\n\r\n" % size
        + BODY
    )


def chunked(head: bytes, trailers: bytes) -> bytes:
    return b"POST /v1/nearby HTTP/1.1\r\n" + head + b"transfer-encoding: chunked\r\n\r\n" + CHUNKS + trailers + b"\r\n"


LONG = question(b"pad: " + b"1" * (LIMITS.header_bytes - len(question(b"pad: ")) + len(BODY)))
LAST = question(b"connection: close")
WRONG_CHUNK = b"POST /v1/nearby HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nnot a size\r\n"
WENT_WRONG: dict[str, tuple[bytes, Cuts]] = {
    "the end of a long head comes with the body": (LONG, [(LIMITS.header_bytes - 4, True)]),
    "a trailer says another type": (chunked(AUTHORIZED, b"content-type: text/plain\r\n"), [(200, True)]),
    "a trailer wants to be the last": (chunked(AUTHORIZED, b"connection: close\r\n") + PLAIN, []),
    "a trailer brings the key": (chunked(b"", AUTHORIZED), []),
    "questions after the last one": (LAST + question() + PLAIN, []),
    "a request after the last question": (LAST + PLAIN, []),
    "no HTTP behind a request": (PLAIN + b"no HTTP\r\n\r\n", []),
    "no HTTP behind requests that wait": (3 * PLAIN + b"no HTTP\r\n\r\n", []),
    "a long head behind a request": (PLAIN + b"GET / HTTP/1.1\r\npad: " + b"1" * 3 * LIMITS.header_bytes, []),
    "many headers behind a request": (PLAIN + b"GET / HTTP/1.1\r\n" + 40 * b"a: b\r\n" + b"\r\n", []),
    "a wrong chunk behind a request": (PLAIN + WRONG_CHUNK, []),
    "a wrong chunk of a request that has its answer": (WRONG_CHUNK, [(len(WRONG_CHUNK) - 12, True)]),
    "an upgrade before a request": (question(b"connection: upgrade", b"upgrade: h2c") + PLAIN, []),
}


@pytest.mark.parametrize("name", WENT_WRONG)
def test_what_once_went_wrong(place: Bench, name: str) -> None:
    check_stream(place, *WENT_WRONG[name])


def test_whatever_is_sent_complete_requests_are_answered_as_on_the_plain_route(place: Bench) -> None:
    try_streams(place, 40, derandomize=True)()
