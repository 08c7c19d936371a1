"""The routes of the HTTP interface, by what they are about."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.fit_cells import MOST_HIDE_AMONG
from nearveil.server import models
from nearveil.server.asgi import MOST_BYTES, MOST_BYTES_OF_INTERVALS, MOST_BYTES_OF_PEOPLE, read_body
from nearveil.server.auth import KEY_NAME_PATTERN, Caller
from nearveil.server.guard import CALLER, HEALTH_PATH, METRICS_PATH, OPENAPI_PATH, READY_PATH
from nearveil.server.hot_path import HotRoutes
from nearveil.server.models import PERSON_ID, parsed, parsed_document
from nearveil.server.openapi import ANYBODY, PERSON, PLATFORM, WITH_BODY, problems, secured, takes
from nearveil.server.problems import conflict, forbidden, invalid, not_found, not_ready, unauthorised
from nearveil.server.service import Service

# Shared by the routes: the service, the caller, ids in paths, and answers.


def service_of(request: Request) -> Service:
    """Return the service behind an application."""
    service: Service = request.app.state.service
    return service


def caller_of(request: Request) -> Caller:
    """Return the caller that the guard identified."""
    caller: Caller | None = request.scope.get(CALLER)
    if caller is None:
        raise unauthorised()
    return caller


def platform_of(request: Request) -> Caller:
    """Return the calling platform; refuse people."""
    caller = caller_of(request)
    if caller.kind != "platform":
        raise forbidden()
    return caller


def owner_of(request: Request) -> Caller:
    """Return the caller; refuse people other than the one in the path."""
    caller = caller_of(request)
    if caller.kind == "person" and caller.name != request.path_params["id"]:
        raise forbidden()
    return caller


Here = Annotated[Service, Depends(service_of)]
AnyCaller = Annotated[Caller, Depends(caller_of)]
PlatformOnly = Annotated[Caller, Depends(platform_of)]
PlatformOrOwner = Annotated[Caller, Depends(owner_of)]
PersonInPath = Annotated[
    str, Path(alias="id", **{**PERSON_ID, "description": f"A person's id: {PERSON_ID['description']}"})
]


async def body_of(request: Request, most_bytes: int) -> bytes:
    """Return the body of a request."""
    return await read_body(request.receive, request.scope["headers"], most_bytes)


def answer(model: BaseModel, status: int = 200) -> Response:
    """Return a model as JSON."""
    return Response(model.model_dump_json(), status, media_type="application/json")


# Locations: report one, take it off the map, ask who is near.
#
# Reports and questions are taken by `HotRoutes` before a request comes here. They are routes all the same, so that
# they are described, and that other methods are refused as everywhere.


locations_router = APIRouter(tags=["locations"])


def hot_of(request: Request) -> HotRoutes:
    """Return what answers questions and takes reports."""
    hot: HotRoutes = request.app.state.hot
    return hot


_EXAMPLE = {"latitude": 37.7749, "longitude": -122.4194}


@locations_router.put(
    "/v1/people/{id}/location",
    summary="Report where a person is",
    response_model=models.ReportTaken,
    status_code=202,
    responses={
        202: {"description": "The report is perturbed, and the noisy location is kept durably."},
        **problems(403, 404, *WITH_BODY, *ANYBODY),
    },
    openapi_extra=takes(models.Place, _EXAMPLE, PLATFORM, PERSON),
)
async def report_location(request: Request, _: PersonInPath) -> Response:
    """Report a location: noise is added on receipt, and it is published at the next epoch boundary at the earliest."""
    status, body = await hot_of(request).report(request.scope, request.receive)
    return Response(body, status, media_type="application/json")


@locations_router.delete(
    "/v1/people/{id}/location",
    summary="Take a person off the map",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "Nobody finds the person any more."}, **problems(403, 404, 422, *ANYBODY)},
    openapi_extra=secured(PLATFORM, PERSON),
)
async def withdraw_location(service: Here, _: PlatformOrOwner, person: PersonInPath) -> Response:
    """Drop what is published and what waits; what was charged stays charged."""
    if not await service.withdraw(person):
        raise not_found()
    return Response(status_code=204)


@locations_router.post(
    "/v1/nearby",
    summary="Ask who is near",
    response_model=models.Nearby,
    responses=problems(403, *WITH_BODY, *ANYBODY),
    openapi_extra=takes(models.Question, {**_EXAMPLE, "k": 10}, PLATFORM, PERSON),
)
async def ask_nearby(request: Request) -> Response:
    """Return ids, nearest first, by published locations; a token's person and the asker are left out."""
    status, body = await hot_of(request).ask(request.scope, request.receive)
    return Response(body, status, media_type="application/json")


# People: create, erase, export, and their tokens.


people_router = APIRouter(tags=["people"])


@people_router.put(
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
    """Create a person; nothing is published before they report a location."""
    created = bool(await asyncio.to_thread(service.add_people, [person]))
    return answer(models.PersonAdded(id=person, created=created), 201 if created else 200)


@people_router.post(
    "/v1/people",
    summary="Create many people",
    response_model=models.PeopleAdded,
    responses=problems(403, *WITH_BODY, *ANYBODY),
    openapi_extra=takes(models.PeopleToAdd, {"ids": ["ann", "bob"]}, PLATFORM),
)
async def add_people(request: Request, service: Here, _: PlatformOnly) -> Response:
    """Create up to 10,000 people at once."""
    body = parsed(models.PeopleToAdd, await body_of(request, MOST_BYTES_OF_PEOPLE))
    created = await asyncio.to_thread(service.add_people, body.ids)
    return answer(models.PeopleAdded(created=len(created)))


@people_router.get(
    "/v1/people/{id}",
    summary="Export what is held about a person",
    responses={
        200: {
            "description": "Everything held about the person: noisy locations, never true places.",
            "content": {"application/json": {"schema": {"type": "object"}}},
        },
        **problems(403, 404, 422, *ANYBODY),
    },
    openapi_extra=secured(PLATFORM, PERSON),
)
async def export_person(service: Here, _: PlatformOrOwner, person: PersonInPath) -> Response:
    """Return everything that is stored about one person."""
    record = await asyncio.to_thread(service.store.record, person)
    if record is None:
        raise not_found()
    return JSONResponse(record)


@people_router.delete(
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


@people_router.post(
    "/v1/people/{id}/tokens",
    summary="Sign a token for a person",
    response_model=models.Token,
    status_code=201,
    responses={
        201: {"description": "A token that works until it expires."},
        **problems(403, 404, *WITH_BODY, *ANYBODY),
    },
    openapi_extra=takes(models.TokenRequest, {"expires_in_s": 3600}, PLATFORM),
)
async def sign_token(request: Request, service: Here, _: PlatformOnly, person: PersonInPath) -> Response:
    """Return a token with which a person can report, ask who is near, and export or erase their data."""
    body = parsed(models.TokenRequest, await body_of(request, MOST_BYTES))
    mark = await asyncio.to_thread(service.store.token_mark, person)
    if mark is None:
        raise not_found()
    token, expires_at = service.access.issue_token(person, mark, body.expires_in_s)
    return answer(models.Token(token=token, expires_at=expires_at), 201)


@people_router.delete(
    "/v1/people/{id}/tokens",
    summary="Revoke a person's tokens",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "No token made before works."}, **problems(403, 404, 422, *ANYBODY)},
    openapi_extra=secured(PLATFORM, PERSON),
)
async def revoke_tokens(service: Here, _: PlatformOrOwner, person: PersonInPath) -> Response:
    """Revoke all tokens of a person: here at once, in other processes on the store within seconds."""
    if not await service.revoke_tokens(person):
        raise not_found()
    return Response(status_code=204)


# Platform keys: made, listed and removed while the service runs.


keys_router = APIRouter(tags=["operator"])

KeyName = Annotated[
    str,
    Path(
        alias="name",
        pattern=f"^{KEY_NAME_PATTERN}$",
        min_length=1,
        max_length=64,
        description="A key's name: 1 to 64 characters of A-Z a-z 0-9 _ . -",
        examples=["web-shop"],
    ),
]


@keys_router.get(
    "/v1/platform-keys",
    summary="The names of the platform keys",
    response_model=models.PlatformKeys,
    responses=problems(403, *ANYBODY),
    openapi_extra=secured(PLATFORM),
)
async def list_keys(service: Here, _: PlatformOnly) -> Response:
    """Name the keys that work; of the keys themselves only digests are kept."""
    kept = await asyncio.to_thread(service.store.keys)
    return answer(models.PlatformKeys(names=[key.name for key in kept]))


@keys_router.post(
    "/v1/platform-keys/{name}",
    summary="Make a platform key",
    response_model=models.NewPlatformKey,
    status_code=201,
    responses={201: {"description": "The key, shown this once."}, **problems(403, 409, 422, *ANYBODY)},
    openapi_extra=secured(PLATFORM),
)
async def make_key(service: Here, caller: PlatformOnly, name: KeyName) -> Response:
    """Make a key; one of that name is not replaced."""
    secret = await service.make_platform_key(name, by=caller)
    if secret is None:
        raise conflict("There is a key of that name; remove it first, or choose another name.")
    return answer(models.NewPlatformKey(name=name, key=secret), 201)


@keys_router.delete(
    "/v1/platform-keys/{name}",
    summary="Remove a platform key",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "The key does not work any more."}, **problems(403, 404, 409, 422, *ANYBODY)},
    openapi_extra=secured(PLATFORM),
)
async def remove_key(service: Here, caller: PlatformOnly, name: KeyName) -> Response:
    """Remove a key: here at once, in other processes on the store within seconds. The last one stays."""
    if await service.remove_platform_key(name, by=caller):
        return Response(status_code=204)
    if name in [key.name for key in await asyncio.to_thread(service.store.keys)]:
        raise conflict("This is the last key; make another one first.")
    raise not_found()


# For operators and platforms: the card, the ledger, intervals, and a test hook.


operator_router = APIRouter(tags=["operator"])

PeopleToHideAmong = Annotated[
    int, Query(ge=2, le=MOST_HIDE_AMONG, description="Among how many people to hide; a cell holds a tenth of them.")
]

_INTERVALS_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "description": "An intervals file as 'nearveil fit' writes it.",
                    "required": ["format", "version", "region", "method", "budget", "gamma", "centres", "radii"],
                },
                "example": {"format": "nearveil-intervals", "version": 1},
            }
        },
    }
}


@operator_router.get(
    "/v1/guarantee",
    summary="The guarantee card",
    response_model=models.Card,
    responses=problems(*ANYBODY),
    openapi_extra=secured(PLATFORM, PERSON),
)
async def guarantee(service: Here, _: AnyCaller) -> Response:
    """Return what the service guarantees to its people, and what it does not."""
    return answer(await asyncio.to_thread(_card, service))


@operator_router.get(
    "/v1/ledger",
    summary="The ledger's state",
    response_model=models.LedgerState,
    responses=problems(403, *ANYBODY),
    openapi_extra=secured(PLATFORM),
)
async def ledger(service: Here, _: PlatformOnly) -> Response:
    """Return how many people there are, epoch, window and budget.

    Not what is charged, or waits: that would tell where people are.
    """
    return answer(await asyncio.to_thread(_ledger, service))


@operator_router.put(
    "/v1/intervals",
    summary="Put new intervals",
    response_model=models.IntervalsTaken,
    status_code=202,
    responses={202: {"description": "They hold from that epoch on."}, **problems(403, *WITH_BODY, *ANYBODY)},
    openapi_extra={**_INTERVALS_BODY, **secured(PLATFORM)},
)
async def put_intervals(request: Request, service: Here, _: PlatformOnly) -> Response:
    """Use other intervals from the next epoch on; old and new are never mixed in one epoch."""
    document = parsed_document(await body_of(request, MOST_BYTES_OF_INTERVALS))
    try:
        from_epoch = await asyncio.to_thread(service.put_intervals, document)
    except DataError:
        raise invalid("The body is not an intervals file for the service's region; fit again.") from None
    return answer(models.IntervalsTaken(from_epoch=from_epoch), 202)


@operator_router.get(
    "/v1/intervals",
    summary="The intervals in use",
    response_model=models.IntervalsShown,
    responses=problems(*ANYBODY),
    openapi_extra=secured(PLATFORM, PERSON),
)
async def intervals(service: Here, _: AnyCaller) -> Response:
    """Say which intervals are in use, and which wait for an epoch boundary."""
    return answer(await asyncio.to_thread(_intervals, service))


@operator_router.get(
    "/v1/cells",
    summary="Cells from the published places",
    response_class=JSONResponse,
    responses={200: {"description": "A cells file for --cells (GeoJSON)."}, **problems(403, 409, 422, *ANYBODY)},
    openapi_extra=secured(PLATFORM),
)
async def cells(service: Here, _: PlatformOnly, hide_among: PeopleToHideAmong = 100) -> Response:
    """Make cells from what is published, which costs nobody anything. To use them draws all noise anew."""
    try:
        made = await asyncio.to_thread(service.make_cells, hide_among)
    except (DataError, UsageError) as error:
        raise conflict(f"{str(error)[0].upper()}{str(error)[1:]}.") from None
    return Response(made.to_json(), media_type="application/json")


@operator_router.post(
    "/v1/epoch",
    summary="Advance the epoch (test hook)",
    response_model=models.EpochShown,
    responses=problems(403, 404, *ANYBODY),
    openapi_extra=secured(PLATFORM),
)
async def advance_epoch(service: Here, _: PlatformOnly) -> Response:
    """Go to the next epoch at once; only where the setting test_hooks allows it."""
    if not service.settings.test_hooks:
        raise not_found()
    return answer(models.EpochShown(epoch=await asyncio.to_thread(service.advance)))


def _card(service: Service) -> models.Card:
    card, region = service.card(), service.protection.region
    return models.Card(
        protection=service.protection.policy.value,
        region=models.RegionShown(south=region.south, west=region.west, north=region.north, east=region.east),
        guarantee=card.to_dict(),
        text=card.card(full=True),
    )


def _ledger(service: Service) -> models.LedgerState:
    totals, protection, epoch = service.totals(), service.protection, service.publisher.epoch
    return models.LedgerState(
        people=totals.people,
        published=totals.published,
        epoch=epoch,
        window=protection.schedule.window_of(epoch),
        next_epoch_at=service.publisher.starts_at(epoch + 1),
        policy=protection.policy.value,
        new_places_per_window=service.publisher.most_charges(protection.schedule.window_of(epoch)),
    )


def _intervals(service: Service) -> models.IntervalsShown:
    epoch = service.publisher.epoch
    current, coming = service.intervals.at(epoch), service.intervals.after(epoch)
    return models.IntervalsShown(
        fingerprint=current.fingerprint if current else None,
        number=len(current.intervals) if current else 0,
        method=current.intervals.method if current else None,
        next_fingerprint=coming.fingerprint if coming else None,
        next_from_epoch=coming.from_epoch if coming else None,
    )


# For the operator: health, readiness, metrics.


probes_router = APIRouter(tags=["probes"])


@probes_router.get(HEALTH_PATH, summary="Whether the process answers", response_model=models.Health)
async def health() -> Response:
    """Answer without a key and without checks."""
    return answer(models.Health(status="ok"))


@probes_router.get(
    READY_PATH,
    summary="Whether reports and questions are taken",
    response_model=models.Readiness,
    responses=problems(403, *ANYBODY),
    openapi_extra=secured(PLATFORM),
)
async def readiness(request: Request, service: Here) -> Response:
    """Answer 503 until the index is loaded and while the store is out of reach."""
    _refuse_people(request)
    epoch = service.scheduler.epoch
    if epoch is None or not service.is_ready:
        raise not_ready()
    await asyncio.to_thread(service.store.last_epoch)
    return answer(models.Readiness(status="ready", epoch=epoch, people_on_the_map=len(service.index)))


@probes_router.get(
    METRICS_PATH,
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={
        200: {"description": "Counters and gauges.", "content": {"text/plain": {"schema": {"type": "string"}}}},
        **problems(403, *ANYBODY),
    },
    openapi_extra=secured(PLATFORM),
)
async def metrics(request: Request, service: Here) -> Response:
    """Return metrics, without ids of people or locations."""
    _refuse_people(request)
    await asyncio.to_thread(service.totals)
    text, kind = await asyncio.to_thread(service.metrics.exposition)
    return Response(text, media_type=kind)


@probes_router.get(OPENAPI_PATH, include_in_schema=False)
async def description(request: Request, _: AnyCaller) -> Response:
    """Return the description of this interface."""
    return Response(json.dumps(request.app.openapi()), media_type="application/json")


def _refuse_people(request: Request) -> None:
    """Refuse people's tokens; the guard decides whether a caller is needed."""
    caller = request.scope.get(CALLER)
    if caller is not None and caller.kind != "platform":
        raise forbidden()


ROUTERS = (probes_router, people_router, locations_router, operator_router, keys_router)
