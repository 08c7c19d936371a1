"""Two server processes on one PostGIS: each border is published once, and both show the same."""

import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import psycopg
import pytest
from tests.services.postgres import private_database
from tests.services.running import RunningService
from tests.services.torture import platform_key
from tests.waiting import PATIENCE_S, until

from nearveil.nearby.publishing.keys import new_keys, write_keys
from nearveil.nearby.publishing.protection import Schedule

PEOPLE = [f"person-{number}" for number in range(40)]
OPTIONS = (
    "--epoch",
    "1s",
    "--window",
    "1h",
    "--dwell",
    "1",
    "--new-places",
    "500",
    "--questions-per-minute",
    "0",
    "--key-questions-per-s",
    "0",
)
BORDERS = 4
MIDDLE = {"latitude": 37.7, "longitude": -122.4, "k": 100}

WATCH = (
    "CREATE TABLE seen (person bigint, epoch bigint)",
    "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS "
    "'BEGIN INSERT INTO public.seen VALUES (NEW.person, NEW.epoch); RETURN NULL; END'",
    "CREATE TRIGGER see AFTER INSERT OR UPDATE ON nearveil.published FOR EACH ROW EXECUTE FUNCTION see()",
)


@pytest.fixture
def address(postgis_cluster: object) -> Iterator[str]:
    del postgis_cluster
    with private_database() as found:
        yield found


@pytest.mark.evidence
def test_no_person_is_published_twice_in_an_epoch(address: str, tmp_path: Path) -> None:
    key = platform_key(address)
    write_keys(tmp_path / "keys.json", new_keys(Schedule(epoch=timedelta(seconds=1), window=timedelta(hours=1))))
    options = (*OPTIONS, "--keys", str(tmp_path / "keys.json"))
    servers = [RunningService(tmp_path / name, options, store=address, key=key) for name in ("first", "second")]
    with psycopg.connect(address, autocommit=True) as watcher:
        for statement in WATCH:
            watcher.execute(statement.encode())
        try:
            for server in servers:
                server.start()
            _report_to_both(servers)
            answers = [_nearby_once_alike(servers, len(PEOPLE)) for _ in range(2)]
            assert sorted(answers[0]) == sorted(PEOPLE)
            erased = f"{servers[0].url}/v1/people/{PEOPLE[0]}"
            assert httpx.delete(erased, headers=servers[0].headers, timeout=PATIENCE_S).status_code == 204
            assert PEOPLE[0] not in _nearby_once_alike(servers, len(PEOPLE) - 1)
        finally:
            codes = [server.stop() for server in servers]
        changes, different, epochs = watcher.execute(
            "SELECT count(*), count(DISTINCT (person, epoch)), count(DISTINCT epoch) FROM seen"
        ).fetchone() or (0, 0, 0)
    assert codes == [0, 0]
    assert changes == different > len(PEOPLE)
    assert epochs >= BORDERS


def _report_to_both(servers: list[RunningService]) -> None:
    """Everybody wanders, and tells now this server, now that one, until some borders have passed.

    Each server takes the receipts of the other.
    """
    chance = random.Random(4)
    receipts = dict.fromkeys(PEOPLE, "0" * 24)
    first, second = (
        httpx.Client(base_url=server.url, headers=server.headers, timeout=PATIENCE_S) for server in servers
    )
    with first, second:
        assert first.post("/v1/people", json={"ids": PEOPLE}).status_code == 200
        began = first.get("/v1/ledger").json()["epoch"]
        while (epoch := first.get("/v1/ledger").json()["epoch"]) < began + BORDERS + 2:
            for person in PEOPLE:
                # One place in an epoch: of somebody who is in too many, none counts.
                where = random.Random(f"{person} {epoch}")
                place = {"latitude": where.uniform(37.6, 37.8), "longitude": where.uniform(-122.5, -122.3)}
                client = chance.choice((first, second))
                answer = client.put(f"/v1/people/{person}/location", json={**place, "previous": receipts[person]})
                assert answer.status_code == 202, answer.text
                receipts[person] = answer.json()["receipt"]


def _nearby_once_alike(servers: list[RunningService], people: int) -> list[str]:
    """Ask both until both show so many people: whoever did not publish a border hears of it a little later."""
    answers: list[list[str]] = []

    def is_alike() -> bool:
        answers[:] = [
            httpx.post(f"{server.url}/v1/nearby", json=MIDDLE, headers=server.headers, timeout=PATIENCE_S).json()["ids"]
            for server in servers
        ]
        return answers[0] == answers[1] and len(answers[0]) == people

    until(is_alike)
    return answers[0]
