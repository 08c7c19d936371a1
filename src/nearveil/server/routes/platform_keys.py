"""Platform keys: made, listed and removed while the service runs."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Response

from nearveil.server import models
from nearveil.server.openapi import ANYBODY, PLATFORM, problems, secured
from nearveil.server.problems import conflict, not_found
from nearveil.server.routes.common import Here, PlatformOnly, answer

router = APIRouter(tags=["operator"])

KeyName = Annotated[
    str,
    Path(
        alias="name",
        pattern=models.KEY_NAME_PATTERN,
        min_length=1,
        max_length=64,
        description="A key's name: 1 to 64 characters of A-Z a-z 0-9 _ . -",
        examples=["web-shop"],
    ),
]


@router.get(
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


@router.post(
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


@router.delete(
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
