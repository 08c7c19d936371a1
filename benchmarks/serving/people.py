"""A store with many published people, made once and copied for every run."""

import os
import secrets
import shutil
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np

from nearveil.io.synthetic import synthetic_city
from nearveil.nearby.publishing.keys import TAG_BYTES
from nearveil.nearby.stores.base import STEP_M, NoisyLocation
from nearveil.nearby.stores.sqlite import SqliteStore
from nearveil.region import named_region
from nearveil.server.auth import new_platform_key
from nearveil.server.service import Service
from nearveil.server.settings import Settings
from nearveil.types import FloatArray, IntArray

REGION = named_region("san-francisco")
BATCH = 10_000
NOISE_M = 500.0
PLATFORM_KEY_FILE = "load-test-key.txt"


def person_id(number: int) -> str:
    """Return the id of a made-up person."""
    return f"person-{number:07d}"


def prepared_store(people: int, epoch: str, window: str) -> Path:
    """Return a folder with a store of so many published people, its keys and a platform key."""
    folder = Path(tempfile.gettempdir()) / f"nearveil-load-{os.getuid()}" / f"{people}-{epoch}-{window}"
    if not (folder / PLATFORM_KEY_FILE).exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, mode=0o700)
        _fill(folder, people, epoch, window)
    return folder


def places_to_ask_from(count: int) -> FloatArray:
    """Return places where people are, in degrees."""
    return synthetic_city(count, REGION, rng=2)


def tag_people(store: Path, first: str, rare: str) -> None:
    """Give every second person of a SQLite store one tag, and every hundredth another."""
    opened = SqliteStore(store)
    try:
        # The tags get their bits.
        opened.set_tags(person_id(0), [first])
        opened.set_tags(person_id(0), [first, rare])
    finally:
        opened.close()
    # Of a million people one by one it would take longer than the benchmark.
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE people SET tags = (number % 2 = 0) + 2 * (number % 100 = 0)")


def _fill(folder: Path, people: int, epoch: str, window: str) -> None:
    settings = Settings.load(
        options={
            "store": str(folder / "nearveil.db"),
            "region": "san-francisco",
            "epoch": epoch,
            "window": window,
        }
    )
    secret = fill(settings, people)
    # Written last: a folder without it is not complete.
    with os.fdopen(os.open(folder / PLATFORM_KEY_FILE, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write(secret)


def fill(settings: Settings, people: int) -> str:
    """Put so many published people into an empty store; return a platform key."""
    service = Service.open(settings)
    try:
        schedule = service.protection.schedule
        now = schedule.epoch_at(time.time())
        steps = _noisy_steps(people)
        for first in range(0, people, BATCH):
            ids = [person_id(number) for number in range(first, min(first + BATCH, people))]
            service.store.add_people(ids)
            with service.store.writing() as writing:
                draws = [_draw(*row, schedule.window_of(now)) for row in zip(ids, steps[first:].tolist(), strict=False)]
                writing.put_pending(draws, now)
        current = schedule.window_of(now)
        service.store.publish(now, window=current)
        secret, kept = new_platform_key("load-test")
        service.store.add_key(kept)
    finally:
        service.close()
    return secret


def _noisy_steps(people: int) -> IntArray:
    rng = np.random.default_rng(1)
    angle = 2 * np.pi * rng.random(people)
    noise = rng.gamma(2, NOISE_M / 2, people)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    half_extent = np.array(REGION.half_extent_m)
    noisy = REGION.to_metres(synthetic_city(people, REGION, rng=1)) + noise
    steps: IntArray = np.rint(np.clip(noisy, -half_extent, half_extent) / STEP_M).astype(np.int64)
    return steps


def _draw(person: str, steps: list[int], window: int) -> NoisyLocation:
    return NoisyLocation(
        person=person,
        x_steps=steps[0],
        y_steps=steps[1],
        tag=secrets.token_bytes(TAG_BYTES),
        window=window,
        receipt=secrets.token_hex(12),
    )
