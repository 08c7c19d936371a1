"""Kill a service under load, again and again, and look at what is left.

``python -m tests.services.torture --kills 50`` does it on both stores.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import secrets
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import httpx
import numpy as np
from tests.nearby.stores.kept import everything_kept
from tests.services.leaks import files_under, leaks
from tests.services.postgres import dump, private_database
from tests.services.running import RunningService
from tests.waiting import PATIENCE_S

from nearveil.nearby.publishing.keys import new_keys, write_keys
from nearveil.nearby.publishing.protection import Schedule, least_new_places
from nearveil.nearby.stores import open_store
from nearveil.nearby.stores.base import Store
from nearveil.region import named_region
from nearveil.server.auth import new_platform_key

PEOPLE = 120
PLACES_EACH = 7
NEW_PLACES = 4
MOST_REPORTS = 400
"""How many reports are waited for before a kill, at most."""

REGION = named_region("san-francisco")
# Epochs every second, so that kills fall on them too, and places that count as soon as they are reported.
OPTIONS = (
    "--epoch", "1s", "--window", "1h", "--dwell", "1", "--new-places", str(NEW_PLACES),
    "--questions-per-minute", "0", "--key-questions-per-s", "0",
)  # fmt: skip


@dataclass
class Person:
    """What one person did and was told.

    Attributes
    ----------
    receipt : str or None
        Of the last report: that was answered, or after a kill, that is in the store.
    previous : str
        What the phone has and sends: the receipt of the last report that was answered, and at first any.
    """

    name: str
    places: list[tuple[float, float]]
    previous: str
    receipt: str | None = None
    in_flight: bool = False


@dataclass
class Findings:
    """What went wrong, and how much was tried."""

    kills: int = 0
    acknowledged: int = 0
    faults: list[str] = field(default_factory=list)


def torture(folder: Path, *, kills: int, seed: int, store: str | None = None, key: str | None = None) -> Findings:
    """Load and kill a service so often; return what was found wrong."""
    chance = random.Random(seed)
    people = [Person(f"person-{number}", _places(chance), secrets.token_hex(12)) for number in range(PEOPLE)]
    findings = Findings()
    keys: tuple[str, ...] = ()
    if store is not None:
        write_keys(folder / "keys.json", new_keys(Schedule(epoch=timedelta(seconds=1), window=timedelta(hours=1))))
        keys = ("--keys", str(folder / "keys.json"))
    service = RunningService(folder, (*OPTIONS, *keys), store=store, key=key)
    for _ in range(kills):
        service.start()
        if not findings.kills:
            _create(service, people)
        findings.acknowledged += asyncio.run(_load_and_kill(service, people, chance))
        findings.kills += 1
        findings.faults += check(store or str(folder / "data" / "nearveil.db"), people)
    return findings


def check(address: str, people: list[Person]) -> list[str]:
    """Open the store as it was left, and compare it with what people were told."""
    store = open_store(address)
    try:
        return [fault for person in people for fault in _check_person(store, person)] + _check_totals(store, people)
    finally:
        store.close()


def _check_person(store: Store, person: Person) -> list[str]:
    record = everything_kept(store, person.name)
    with store.writing() as writing:
        # Windows are counted one by one in the record.
        held = writing.held([person.name], window=0).get(person.name)
    if record is None or held is None:
        return [f"{person.name} is gone"]
    faults = []
    if person.receipt and not person.in_flight and record["receipt"] != person.receipt:
        faults.append(f"{person.name}: an acknowledged report is not the last one")
    spent = max(record["charges"].values(), default=0)
    if spent > NEW_PLACES:
        faults.append(f"{person.name}: more places were charged than the budget has")
    published, pending = held.published, held.pending
    if published and held.known.get(published.tag) != (published.x_steps, published.y_steps):
        faults.append(f"{person.name}: a published place was not charged")
    # Who was last elsewhere than what is published has that place waiting, be it known or new, unless the budget, which
    # is a secret, is spent.
    candidate = held.standing.candidate if held.standing else None
    is_held = any(location is not None and location.tag == candidate for location in (pending, published))
    if candidate is not None and not is_held and spent < least_new_places(NEW_PLACES):
        faults.append(f"{person.name}: the place of the last report is neither pending nor published")
    if person.receipt and not (published or pending or candidate or record["tags"]):
        faults.append(f"{person.name}: nothing is left of the reports")
    # What was in flight when the service was killed was kept or not; from here on the store says which.
    person.receipt = record["receipt"]
    person.in_flight = False
    return faults


def _check_totals(store: Store, people: list[Person]) -> list[str]:
    charged = sum(store.totals().charged_by_window.values())
    records = [everything_kept(store, person.name) or {"charges": {}} for person in people]
    recorded = sum(sum(record["charges"].values()) for record in records)
    return [] if charged == recorded else [f"{charged} charges in all, but {recorded} of people"]


async def _load_and_kill(service: RunningService, people: list[Person], chance: random.Random) -> int:
    count = 0
    async with httpx.AsyncClient(base_url=service.url, headers=service.headers, timeout=PATIENCE_S) as client:

        async def report_on_and_on(some: list[Person]) -> None:
            nonlocal count
            while True:
                person = chance.choice(some)
                latitude, longitude = chance.choice(person.places)
                person.in_flight = True
                answer = await client.put(
                    f"/v1/people/{person.name}/location",
                    json={"latitude": latitude, "longitude": longitude, "previous": person.previous},
                )
                assert answer.status_code == 202, answer.text
                person.previous = person.receipt = answer.json()["receipt"]
                person.in_flight = False
                count += 1
                await client.post(
                    "/v1/nearby", json={"latitude": a_little_north(latitude), "longitude": longitude, "k": 5}
                )

        tasks = [asyncio.create_task(report_on_and_on(people[start::12])) for start in range(12)]
        # After so many reports and a moment, so that a busy machine is loaded as much as an idle one.
        enough = chance.randrange(MOST_REPORTS)
        while count < enough and not any(task.done() for task in tasks):
            await asyncio.sleep(0.01)
        await asyncio.sleep(chance.uniform(0.0, 0.5))
        service.kill()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    others = [result for result in results if not isinstance(result, httpx.TransportError)]
    assert not others, f"something else than the kill ended the load: {others!r}"
    return count


def a_little_north(latitude: float) -> float:
    """Ask from somewhere else than was reported, within the region."""
    return round(latitude + 0.000123, 9)


def _create(service: RunningService, people: list[Person]) -> None:
    answer = httpx.post(
        f"{service.url}/v1/people",
        json={"ids": [person.name for person in people]},
        headers=service.headers,
        timeout=PATIENCE_S,
    )
    assert answer.status_code == 200, answer.text


def _places(chance: random.Random) -> list[tuple[float, float]]:
    # Nine digits, so that none is met by chance.
    return [
        (round(chance.uniform(37.51, 37.89), 9), round(chance.uniform(-122.59, -122.21), 9)) for _ in range(PLACES_EACH)
    ]


def places_of(seed: int) -> list[tuple[float, float]]:
    """Return every place that a run with this seed reports or asks from."""
    chance = random.Random(seed)
    reported = [place for _ in range(PEOPLE) for place in _places(chance)]
    return reported + [(a_little_north(latitude), longitude) for latitude, longitude in reported]


def _run(name: str, work: Callable[[Path], tuple[Findings, list[str]]]) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        findings, leaking = work(Path(folder))
    print(f"{name}: {findings.kills} kills, {findings.acknowledged:,} acknowledged reports, "
          f"{len(findings.faults)} faults, places found in: {', '.join(leaking) or 'nothing'}")  # fmt: skip
    for fault in findings.faults[:20]:
        print(f"  {fault}")
    return not findings.faults and not leaking


def main() -> None:
    """Torture both stores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(np.random.default_rng().integers(1_000_000)))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    good = [_run("embedded", lambda folder: on_sqlite(folder, options.kills, options.seed)),
            _run("PostGIS", lambda folder: on_postgis(folder, options.kills, options.seed))]  # fmt: skip
    raise SystemExit(not all(good))


def on_sqlite(folder: Path, kills: int, seed: int) -> tuple[Findings, list[str]]:
    """Torture the embedded store."""
    findings = torture(folder, kills=kills, seed=seed)
    return findings, leaks(files_under(folder), places_of(seed), REGION)


def on_postgis(folder: Path, kills: int, seed: int) -> tuple[Findings, list[str]]:
    """Torture PostGIS."""
    with private_database() as address:
        findings = torture(folder, kills=kills, seed=seed, store=address, key=platform_key(address))
        contents = [*files_under(folder), ("database dump", dump(address))]
    return findings, leaks(contents, places_of(seed), REGION)


def platform_key(address: str) -> str:
    """Make a platform's key in a store, as ``nearveil keys platform`` does."""
    store = open_store(address)
    try:
        secret, kept = new_platform_key("test")
        store.add_key(kept)
    finally:
        store.close()
    return secret


if __name__ == "__main__":
    main()
