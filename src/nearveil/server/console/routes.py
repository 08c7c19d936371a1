"""The console: a page without data for everybody, and what it shows for platforms."""

from __future__ import annotations

import gzip
import hashlib
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata, resources
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from nearveil.evaluation.year_curve import year_chart
from nearveil.nearby.stores import is_postgres
from nearveil.nearby.stores.base import StoreError, StoreExtent
from nearveil.privacy.explain import believed_at_most
from nearveil.privacy.guarantee import Guarantee, PrivacyDefinition, round_up
from nearveil.report.land import land_in
from nearveil.server.asgi import MOST_BYTES
from nearveil.server.console.demonstration import (
    DemonstrationLock,
    DemonstrationOptions,
    attack_somebody,
    scene_to_dict,
)
from nearveil.server.console.prediction import predictions
from nearveil.server.frequent_askers import MANY_QUESTIONS, FrequentAskers
from nearveil.server.logs import log_seldom
from nearveil.server.models import parsed
from nearveil.server.problems import not_found, not_ready
from nearveil.server.routes import PERMITTED, Permitted, body_of, recorded
from nearveil.server.scopes import ABOUT
from nearveil.server.service import Service

MOST_SHOWN = 3_000
MOST_ASKERS_SHOWN = 100
_DECIMALS = 6


def console_router(service: Service) -> APIRouter:
    """Return the console's routes. They are the page's own and no part of the described API."""
    router = APIRouter(include_in_schema=False)
    lock = DemonstrationLock()
    page_headers = {"Content-Security-Policy": content_policy(service.settings.tile_address), **_HARDENED}

    @router.get("/")
    def page(request: Request) -> Response:
        return _file(request, "index.html", page_headers)

    @router.get("/console/{name}")
    def file(request: Request, name: str) -> Response:
        return _file(request, name, _HARDENED)

    @router.get("/v1/console/map", dependencies=PERMITTED)
    def published_map() -> Response:
        return _json(map_of(service))

    @router.get("/v1/console/state")
    def state(caller: Permitted) -> Response:
        return _json({**state_of(service), "key": {"name": caller.name, "scopes": sorted(caller.scopes)}})

    @router.get("/v1/console/store", dependencies=PERMITTED)
    async def store() -> Response:
        return _json(await store_state_of(service))

    @router.get("/v1/console/askers", dependencies=PERMITTED)
    async def askers(request: Request) -> Response:
        async with recorded(request):
            return _json(askers_of(service.frequent_askers))

    @router.get("/v1/console/prediction", dependencies=PERMITTED)
    def prediction() -> Response:
        return _json({**predictions(), "year": year_chart(service.publisher.promised)})

    @router.post("/v1/console/demonstration")
    async def demonstration(request: Request, caller: Permitted) -> Response:
        options = parsed(DemonstrationOptions, await body_of(request, MOST_BYTES))
        with lock.held_by(caller.name):
            story = await run_in_threadpool(lambda: scene_to_dict(attack_somebody(options, service.protection.region)))
        return _json({**options.model_dump(), **story})

    return router


def map_of(service: Service) -> dict[str, Any]:
    """Return where some of the people are published, and what to draw below them; nobody is named."""
    region = service.protection.region
    rng = np.random.default_rng()
    _, places = service.index.sample(MOST_SHOWN, rng)
    tiles = service.settings.tile_address
    return {
        "number": len(service.index),
        # In no order: in the same one each time, a row would be a person, who could be followed from epoch to epoch.
        "places": rng.permutation(np.asarray(places, dtype=np.float64).reshape(-1, 2)).round(_DECIMALS).tolist(),
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


# The files of the page: ours from this package, the drawing library from its own.


_HERE = resources.files("nearveil.server.console").joinpath("static")
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_OURS = "no-cache"
_FOR_EVER = "public, max-age=31536000, immutable"
_PLOTLY_MARK = "@@PLOTLY@@"


@dataclass(frozen=True, slots=True, eq=False)
class PageFile:
    """A file as it is sent.

    Attributes
    ----------
    plain, packed : bytes
        As it is, and compressed with gzip.
    kind, caching, tag : str
        Values of its headers; the tag changes with the content.
    """

    plain: bytes
    packed: bytes
    kind: str
    caching: str
    tag: str


def plotly_name() -> str:
    """Return under which name Plotly's script is served: with its version, so that it can be kept for ever."""
    return f"plotly-{metadata.version('plotly')}.min.js"


@lru_cache(maxsize=32)
def page_file(name: str) -> PageFile:
    """Return a file by its name; raises the problem ``not-found``."""
    if name == plotly_name():
        plain = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
        return _sent(plain, ".js", _FOR_EVER)
    if name not in _names():
        raise not_found()
    text = _HERE.joinpath(name).read_text(encoding="utf-8").replace(_PLOTLY_MARK, plotly_name())
    return _sent(text.encode(), "." + name.rpartition(".")[2], _OURS)


def content_policy(tile_address: str | None) -> str:
    """Return what the page may load: its own files, and images of the tile server if there is one."""
    tiles = tile_origin(tile_address)
    images = " ".join(["'self'", "data:", "blob:", *([tiles] if tiles else [])])
    rules = (
        "default-src 'none'",
        "script-src 'self'",
        # Plotly writes its few rules into the page.
        "style-src 'self' 'unsafe-inline'",
        f"img-src {images}",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return "; ".join(rules)


def tile_origin(tile_address: str | None) -> str | None:
    """Return scheme and host of a tile server's address; None if there is none, or it is no address.

    Examples
    --------
    >>> tile_origin("https://tiles.example.org/{z}/{x}/{y}.png")
    'https://tiles.example.org'
    """
    if not tile_address:
        return None
    try:
        parts = urlsplit(tile_address)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    plain = host is not None and all(letter.isalnum() or letter in ".-" for letter in host) and host.isascii()
    if parts.scheme not in ("http", "https") or not plain:
        return None
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(
        entry.name for entry in _HERE.iterdir() if entry.is_file() and "." + entry.name.rpartition(".")[2] in _KINDS
    )


def _sent(plain: bytes, suffix: str, caching: str) -> PageFile:
    tag = f'"{hashlib.sha256(plain).hexdigest()[:24]}"'
    return PageFile(plain, gzip.compress(plain, 6, mtime=0), _KINDS[suffix], caching, tag)


# The ledger's state as the page shows it: totals, times and counters, nobody named.


# A counter ends in _total; of a histogram, _count says how many.
_QUESTIONS = re.compile(r"^nearveil_questions?(?:_seconds)?_(?:total|count)(?:\{[^}]*\})? (\S+)", re.MULTILINE)


def state_of(service: Service) -> dict[str, Any]:
    """Return what is known about the service as a whole."""
    publisher, protection = service.publisher, service.protection
    epoch, schedule, totals = publisher.epoch, protection.schedule, service.totals()
    window = schedule.window_of(epoch)
    return {
        "now": service.clock(),
        "noise_m": protection.noise_m,
        "hide_among": None if protection.among is None else protection.among.hide_among,
        "epoch": {
            "number": epoch,
            "length_s": schedule.epoch_s,
            "next_epoch_at": publisher.starts_at(epoch + 1),
        },
        "window": {
            "number": window,
            "epochs": schedule.epochs_per_window,
            "ends": publisher.starts_at((window + 1) * schedule.epochs_per_window),
        },
        "ledger": {
            "people": totals.people,
            "published": totals.published,
            "budget_per_person": protection.new_places,
        },
        "questions": _counted(service, _QUESTIONS),
        "guarantee": card_of(service.card()),
        "scopes": [{"name": scope, "about": about} for scope, about in ABOUT.items()],
    }


def _counted(service: Service, pattern: re.Pattern[str]) -> int:
    """Sum of a counter over its labels, since the process started."""
    text = service.metrics.exposition()[0].decode()
    return round(sum(float(value) for value in pattern.findall(text)))


# The store's health, also while the store is away.


_SMALLEST_BYTES = 2**20


async def store_state_of(service: Service) -> dict[str, Any]:
    """Return whether the store can be read and written, why not, and how far it is; nothing about anybody.

    What waits and what is charged is left out, and the size is rounded up to a power of two: an exact one grows when a
    place is new.
    """
    reason = await service.why_not_ready()
    found: tuple[StoreExtent, int | None, int] | None = None
    try:
        found = await service.in_store(
            lambda: (service.store.extent(), service.store.last_epoch(), service.publisher.epoch)
        )
    except StoreError as error:
        log_seldom("store failed", error)
    extent, last_epoch, epoch = found or (None, service.scheduler.epoch, None)
    written_ago_s = service.health.written_ago_s
    detail = not_ready(reason=reason).detail if reason else None if found else "The store cannot be read; see the log."
    return {
        "kind": "PostgreSQL" if is_postgres(service.settings.store) else "SQLite, one file",
        "is_reachable": found is not None,
        "is_writable": service.health.reason is None and written_ago_s is not None,
        "reason": detail,
        "last_epoch": last_epoch,
        "epochs_behind": None if epoch is None or last_epoch is None else epoch - last_epoch,
        "written_epochs_ago": (
            None if written_ago_s is None else math.floor(written_ago_s / service.protection.schedule.epoch_s)
        ),
        "version": None if extent is None else extent.version,
        "size_at_most_bytes": None if extent is None else rounded_up_bytes(extent.size_bytes),
    }


def rounded_up_bytes(size_bytes: int) -> int:
    """Return the next power of two, from 1 MiB on.

    Examples
    --------
    >>> [rounded_up_bytes(size) // 2**20 for size in (5000, 2**20, 2**20 + 1, 40 * 2**20)]
    [1, 1, 2, 64]
    """
    return 1 << (max(size_bytes, _SMALLEST_BYTES) - 1).bit_length()


# Who asks much.


def askers_of(frequent: FrequentAskers) -> dict[str, Any]:
    """Return who asked many questions in an epoch that has ended, by the number of questions alone."""
    listed = frequent.listed()
    return {
        "epochs": frequent.epochs,
        "many_questions": MANY_QUESTIONS,
        "number": len(listed),
        "askers": [
            {"id": asker.person, "epochs": asker.epochs, "questions": asker.questions}
            for asker in listed[:MOST_ASKERS_SHOWN]
        ],
    }


# The guarantee card as plain statements: what a page shows to somebody who has never heard of epsilon.


_DISTANCES_M = (50, 100, 250, 500, 1000, 2000)
_STEPS = (1, 2, 3, 4)
_HOPELESS = 0.999


def card_of(guarantee: Guarantee) -> dict[str, Any]:
    """Return the card: whether all of it holds, every statement, the notes, and the text that is printed."""
    statements = (guarantee, *guarantee.also)
    return {
        "holds": all(statement.holds for statement in statements),
        "statements": [_statement(statement) for statement in statements],
        "notes": [note for statement in statements for note in statement.notes],
        "text": guarantee.explain(),
    }


def _statement(guarantee: Guarantee) -> dict[str, Any]:
    return {
        "title": guarantee.title,
        "holds": guarantee.holds,
        "terms": [
            {"term": "What it means", "text": _sentence(guarantee.promise)},
            *([{"term": "Not covered", "text": _sentence(guarantee.not_covered)}] if guarantee.not_covered else []),
            {"term": "Between what", "text": _sentence(guarantee.neighbors)},
            {"term": "The number", "text": _number(guarantee)},
            {"term": "Why", "text": _sentence(f"{guarantee.basis}: {guarantee.because}")},
        ],
        "by_distance": _by_distance(guarantee) if guarantee.holds else [],
    }


def _number(guarantee: Guarantee) -> str:
    offset = f", and {round_up(guarantee.offset)} on top" if guarantee.offset else ""
    delta = f"; delta = {round_up(guarantee.delta)}" if guarantee.delta else ""
    number = f"{round_up(guarantee.epsilon)} {guarantee.unit}{offset}"
    return f"Epsilon = {number} ({guarantee.definition} privacy definition){delta}."


def _by_distance(guarantee: Guarantee) -> list[dict[str, Any]]:
    """How sure somebody can become of one of two places that they held equally likely, in per cent, rounded up."""
    if not guarantee.definition.is_by_distance:
        return []
    distances = _DISTANCES_M if guarantee.definition is PrivacyDefinition.METRIC else _STEPS
    found: list[dict[str, Any]] = []
    for distance in distances:
        sure = believed_at_most(guarantee.epsilon * distance + guarantee.offset)
        hidden = sure <= _HOPELESS
        apart = (
            f"{distance:,} m"
            if guarantee.definition is PrivacyDefinition.METRIC
            else f"{distance} step{'s' * (distance != 1)}"
        )
        found.append({"apart": apart, "sure_percent": math.ceil(1000 * sure) / 10 if hidden else None})
        if not hidden:
            break
    return found


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."
