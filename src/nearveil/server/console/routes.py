"""Routes of the console: a page without data for everybody, and what it shows for platforms."""

from __future__ import annotations

from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from nearveil.report.maps import land_in
from nearveil.server.bodies import MOST_BYTES, parsed
from nearveil.server.console.demonstration import DemonstrationWish, Turns, attack_somebody
from nearveil.server.console.pages import content_policy, page_file, tile_origin
from nearveil.server.console.prediction import predictions
from nearveil.server.console.state import state_of
from nearveil.server.console.trace import told
from nearveil.server.routes.common import PlatformOnly, body_of
from nearveil.server.service import Service

MOST_SHOWN = 3_000
_DECIMALS = 6


def console_router(service: Service) -> APIRouter:
    """Return the console's routes. They are the page's own and no part of the described API."""
    router = APIRouter(include_in_schema=False)
    turns = Turns()
    page_headers = {"Content-Security-Policy": content_policy(service.settings.tile_address), **_HARDENED}

    @router.get("/")
    def page(request: Request) -> Response:
        return _file(request, "index.html", page_headers)

    @router.get("/console/{name}")
    def file(request: Request, name: str) -> Response:
        return _file(request, name, _HARDENED)

    @router.get("/v1/console/map")
    def published_map(_: PlatformOnly) -> Response:
        return _json(map_of(service))

    @router.get("/v1/console/state")
    def state(_: PlatformOnly) -> Response:
        return _json(state_of(service))

    @router.get("/v1/console/prediction")
    def prediction(_: PlatformOnly) -> Response:
        return _json(predictions())

    @router.post("/v1/console/demonstration")
    async def demonstration(request: Request, caller: PlatformOnly) -> Response:
        wish = parsed(DemonstrationWish, await body_of(request, MOST_BYTES))
        with turns.of(caller.name):
            story = await run_in_threadpool(lambda: told(attack_somebody(wish, service.protection.region)))
        return _json({**wish.model_dump(), **story})

    return router


def map_of(service: Service) -> dict[str, Any]:
    """Return where some of the people are published, and what to draw below them; nobody is named."""
    region = service.protection.region
    _, places = service.index.sample(MOST_SHOWN, np.random.default_rng())
    tiles = service.settings.tile_address
    return {
        "number": len(service.index),
        "protected": not service.is_unprotected,
        "places": np.asarray(places, dtype=np.float64).reshape(-1, 2).round(_DECIMALS).tolist(),
        "region": {
            "name": region.name,
            "south": region.south,
            "west": region.west,
            "north": region.north,
            "east": region.east,
            "centre": list(region.centre),
        },
        "coastline": _coastline([ring[:, ::-1].round(_DECIMALS).tolist() for ring in land_in(region)]),
        "tile_address": tiles if tile_origin(tiles) else None,
    }


def _coastline(rings: list[Any]) -> dict[str, Any]:
    lines = [
        {"type": "Feature", "properties": {}, "geometry": {"type": "LineString", "coordinates": ring}} for ring in rings
    ]
    return {"type": "FeatureCollection", "features": lines}


_HARDENED = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"}


def _json(document: Any) -> Response:
    return JSONResponse(document, headers={"Cache-Control": "no-store", **_HARDENED})


def _file(request: Request, name: str, headers: dict[str, str]) -> Response:
    sent = page_file(name)
    about = {**headers, "Cache-Control": sent.caching, "ETag": sent.tag, "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == sent.tag:
        return Response(status_code=304, headers=about)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(sent.packed, media_type=sent.kind, headers={**about, "Content-Encoding": "gzip"})
    return Response(sent.plain, media_type=sent.kind, headers=about)
