"""Plain ASGI: bodies of requests, read up to a size, and answers with the headers that every answer has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from nearveil.server.problems import PROBLEM_TYPE, Problem, problem_body, too_large, wrong_media_type

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
RawHeaders = list[tuple[bytes, bytes]]

MOST_BYTES = 64 * 1024
MOST_BYTES_OF_REPORTS = 512 * 1024
MOST_BYTES_OF_QUESTION = 768 * 1024
MOST_BYTES_OF_PEOPLE = 1024 * 1024
MOST_BYTES_OF_INTERVALS = 8 * 1024 * 1024

ALWAYS: tuple[tuple[bytes, bytes], ...] = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)
_MOST_HEADS = 4096


class Answers:
    """Sends JSON and problems."""

    def __init__(self) -> None:
        self._heads: dict[tuple[int, int], Message] = {}

    def json_headers(self, status: int, body: bytes) -> RawHeaders:
        """Return the headers of a JSON document."""
        head = self._heads.get((status, len(body))) or self._new_head(status, len(body))
        headers: RawHeaders = head["headers"]
        return headers

    def problem_headers(self, problem: Problem, body: bytes) -> RawHeaders:
        """Return the headers of a problem."""
        own = [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
        return [*_content(PROBLEM_TYPE.encode(), len(body)), *ALWAYS, *own]

    async def send_json(self, send: Send, status: int, body: bytes) -> None:
        """Send a JSON document."""
        size = len(body)
        head = self._heads.get((status, size)) or self._new_head(status, size)
        await send(head)
        await send({"type": "http.response.body", "body": body})

    async def send_problem(self, send: Send, problem: Problem) -> None:
        """Send what is wrong."""
        body = problem_body(problem)
        headers = self.problem_headers(problem, body)
        await send({"type": "http.response.start", "status": problem.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _new_head(self, status: int, size: int) -> Message:
        headers = [*_content(b"application/json", size), *ALWAYS]
        head: Message = {"type": "http.response.start", "status": status, "headers": headers}
        if len(self._heads) < _MOST_HEADS:
            self._heads[status, size] = head
        return head


class ClientLeftError(Exception):
    """The client has disconnected."""


async def read_body(receive: Receive, headers: Iterable[tuple[bytes, bytes]], most_bytes: int) -> bytes:
    """Return the body, once it is known to be JSON by its header and not too large."""
    check_headers(headers, most_bytes)
    return await receive_body(receive, most_bytes)


def check_headers(headers: Iterable[tuple[bytes, bytes]], most_bytes: int) -> None:
    """Raise if the headers say that a body is not JSON, or too large."""
    for name, value in headers:
        if name == b"content-length" and (not value.isdigit() or int(value) > most_bytes):
            raise too_large(most_bytes, closes=True)
        if name == b"content-type" and value.lower().partition(b";")[0].strip() != b"application/json":
            raise wrong_media_type()


async def receive_body(receive: Receive, most_bytes: int) -> bytes:
    """Return the body, however it is cut in pieces."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientLeftError
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        return check_size(body, most_bytes)
    pieces, size = [body], len(body)
    while message.get("more_body", False):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeftError
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > most_bytes:
            raise too_large(most_bytes, closes=True)
    return check_size(b"".join(pieces), most_bytes)


def authorization_of(headers: RawHeaders) -> str | None:
    """Return the Authorization header of a request."""
    for name, value in headers:
        if name == b"authorization":
            return value.decode("latin-1")
    return None


def check_size(body: bytes, most_bytes: int) -> bytes:
    """Return the body unless it is too large."""
    if len(body) > most_bytes:
        raise too_large(most_bytes, closes=True)
    return body


def _content(kind: bytes, size: int) -> RawHeaders:
    return [(b"content-type", kind), (b"content-length", str(size).encode())]
