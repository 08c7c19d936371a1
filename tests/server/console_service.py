"""A running service with made-up people, for tests of the console."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn

from nearveil.io.synthetic import synthetic_city
from nearveil.report.land import land_in
from nearveil.server.app import create_app
from nearveil.server.auth import new_platform_key
from nearveil.server.service import Service
from nearveil.server.settings import Settings
from nearveil.types import FloatArray
from tests.waiting import PATIENCE_S

PEOPLE = 400


class Place:
    """A service, its key, and where its people truly are."""

    def __init__(self, service: Service, key: str, true: FloatArray) -> None:
        self.service, self.key, self.true = service, key, true
        self.headers = {"Authorization": f"Bearer {key}"}


@contextmanager
def console_service(folder: Path, **options: Any) -> Iterator[Place]:
    """Open a service with people who are published."""
    usual = {"store": str(folder / "nearveil.db"), "region": "san-francisco", "test_hooks": True}
    settings = Settings.load(environ={}, options={**usual, **options})
    service = Service.open(settings)
    try:
        secret, kept = new_platform_key("test")
        service.store.add_key(kept)
        service.start()
        region = service.protection.region
        true = synthetic_city(PEOPLE, region, rng=5, land=land_in(region))
        people = [f"person-{number}" for number in range(PEOPLE)]
        service.add_people(people)
        reports = [
            service.publisher.accept(person, *place) for person, place in zip(people, true.tolist(), strict=True)
        ]
        service._receive(reports)
        service.advance()
        yield Place(service, secret, true)
    finally:
        service.close()


@contextmanager
def served(service: Service) -> Iterator[str]:
    """Serve it on a free port of this machine, and return its address."""
    config = uvicorn.Config(create_app(service), host="127.0.0.1", port=0, log_level="error", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    started = threading.Event()
    startup = server.startup

    async def tell(*arguments: Any, **named: Any) -> None:
        await startup(*arguments, **named)
        started.set()

    server.startup = tell  # type: ignore[method-assign]
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        assert started.wait(PATIENCE_S), "the server does not start"
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)


def as_set(places: FloatArray) -> set[tuple[float, float]]:
    """Places as they would look in an answer."""
    return {(latitude, longitude) for latitude, longitude in np.asarray(places).round(6).tolist()}
