"""What routes share: the service, the caller, whose id it is, and answers."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Request, Response
from pydantic import BaseModel

from nearveil.server.access import Caller
from nearveil.server.bodies import read_body
from nearveil.server.guard import CALLER
from nearveil.server.models import LONGEST_PERSON, PERSON_PATTERN
from nearveil.server.problems import forbidden, unauthorised
from nearveil.server.service import Service


def service_of(request: Request) -> Service:
    """Return the service behind an application."""
    service: Service = request.app.state.service
    return service


def caller_of(request: Request) -> Caller:
    """Return who calls, as the guard found out."""
    caller: Caller | None = request.scope.get(CALLER)
    if caller is None:
        raise unauthorised()
    return caller


def platform_of(request: Request) -> Caller:
    """Return which platform calls; refuse people."""
    caller = caller_of(request)
    if caller.kind != "platform":
        raise forbidden()
    return caller


def owner_of(request: Request) -> Caller:
    """Return who calls; refuse people who are not the one in the path."""
    caller = caller_of(request)
    if caller.kind == "person" and caller.name != request.path_params["id"]:
        raise forbidden()
    return caller


Here = Annotated[Service, Depends(service_of)]
AnyCaller = Annotated[Caller, Depends(caller_of)]
PlatformOnly = Annotated[Caller, Depends(platform_of)]
PlatformOrOwner = Annotated[Caller, Depends(owner_of)]
PersonInPath = Annotated[
    str,
    Path(
        alias="id",
        pattern=PERSON_PATTERN,
        min_length=1,
        max_length=LONGEST_PERSON,
        description="A person's id: 1 to 128 characters of A-Z a-z 0-9 _ . : @ -",
        examples=["ann"],
    ),
]


async def body_of(request: Request, most_bytes: int) -> bytes:
    """Return the body of a request."""
    return await read_body(request.receive, request.scope["headers"], most_bytes)


def answer(model: BaseModel, status: int = 200) -> Response:
    """Return a model as JSON."""
    return Response(model.model_dump_json(), status, media_type="application/json")
