"""People: create, erase, export, and their tokens."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from nearveil.server import models
from nearveil.server.bodies import MOST_BYTES, MOST_BYTES_OF_PEOPLE, parsed
from nearveil.server.openapi import ANYBODY, PERSON, PLATFORM, WITH_BODY, problems, secured, takes
from nearveil.server.problems import not_found
from nearveil.server.routes.common import Here, PersonInPath, PlatformOnly, PlatformOrOwner, answer, body_of

router = APIRouter(tags=["people"])


@router.put(
    "/v1/people/{id}",
    summary="Create a person",
    response_model=models.PersonAdded,
    status_code=201,
    responses={
        201: {"description": "The person is new."},
        200: {"description": "The person was there already.", "model": models.PersonAdded},
        **problems(403, 422, *ANYBODY),
    },
    openapi_extra=secured(PLATFORM),
)
async def add_person(service: Here, _: PlatformOnly, person: PersonInPath) -> Response:
    """Make somebody known; nothing is published before they report."""
    created = bool(await asyncio.to_thread(service.add_people, [person]))
    return answer(models.PersonAdded(id=person, created=created), 201 if created else 200)


@router.post(
    "/v1/people",
    summary="Create many people",
    response_model=models.PeopleAdded,
    responses=problems(403, *WITH_BODY, *ANYBODY),
    openapi_extra=takes(models.PeopleToAdd, {"ids": ["ann", "bob"]}, PLATFORM),
)
async def add_people(request: Request, service: Here, _: PlatformOnly) -> Response:
    """Make up to 10,000 people known at once."""
    wish = parsed(models.PeopleToAdd, await body_of(request, MOST_BYTES_OF_PEOPLE))
    created = await asyncio.to_thread(service.add_people, wish.ids)
    return answer(models.PeopleAdded(created=len(created)))


@router.get(
    "/v1/people/{id}",
    summary="Export what is held about a person",
    responses={
        200: {
            "description": "Everything held about the person: draws, never true places.",
            "content": {"application/json": {"schema": {"type": "object"}}},
        },
        **problems(403, 404, 422, *ANYBODY),
    },
    openapi_extra=secured(PLATFORM, PERSON),
)
async def export_person(service: Here, _: PlatformOrOwner, person: PersonInPath) -> Response:
    """Return everything held about one person, for them to see."""
    record = await asyncio.to_thread(service.store.record, person)
    if record is None:
        raise not_found()
    return JSONResponse(record)


@router.delete(
    "/v1/people/{id}",
    summary="Erase a person",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "All about the person is gone."}, **problems(403, 404, 422, *ANYBODY)},
    openapi_extra=secured(PLATFORM, PERSON),
)
async def erase_person(service: Here, _: PlatformOrOwner, person: PersonInPath) -> Response:
    """Erase locations, reports and tokens' use; the ledger keeps an anonymous total."""
    if not await service.erase(person):
        raise not_found()
    return Response(status_code=204)


@router.post(
    "/v1/people/{id}/tokens",
    summary="Sign a token for a person",
    response_model=models.Token,
    status_code=201,
    responses={
        201: {"description": "A token that works until it expires."},
        **problems(403, 404, *WITH_BODY, *ANYBODY),
    },
    openapi_extra=takes(models.TokenWish, {"expires_in_s": 3600}, PLATFORM),
)
async def sign_token(request: Request, service: Here, _: PlatformOnly, person: PersonInPath) -> Response:
    """Let somebody write their own location, ask who is near, and see or erase what is held about them."""
    wish = parsed(models.TokenWish, await body_of(request, MOST_BYTES))
    mark = await asyncio.to_thread(service.store.token_mark, person)
    if mark is None:
        raise not_found()
    token, expires_at = service.access.issue_token(person, mark, wish.expires_in_s)
    return answer(models.Token(token=token, expires_at=expires_at), 201)


@router.delete(
    "/v1/people/{id}/tokens",
    summary="Revoke a person's tokens",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "No token made before works."}, **problems(403, 404, 422, *ANYBODY)},
    openapi_extra=secured(PLATFORM, PERSON),
)
async def revoke_tokens(service: Here, _: PlatformOrOwner, person: PersonInPath) -> Response:
    """Void all tokens made for somebody so far: here at once, in other processes on the store within seconds."""
    if not await service.revoke_tokens(person):
        raise not_found()
    return Response(status_code=204)
