"""Bodies of requests: read up to a size, and parsed strictly. What was sent is never repeated in an error."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from nearveil.server.problems import Problem, invalid, malformed_json, too_large
from nearveil.server.service_problems import wrong_media_type

MOST_BYTES = 64 * 1024
MOST_BYTES_OF_PEOPLE = 1024 * 1024
MOST_BYTES_OF_INTERVALS = 8 * 1024 * 1024

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Headers = Iterable[tuple[bytes, bytes]]
Model = TypeVar("Model", bound=BaseModel)

_TOO_DEEP = "recursion limit exceeded"


class ClientLeftError(Exception):
    """Nobody is there any more to be answered."""


async def read_body(receive: Receive, headers: Headers, most_bytes: int) -> bytes:
    """Return the body, once it is known to be JSON by its header and not too large."""
    check_headers(headers, most_bytes)
    return await receive_body(receive, most_bytes)


def check_headers(headers: Headers, most_bytes: int) -> None:
    """Raise if the headers tell that a body is no JSON, or too large."""
    for name, value in headers:
        if name == b"content-length" and (not value.isdigit() or int(value) > most_bytes):
            raise _too_large(most_bytes)
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
            raise _too_large(most_bytes)
    return check_size(b"".join(pieces), most_bytes)


def parsed(model: type[Model], body: bytes) -> Model:
    """Return the body as a model; raise the problem with it in words of fields and rules."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise validation_problem(error, set(model.model_fields)) from None


def parsed_document(body: bytes) -> Any:
    """Return the body as plain values."""
    try:
        return from_json(body)
    except ValueError as error:
        problem = invalid("The document is nested too deeply.") if _TOO_DEEP in str(error) else malformed_json()
        raise problem from None


def validation_problem(error: ValidationError, fields: AbstractSet[str]) -> Problem:
    """Return the problem of the first error, by known fields only: names of other fields are the client's words."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return invalid("The document is nested too deeply.") if _TOO_DEEP in first["msg"] else malformed_json()
    place = first["loc"][0] if first["loc"] else None
    if place not in fields:
        return invalid("The body has a field that is not known, or is no JSON object.")
    return invalid(f"{place}: {first['msg']}.")


def check_size(body: bytes, most_bytes: int) -> bytes:
    """Return the body unless it is too large."""
    if len(body) > most_bytes:
        raise _too_large(most_bytes)
    return body


def _too_large(most_bytes: int) -> Problem:
    problem = too_large(most_bytes)
    # The rest is not worth reading.
    return Problem(problem.name, problem.status, problem.title, problem.detail, {"Connection": "close"})
