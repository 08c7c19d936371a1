"""Locations: report one, take it off the map, ask who is near.

Reports and questions are taken by `HotRoutes` before a request comes here. They are routes all the same, so that they
are described, and that other methods are refused as everywhere.
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from nearveil.server import models
from nearveil.server.hot_route import HotRoutes
from nearveil.server.openapi import ANYBODY, PERSON, PLATFORM, WITH_BODY, problems, secured, takes
from nearveil.server.problems import not_found
from nearveil.server.routes.common import Here, PersonInPath, PlatformOrOwner

router = APIRouter(tags=["locations"])


def hot_of(request: Request) -> HotRoutes:
    """Return what answers questions and takes reports."""
    hot: HotRoutes = request.app.state.hot
    return hot


_EXAMPLE = {"latitude": 37.7749, "longitude": -122.4194}


@router.put(
    "/v1/people/{id}/location",
    summary="Report where a person is",
    response_model=models.ReportTaken,
    status_code=202,
    responses={
        202: {"description": "The report is perturbed, and the draw is kept durably."},
        **problems(403, 404, *WITH_BODY, *ANYBODY),
    },
    openapi_extra=takes(models.Place, _EXAMPLE, PLATFORM, PERSON),
)
async def report_location(request: Request, _: PersonInPath) -> Response:
    """Report a place: it is perturbed on receipt, and published at the border of the epoch at the earliest."""
    status, body = await hot_of(request).report(request.scope, request.receive)
    return Response(body, status, media_type="application/json")


@router.delete(
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


@router.post(
    "/v1/nearby",
    summary="Ask who is near",
    response_model=models.Nearby,
    responses=problems(403, *WITH_BODY, *ANYBODY),
    openapi_extra=takes(models.Question, {**_EXAMPLE, "k": 10}, PLATFORM, PERSON),
)
async def ask_nearby(request: Request) -> Response:
    """Return ids, nearest first, by published places; a token's person and the asker are left out."""
    status, body = await hot_of(request).ask(request.scope, request.receive)
    return Response(body, status, media_type="application/json")
