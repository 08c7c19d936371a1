"""The routes of the HTTP interface, by what they are about."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.fit_cells import MOST_HIDE_AMONG
from nearveil.nearby.filters import TooManyBlockedError
from nearveil.nearby.stores.base import StoreError, TooManyTagsError, in_degrees
from nearveil.server import models
from nearveil.server.asgi import (
    MOST_BYTES,
    MOST_BYTES_OF_INTERVALS,
    MOST_BYTES_OF_PEOPLE,
    MOST_BYTES_OF_REPORTS,
    read_body,
)
from nearveil.server.auth import KEY_NAME_PATTERN, LONGEST_KEY_NAME, Caller
from nearveil.server.guard import CALLER, HEALTH_PATH, METRICS_PATH, OPEN_PROBE, OPENAPI_PATH, READY_PATH
from nearveil.server.hot_path import HotRoutes
from nearveil.server.models import PERSON_ID, parsed, parsed_document
from nearveil.server.openapi import ANYBODY, WITH_BODY, problems, takes
from nearveil.server.problems import conflict, invalid, not_found, not_ready, unauthorised
from nearveil.server.scopes import ROUTES
from nearveil.server.service import Service

# Shared by the routes: the service, the caller, ids in paths, and answers.


def service_of(request: Request) -> Service:
    """Return the service behind an application."""
    service: Service = request.app.state.service
    return service


async def permitted(request: Request) -> Caller | None:
    """Return the caller, if the route is for them by `ROUTES`; None for a probe that the guard let in without a key."""
    if request.scope.get(OPEN_PROBE):
        return None
    caller: Caller | None = request.scope.get(CALLER)
    if caller is None:
        raise unauthorised()
    rule = ROUTES.get((request.method, request.scope["route"].path))
    caller.check(rule, request.path_params.get("id"))
    return caller


def recorded(request: Request, people: Sequence[str] = (), **about: Any) -> AbstractAsyncContextManager[None]:
    """Return a block in which a caller does what the audit log records."""
    action = ROUTES[request.method, request.scope["route"].path].action
    return service_of(request).audit_log.recorded(request.scope[CALLER], str(action), people=people, **about)


PERMITTED = [Depends(permitted)]
"""Dependencies of every router but the one with /healthz, so that no route can forget to check its caller."""

Here = Annotated[Service, Depends(service_of)]
Permitted = Annotated[Caller, Depends(permitted)]
PersonInPath = Annotated[
    str, Path(alias="id", **{**PERSON_ID, "description": f"A person's id: {PERSON_ID['description']}"})
]


OtherInPath = Annotated[
    str, Path(alias="other", **{**PERSON_ID, "description": f"Another person's id: {PERSON_ID['description']}"})
]


async def body_of(request: Request, most_bytes: int) -> bytes:
    """Return the body of a request."""
    return await read_body(request.receive, request.scope["headers"], most_bytes)


def answer(model: BaseModel, status: int = 200) -> Response:
    """Return a model as JSON."""
    return Response(model.model_dump_json(), status, media_type="application/json")


def _done(found: bool) -> Response:
    """Say that it is done, to who or what was found."""
    if not found:
        raise not_found()
    return Response(status_code=204)


# Locations: report one, take it off the map, ask who is near.
#
# Reports and questions are taken by `HotRoutes` before a request comes here. They are routes all the same, so that
# they are described, and that other methods are refused as everywhere.


locations_router = APIRouter(tags=["locations"], dependencies=PERMITTED)


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
        **problems(403, 404, 409, *WITH_BODY, *ANYBODY),
    },
    openapi_extra=takes(models.Place, _EXAMPLE),
)
async def report_location(request: Request, _: PersonInPath) -> Response:
    """Report a location: noise is added on receipt, and it is published at the next epoch boundary at the earliest."""
    status, body = await hot_of(request).report(request.scope, request.receive)
    return Response(body, status, media_type="application/json")


@locations_router.post(
    "/v1/locations",
    summary="Report where many people are",
    response_model=models.ReportsAnswered,
    status_code=202,
    responses={
        202: {"description": "Each report is kept durably, or has its own problem, in the order in which they came."},
        **problems(403, *WITH_BODY, *ANYBODY),
    },
    openapi_extra=takes(
        models.LocationReports, {"reports": [{"id": "ann", **_EXAMPLE}, {"id": "bob", "latitude": 1, "longitude": 1}]}
    ),
)
async def report_locations(request: Request, caller: Permitted) -> Response:
    """Report up to 1,000 locations: each as a report of its own, counted as one, and answered as one.

    What is wrong with a report stops no other. After an answer that was lost, or 503, send all of them again with the
    same 'previous' each.
    """
    body = await hot_of(request).report_many(caller, await body_of(request, MOST_BYTES_OF_REPORTS))
    return Response(body, 202, media_type="application/json")


@locations_router.delete(
    "/v1/people/{id}/location",
    summary="Take a person off the map",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "Nobody finds the person any more."}, **problems(403, 404, 422, *ANYBODY)},
)
async def withdraw_location(request: Request, service: Here, person: PersonInPath) -> Response:
    """Drop what is published and what waits; what was charged stays charged."""
    async with recorded(request, [person]):
        return _done(await service.withdraw(person))


@locations_router.post(
    "/v1/nearby",
    summary="Ask who is near",
    response_model=models.Nearby,
    responses=problems(403, 409, *WITH_BODY, *ANYBODY),
    openapi_extra=takes(models.Question, {**_EXAMPLE, "k": 10, "only": [["woman", "nonbinary"], ["25-35"]]}),
)
async def ask_nearby(request: Request) -> Response:
    """Return ids, nearest first, by published locations.

    A token's person and the asker are left out, and those whom they blocked or who blocked them.
    """
    status, body = await hot_of(request).ask(request.scope, request.receive)
    return Response(body, status, media_type="application/json")


# People: create, erase, export, and their tokens.


people_router = APIRouter(tags=["people"], dependencies=PERMITTED)
_BODY_TOO = (*WITH_BODY, *ANYBODY)


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
)
async def add_person(request: Request, service: Here, person: PersonInPath) -> Response:
    """Create a person; nothing is published before they report a location."""
    async with recorded(request, [person]):
        created = bool(await service.in_store(service.add_people, [person]))
    return answer(models.PersonAdded(id=person, created=created), 201 if created else 200)


@people_router.post(
    "/v1/people",
    summary="Create many people",
    response_model=models.PeopleAdded,
    responses=problems(403, *WITH_BODY, *ANYBODY),
    openapi_extra=takes(models.PeopleToAdd, {"ids": ["ann", "bob"]}),
)
async def add_people(request: Request, service: Here) -> Response:
    """Create up to 10,000 people at once."""
    body = parsed(models.PeopleToAdd, await body_of(request, MOST_BYTES_OF_PEOPLE))
    async with recorded(request, body.ids):
        created = await service.in_store(service.add_people, body.ids)
    return answer(models.PeopleAdded(created=len(created)))


@people_router.get(
    "/v1/people/{id}",
    summary="Export a person",
    response_model=models.PersonRecord,
    responses=problems(403, 404, 422, *ANYBODY),
)
async def export_person(request: Request, service: Here, person: PersonInPath) -> Response:
    """Return the id, when it was created, the published location, the tags, and whom the person has blocked.

    The location is in degrees, and in metres east and north of the middle of the region. Keyed tags and counts, which
    are stored too, are left out: they would tell where somebody is.
    """
    async with recorded(request, [person]):
        record = await service.in_store(service.store.record, person)
        if record is None:
            raise not_found()
    return JSONResponse(in_degrees(record, service.protection.region))


@people_router.delete(
    "/v1/people/{id}",
    summary="Erase a person",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "All about the person is gone."}, **problems(403, 404, 422, *ANYBODY)},
)
async def erase_person(request: Request, service: Here, person: PersonInPath) -> Response:
    """Erase locations, reports and tokens' use; the ledger keeps an anonymous total."""
    async with recorded(request, [person]):
        return _done(await service.erase(person))


@people_router.put(
    "/v1/people/{id}/tags",
    summary="Set a person's tags",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "The person has these tags and no others."}, **problems(403, 404, *_BODY_TOO)},
    openapi_extra=takes(models.TagsToSet, {"tags": ["woman", "25-35"]}),
)
async def set_tags(request: Request, service: Here, person: PersonInPath) -> Response:
    """Give a person tags, by which questions find them from now on; a service has at most 60 different ones.

    Whoever asks can find out who near a place has a tag.
    """
    body = parsed(models.TagsToSet, await body_of(request, MOST_BYTES))
    async with recorded(request, [person]):
        try:
            there = await service.in_store(service.filters.set_tags, person, body.tags)
        except TooManyTagsError as error:
            raise invalid(f"tags: {error}.") from None
        return _done(there)


@people_router.get(
    "/v1/people/{id}/blocked",
    summary="Whom a person has blocked",
    response_model=models.BlockedPeople,
    responses=problems(403, 404, 422, *ANYBODY),
)
async def list_blocked(request: Request, service: Here, person: PersonInPath) -> Response:
    """Name those whom a person has blocked; who has blocked the person is not said."""
    async with recorded(request, [person]):
        ids = await service.in_store(service.store.blocked, person)
        if ids is None:
            raise not_found()
    return answer(models.BlockedPeople(ids=ids))


@people_router.put(
    "/v1/people/{id}/blocked",
    summary="Block people for a person",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "These are blocked and no others."}, **problems(403, 404, *_BODY_TOO)},
    openapi_extra=takes(models.PeopleToBlock, {"ids": ["bob"]}),
)
async def set_blocked(request: Request, service: Here, person: PersonInPath) -> Response:
    """Let these be all whom a person has blocked: from now on neither finds the other."""
    body = parsed(models.PeopleToBlock, await body_of(request, MOST_BYTES_OF_PEOPLE))
    async with recorded(request, [person]):
        return _done(await service.in_store(service.filters.set_blocked, person, body.ids))


@people_router.put(
    "/v1/people/{id}/blocked/{other}",
    summary="Block somebody for a person",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "Neither finds the other."}, **problems(403, 404, 422, *ANYBODY)},
)
async def block(request: Request, service: Here, person: PersonInPath, other: OtherInPath) -> Response:
    """Block one person more."""
    if other == person:
        raise invalid("Nobody can block themselves; name another person.")
    async with recorded(request, [person]):
        try:
            there = await service.in_store(service.filters.block, person, other)
        except TooManyBlockedError as error:
            raise invalid(f"{str(error)[0].upper()}{str(error)[1:]}.") from None
        return _done(there)


@people_router.delete(
    "/v1/people/{id}/blocked/{other}",
    summary="Block somebody no more",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "The person does not block the other."}, **problems(403, 404, 422, *ANYBODY)},
)
async def unblock(request: Request, service: Here, person: PersonInPath, other: OtherInPath) -> Response:
    """Block somebody no more, whether they were blocked or not. If the other blocks the person, that stays."""
    async with recorded(request, [person]):
        return _done(await service.in_store(service.filters.unblock, person, other))


@people_router.post(
    "/v1/people/{id}/tokens",
    summary="Sign a token for a person",
    response_model=models.Token,
    status_code=201,
    responses={
        201: {"description": "A token that works until it expires."},
        **problems(403, 404, *WITH_BODY, *ANYBODY),
    },
    openapi_extra=takes(models.TokenRequest, {"expires_in_s": 3600}),
)
async def sign_token(request: Request, service: Here, person: PersonInPath) -> Response:
    """Return a token with which a person can report, ask who is near, and export or erase their data."""
    body = parsed(models.TokenRequest, await body_of(request, MOST_BYTES))
    async with recorded(request, [person]):
        mark = await service.in_store(service.store.token_mark, person)
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
)
async def revoke_tokens(request: Request, service: Here, person: PersonInPath) -> Response:
    """Revoke all tokens of a person: here at once, in other processes on the store within seconds.

    The chain of their reports ends, and a location that waits for the epoch boundary is dropped.
    """
    async with recorded(request, [person]):
        return _done(await service.revoke_tokens(person))


# Platform keys: made, listed and removed while the service runs.


keys_router = APIRouter(tags=["operator"], dependencies=PERMITTED)

KeyName = Annotated[
    str,
    Path(
        alias="name",
        pattern=f"^{KEY_NAME_PATTERN}$",
        min_length=1,
        max_length=LONGEST_KEY_NAME,
        description="A key's name: 1 to 64 characters of A-Z a-z 0-9 _ . -, not only dots",
        examples=["web-shop"],
    ),
]


@keys_router.get(
    "/v1/platform-keys",
    summary="The platform keys and their scopes",
    response_model=models.PlatformKeys,
    responses=problems(403, *ANYBODY),
)
async def list_keys(service: Here) -> Response:
    """Name the keys that work, and what each may do; of the keys themselves only digests are kept."""
    kept = await service.in_store(service.store.keys)
    shown = [models.PlatformKeyShown(name=key.name, scopes=sorted(key.scopes)) for key in kept]
    return answer(models.PlatformKeys(keys=shown))


@keys_router.post(
    "/v1/platform-keys/{name}",
    summary="Make a platform key",
    response_model=models.NewPlatformKey,
    status_code=201,
    responses={201: {"description": "The key, shown this once."}, **problems(403, 409, *WITH_BODY, *ANYBODY)},
    openapi_extra=takes(models.KeyRequest, {"scopes": ["report"]}),
)
async def make_key(request: Request, service: Here, caller: Permitted, name: KeyName) -> Response:
    """Make a key with some of the caller's own scopes; one of that name is not replaced."""
    body = parsed(models.KeyRequest, await body_of(request, MOST_BYTES))
    caller.check_scopes(body.scopes)
    scopes = sorted({scope.value for scope in body.scopes})
    async with recorded(request, key=name, scopes=scopes):
        secret = await service.make_platform_key(name, frozenset(body.scopes))
        if secret is None:
            raise conflict("There is a key of that name; remove it first, or choose another name.")
    return answer(models.NewPlatformKey(name=name, key=secret, scopes=scopes), 201)


@keys_router.delete(
    "/v1/platform-keys/{name}",
    summary="Remove a platform key",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "The key does not work any more."}, **problems(403, 404, 409, 422, *ANYBODY)},
)
async def remove_key(request: Request, service: Here, name: KeyName) -> Response:
    """Remove a key: here at once, in other processes on the store within seconds. The last one with admin stays."""
    async with recorded(request, key=name):
        if not await service.remove_platform_key(name):
            if name in [key.name for key in await service.in_store(service.store.keys)]:
                raise conflict("This is the last key with the scope admin; make another one first.")
            raise not_found()
    return Response(status_code=204)


# For operators and platforms: the card, the ledger, intervals, and a test hook.


operator_router = APIRouter(tags=["operator"], dependencies=PERMITTED)

PeopleToHideAmong = Annotated[
    int,
    Query(
        ge=2,
        le=MOST_HIDE_AMONG,
        description="N, the mean number of users to hide among; half of all users have fewer than about N/2 others "
        "nearer. A cell holds a tenth of N.",
    ),
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
)
async def guarantee(service: Here) -> Response:
    """Return what the service guarantees to its people, and what it does not."""
    return answer(await service.in_store(_card, service))


@operator_router.get(
    "/v1/ledger",
    summary="The ledger's state",
    response_model=models.LedgerState,
    responses=problems(403, *ANYBODY),
)
async def ledger(service: Here) -> Response:
    """Return how many people there are, epoch, window and budget.

    Not what is charged, or waits: that would tell where people are.
    """
    return answer(await service.in_store(_ledger, service))


@operator_router.put(
    "/v1/intervals",
    summary="Put new intervals",
    response_model=models.IntervalsTaken,
    status_code=202,
    responses={202: {"description": "They hold from that epoch on."}, **problems(403, *WITH_BODY, *ANYBODY)},
    openapi_extra=_INTERVALS_BODY,
)
async def put_intervals(request: Request, service: Here) -> Response:
    """Use other intervals from the next epoch on; old and new are never mixed in one epoch."""
    document = parsed_document(await body_of(request, MOST_BYTES_OF_INTERVALS))
    async with recorded(request):
        try:
            from_epoch = await service.in_store(service.put_intervals, document)
        except DataError:
            raise invalid("The body is not an intervals file for the service's region; fit again.") from None
    return answer(models.IntervalsTaken(from_epoch=from_epoch), 202)


@operator_router.get(
    "/v1/intervals",
    summary="The intervals in use",
    response_model=models.IntervalsShown,
    responses=problems(*ANYBODY),
)
async def intervals(service: Here) -> Response:
    """Say which intervals are in use, and which wait for an epoch boundary."""
    return answer(await service.in_store(_intervals, service))


@operator_router.get(
    "/v1/cells",
    summary="Cells from the published places",
    response_class=JSONResponse,
    responses={
        200: {
            "description": "A cells file for --cells (GeoJSON).",
            "content": {"application/json": {"schema": {"type": "object"}}},
        },
        **problems(403, 409, 422, *ANYBODY),
    },
)
async def cells(service: Here, hide_among: PeopleToHideAmong = 100) -> Response:
    """Make cells from what is published, which costs nobody anything. To use them draws all noise anew."""
    try:
        made = await service.in_store(service.make_cells, hide_among)
    except (DataError, UsageError) as error:
        raise conflict(f"{str(error)[0].upper()}{str(error)[1:]}.") from None
    return Response(made.to_json(), media_type="application/json")


@operator_router.post(
    "/v1/epoch",
    summary="Advance the epoch (test hook)",
    response_model=models.EpochShown,
    responses=problems(403, 404, *ANYBODY),
)
async def advance_epoch(request: Request, service: Here) -> Response:
    """Go to the next epoch at once; only where the setting test_hooks allows it."""
    if not service.settings.test_hooks:
        raise not_found()
    async with recorded(request):
        epoch = await service.in_store(service.advance)
    return answer(models.EpochShown(epoch=epoch))


def _card(service: Service) -> models.Card:
    card, region = service.card(), service.protection.region
    return models.Card(
        region=models.RegionShown(south=region.south, west=region.west, north=region.north, east=region.east),
        guarantee=card.to_dict(),
        text=card.explain(),
    )


def _ledger(service: Service) -> models.LedgerState:
    totals, protection, epoch = service.totals(), service.protection, service.publisher.epoch
    return models.LedgerState(
        people=totals.people,
        published=totals.published,
        epoch=epoch,
        window=protection.schedule.window_of(epoch),
        next_epoch_at=service.publisher.starts_at(epoch + 1),
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

ReadyFor = Annotated[
    Literal["everything", "questions"], Query(alias="for", description="What the service should be ready for.")
]


@probes_router.get(HEALTH_PATH, summary="Whether the process answers", response_model=models.Health)
async def health() -> Response:
    """Answer without a key and without checks."""
    return answer(models.Health(status="ok"))


@probes_router.get(
    READY_PATH,
    dependencies=PERMITTED,
    summary="Whether reports and questions are taken",
    response_model=models.Readiness,
    responses=problems(403, 422, *ANYBODY),
)
async def readiness(service: Here, what: ReadyFor = "everything") -> Response:
    """Answer 503, with a reason, until the index is loaded and while the store cannot be written.

    With ``for=questions`` only while questions of known callers are not answered: during an outage of the database they
    are, for a while.
    """
    if what == "everything":
        reason = await service.why_not_ready()
    else:
        reason = None if service.answers_questions else "starting"
    epoch = service.scheduler.epoch
    if epoch is None or reason is not None:
        raise not_ready(reason=reason or "starting")
    return answer(models.Readiness(status="ready", epoch=epoch, people_on_the_map=len(service.index)))


@probes_router.get(
    METRICS_PATH,
    dependencies=PERMITTED,
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={
        200: {"description": "Counters and gauges.", "content": {"text/plain": {"schema": {"type": "string"}}}},
        **problems(403, *ANYBODY),
    },
)
async def metrics(service: Here) -> Response:
    """Return metrics, without ids of people or locations."""
    # In an outage the metrics are needed most; then the totals are the last ones.
    with suppress(StoreError):
        await service.in_store(service.totals)
    text, kind = await service.in_store(service.metrics.exposition)
    return Response(text, media_type=kind)


@probes_router.get(OPENAPI_PATH, include_in_schema=False, dependencies=PERMITTED)
async def description(request: Request) -> Response:
    """Return the description of this interface."""
    return Response(json.dumps(request.app.openapi()), media_type="application/json")


ROUTERS = (probes_router, people_router, locations_router, operator_router, keys_router)
