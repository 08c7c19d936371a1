"""For whoever runs the service: health, readiness, metrics."""

from __future__ import annotations

import asyncio
import json

from fastapi import APIRouter, Request, Response

from nearveil.server import models
from nearveil.server.guard import CALLER, HEALTH_PATH, METRICS_PATH, OPENAPI_PATH, READY_PATH
from nearveil.server.openapi import ANYBODY, PLATFORM, problems, secured
from nearveil.server.problems import forbidden, not_ready
from nearveil.server.routes.common import AnyCaller, Here, answer

router = APIRouter(tags=["probes"])


@router.get(HEALTH_PATH, summary="Whether the process answers", response_model=models.Health)
async def health() -> Response:
    """Answer without a key and without looking at anything."""
    return answer(models.Health(status="ok"))


@router.get(
    READY_PATH,
    summary="Whether reports and questions are taken",
    response_model=models.Readiness,
    responses=problems(403, *ANYBODY),
    openapi_extra=secured(PLATFORM),
)
async def readiness(request: Request, service: Here) -> Response:
    """Answer 503 until the index is loaded and while the store is out of reach."""
    _refuse_people(request)
    epoch = service.clockwork.epoch
    if epoch is None or not service.is_ready:
        raise not_ready()
    await asyncio.to_thread(service.store.last_epoch)
    return answer(models.Readiness(status="ready", epoch=epoch, people_on_the_map=len(service.index)))


@router.get(
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
    """Return numbers that name nobody and no place."""
    _refuse_people(request)
    await asyncio.to_thread(service.totals)
    text, kind = service.metrics.exposition()
    return Response(text, media_type=kind)


@router.get(OPENAPI_PATH, include_in_schema=False)
async def description(request: Request, _: AnyCaller) -> Response:
    """Return the description of this interface."""
    return Response(json.dumps(request.app.openapi()), media_type="application/json")


def _refuse_people(request: Request) -> None:
    """Refuse people's tokens; that there is a caller at all, or none is needed, is for the guard to say."""
    caller = request.scope.get(CALLER)
    if caller is not None and caller.kind != "platform":
        raise forbidden()
