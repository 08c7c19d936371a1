"""For operators and platforms: the card, the ledger, intervals, and a test hook."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from nearveil.errors import DataError
from nearveil.server import models
from nearveil.server.bodies import MOST_BYTES_OF_INTERVALS, parsed_document
from nearveil.server.openapi import ANYBODY, PERSON, PLATFORM, WITH_BODY, problems, secured
from nearveil.server.problems import invalid, not_found
from nearveil.server.routes.common import AnyCaller, Here, PlatformOnly, answer, body_of
from nearveil.server.service import Service

router = APIRouter(tags=["operator"])

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


@router.get(
    "/v1/guarantee",
    summary="The guarantee card",
    response_model=models.Card,
    responses=problems(*ANYBODY),
    openapi_extra=secured(PLATFORM, PERSON),
)
async def guarantee(service: Here, _: AnyCaller) -> Response:
    """Return what the people of this service are promised, and what they are not."""
    return answer(await asyncio.to_thread(_card, service))


@router.get(
    "/v1/ledger",
    summary="The ledger's state",
    response_model=models.Ledger,
    responses=problems(403, *ANYBODY),
    openapi_extra=secured(PLATFORM),
)
async def ledger(service: Here, _: PlatformOnly) -> Response:
    """Return totals, epoch, window and budget; nobody is named."""
    return answer(await asyncio.to_thread(_ledger, service))


@router.put(
    "/v1/intervals",
    summary="Put new intervals",
    response_model=models.IntervalsTaken,
    status_code=202,
    responses={202: {"description": "They hold from that epoch on."}, **problems(403, *WITH_BODY, *ANYBODY)},
    openapi_extra={**_INTERVALS_BODY, **secured(PLATFORM)},
)
async def put_intervals(request: Request, service: Here, _: PlatformOnly) -> Response:
    """Use other intervals from the next border on; old and new are never mixed in one epoch."""
    document = parsed_document(await body_of(request, MOST_BYTES_OF_INTERVALS))
    try:
        from_epoch = await asyncio.to_thread(service.put_intervals, document)
    except DataError:
        raise invalid("The body is no intervals file for the service's region; fit again.") from None
    return answer(models.IntervalsTaken(from_epoch=from_epoch), 202)


@router.get(
    "/v1/intervals",
    summary="The intervals in use",
    response_model=models.IntervalsShown,
    responses=problems(*ANYBODY),
    openapi_extra=secured(PLATFORM, PERSON),
)
async def intervals(service: Here, _: AnyCaller) -> Response:
    """Say which intervals are in use, and which wait for a border."""
    return answer(await asyncio.to_thread(_intervals, service))


@router.post(
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
        text=card.card(),
    )


def _ledger(service: Service) -> models.Ledger:
    totals, protection, epoch = service.totals(), service.protection, service.publisher.epoch
    return models.Ledger(
        people=totals.people,
        published=totals.published,
        pending=totals.pending,
        charged_by_window={str(window): charged for window, charged in sorted(totals.charged_by_window.items())},
        epoch=epoch,
        window=protection.schedule.window_of(epoch),
        next_border=service.publisher.starts_at(epoch + 1),
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
