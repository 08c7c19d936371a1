"""A real service on a real store, called through its application, with a clock that only tests move."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from nearveil.nearby.publishing.keys import SecretKeys, new_keys
from nearveil.nearby.stores import open_store
from nearveil.nearby.stores.base import Store
from nearveil.nearby.stores.sqlite import SqliteStore
from nearveil.server.app import create_app
from nearveil.server.auth import new_platform_key
from nearveil.server.service import Service
from nearveil.server.settings import Settings

HOUR_S = 3600.0
START_S = 486_000 * HOUR_S + 60.0
HERE = {"latitude": 37.774937, "longitude": -122.419418}
"""Written with six decimals, so that a search for them finds nothing by chance."""


@dataclass
class Clock:
    now: float = START_S

    def __call__(self) -> float:
        return self.now


@dataclass
class Running:
    service: Service
    clock: Clock
    key: str
    app: Any = field(repr=False)

    def call(self, method: str, path: str, *, key: str | None = "", **request: Any) -> httpx.Response:
        """Send a request; with the platform's key unless another one, or None, is given."""
        headers = dict(request.pop("headers", {}))
        if key is not None:
            headers["Authorization"] = f"Bearer {key or self.key}"
        return asyncio.run(self._send(method, path, headers, request))

    async def _send(self, method: str, path: str, headers: dict[str, str], request: dict[str, Any]) -> httpx.Response:
        transport = httpx.ASGITransport(app=self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            return await client.request(method, path, headers=headers, **request)

    def add(self, *people: str) -> None:
        assert self.call("POST", "/v1/people", json={"ids": list(people)}).status_code == 200

    def token(self, person: str, expires_in_s: int = 3600) -> str:
        answer = self.call("POST", f"/v1/people/{person}/tokens", json={"expires_in_s": expires_in_s})
        assert answer.status_code == 201, answer.text
        token: str = answer.json()["token"]
        return token

    def report(self, person: str, place: Mapping[str, Any] | None = None, **request: Any) -> httpx.Response:
        return self.call("PUT", f"/v1/people/{person}/location", json=place or HERE, **request)

    def nearby(self, place: dict[str, float] | None = None, **request: Any) -> list[str]:
        extra = request.pop("extra", {})
        answer = self.call("POST", "/v1/nearby", json={**(place or HERE), "k": 10, **extra}, **request)
        assert answer.status_code == 200, answer.text
        ids: list[str] = answer.json()["ids"]
        return ids

    def next_epoch(self) -> None:
        self.clock.now += self.service.protection.schedule.epoch_s
        self.service.scheduler.turn()

    def state(self) -> Any:
        """Everything that is kept, to see that nothing changed."""
        store = self.service.store
        published = sorted((person, *steps) for batch in store.published() for person, steps in _rows(batch))
        return store.totals(), published, store.last_epoch(), sorted(held.name for held in list(store.keys()))


def _rows(batch: Any) -> Iterator[tuple[str, list[int]]]:
    return zip(batch.people, batch.steps.tolist(), strict=True)


@contextmanager
def running(
    store: Store | None = None,
    *,
    address: str | None = None,
    keys: SecretKeys | None = None,
    clock: Clock | None = None,
    wrapped: Callable[[Store], Store] = lambda store: store,
    **options: Any,
) -> Iterator[Running]:
    clock = clock or Clock()
    variables = {}
    if address is not None:
        store, variables = open_store(address), {"NEARVEIL_STORE": address}
    # Most tests are about something else than chains of reports, and report without receipts.
    settings = Settings.load(
        None, variables, {"region": "san-francisco", "console": False, "chained_reports": "if-sent", **options}
    )
    store = wrapped(store or SqliteStore.in_memory())
    try:
        service = Service(settings, store, keys or new_keys(), clock=clock)
        service.check()
    except BaseException:
        store.close()
        raise
    try:
        secret, kept = new_platform_key("tests")
        service.store.add_key(kept)
        service.start()
        service.scheduler.turn()
        yield Running(service, clock, secret, create_app(service))
    finally:
        service.close()


def in_folder(folder: Path) -> SqliteStore:
    return SqliteStore(folder / "nearveil.db")
