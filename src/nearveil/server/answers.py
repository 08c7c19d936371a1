"""Answers in plain ASGI: heads that are made once and problems, with the headers that every answer has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from nearveil.server.problems import PROBLEM_TYPE, Problem, problem_body

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
RawHeaders = list[tuple[bytes, bytes]]

UNPROTECTED_HEADER = (b"nearveil-protection", b"off")
ALWAYS: tuple[tuple[bytes, bytes], ...] = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)
_MOST_HEADS = 4096


class Answers:
    """Sends JSON and problems.

    Parameters
    ----------
    is_unprotected : bool
        Protection is off: every answer says so.
    """

    def __init__(self, *, is_unprotected: bool) -> None:
        self.always = (*ALWAYS, UNPROTECTED_HEADER) if is_unprotected else ALWAYS
        self._heads: dict[tuple[int, int], Message] = {}

    def json_headers(self, status: int, body: bytes) -> RawHeaders:
        """Return the headers of a JSON document."""
        head = self._heads.get((status, len(body))) or self._new_head(status, len(body))
        headers: RawHeaders = head["headers"]
        return headers

    def problem_headers(self, problem: Problem, body: bytes) -> RawHeaders:
        """Return the headers of a problem."""
        own = [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
        return [*_content(PROBLEM_TYPE.encode(), len(body)), *self.always, *own]

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
        headers = [*_content(b"application/json", size), *self.always]
        head: Message = {"type": "http.response.start", "status": status, "headers": headers}
        if len(self._heads) < _MOST_HEADS:
            self._heads[status, size] = head
        return head


def _content(kind: bytes, size: int) -> RawHeaders:
    return [(b"content-type", kind), (b"content-length", str(size).encode())]
