"""``nearveil serve --workers 2`` on a real PostGIS: both answer, one that dies is replaced, and all end together."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from tests.server.running import HERE
from tests.services.postgres import private_database
from tests.services.redis_server import RedisServer, running_redis
from tests.services.running import RunningService
from tests.services.torture import platform_key
from tests.waiting import PATIENCE_S, until

from nearveil.nearby.publishing.keys import new_keys, write_keys
from nearveil.server.audit_log import PEOPLE_PER_LINE

REFILL_S = 60_000.0
PEOPLE = [f"person-{number}" for number in range(5)]
AUDIT_LOG = "audit.jsonl"


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture(scope="module")
def service(
    postgis_cluster: object, redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    del postgis_cluster
    folder = tmp_path_factory.mktemp("workers")
    write_keys(folder / "keys.json", new_keys())
    options = ("--keys", str(folder / "keys.json"), "--workers", "2", "--test-hooks", "--dwell", "1", "--no-console")
    # On a busy machine the database may take seconds, which would be an outage.
    more = {"NEARVEIL_STORE_TIMEOUT_S": "60", "NEARVEIL_AUDIT_LOG": str(folder / AUDIT_LOG)}
    limits = {
        "NEARVEIL_SHARED_LIMITS": redis_server.address,
        "NEARVEIL_QUESTIONS_PER_MINUTE": str(60 / REFILL_S),
        "NEARVEIL_QUESTION_BURST": "20",
    }
    with private_database() as address:
        running = RunningService(folder, options, store=address, key=platform_key(address), env=more | limits)
        try:
            running.start()
            assert send(running, "POST", "/v1/people", json={"ids": [*PEOPLE, "eve"]}).status_code == 200
            yield running
        finally:
            running.stop()


def send(service: RunningService, method: str, path: str, **request: Any) -> httpx.Response:
    """Send a request over a connection of its own, which the kernel gives to either worker."""
    return httpx.request(method, service.url + path, headers=service.headers, timeout=PATIENCE_S, **request)


def workers(service: RunningService) -> list[psutil.Process]:
    """The processes that listen, other than the parent."""
    children = psutil.Process(service.pid).children()
    return [child for child in children if "resource_tracker" not in " ".join(child.cmdline())]


def events(service: RunningService, name: str) -> list[dict[str, object]]:
    lines = [line for line in service.log.read_text().splitlines() if line.startswith("{")]
    return [event for event in map(json.loads, lines) if event["event"] == name]


def report_all(service: RunningService) -> None:
    for person in PEOPLE:
        assert send(service, "PUT", f"/v1/people/{person}/location", json=HERE).status_code == 202


def ask(service: RunningService, **question: object) -> httpx.Response:
    return send(service, "POST", "/v1/nearby", json={**HERE, "k": 10, **question})


def test_it_says_once_that_it_is_ready_and_where(service: RunningService) -> None:
    said = service.wait_until_said("2 workers are ready")
    assert said.count("2 workers are ready") == 1
    assert f"on {service.url}" in said
    assert len(workers(service)) == 2
    assert [event["count"] for event in events(service, "workers are ready")] == [2]


@pytest.mark.evidence
def test_no_secret_is_on_a_command_line_and_no_core_is_dumped(service: RunningService) -> None:
    for process in (psutil.Process(service.pid), *psutil.Process(service.pid).children()):
        assert not re.search("noise|tokens|nvk_", " ".join(process.cmdline()))
    for worker in (psutil.Process(service.pid), *workers(service)):
        limits = Path(f"/proc/{worker.pid}/limits").read_text()
        assert re.search(r"Max core file size\s+0\s+0\s", limits)


def test_what_one_worker_takes_both_show(service: RunningService) -> None:
    report_all(service)
    assert send(service, "POST", "/v1/epoch").status_code == 200
    # Twenty connections in a row: with two workers all at the same one once in 500,000 times.
    until(lambda: all(sorted(ask(service).json()["ids"]) == PEOPLE for _ in range(20)))


@pytest.mark.evidence
def test_metrics_are_of_both_workers(service: RunningService) -> None:
    def reports() -> dict[str, float]:
        text = send(service, "GET", "/metrics").text
        found = re.findall(r'nearveil_reports_total{worker="(\d)"} (\S+)', text)
        return {worker: float(number) for worker, number in found}

    before = reports()
    report_all(service)
    after = reports()
    assert before.keys() == after.keys() == {"0", "1"}
    assert sum(after.values()) - sum(before.values()) == len(PEOPLE)


@pytest.mark.evidence
def test_a_limit_holds_over_both_workers(service: RunningService, redis_server: RedisServer) -> None:
    """Each worker alone would answer 20 times; together they may answer once more, before the other one hears of it."""
    before, answered, refused_in_a_row = redis_server.spent(REFILL_S), 0, 0
    while refused_in_a_row < 20:
        if ask(service, asker="eve").status_code == 429:
            refused_in_a_row += 1
        else:
            answered, refused_in_a_row = answered + 1, 0
            until(lambda: redis_server.spent(REFILL_S) == before + answered)  # noqa: B023 - called at once
    assert 20 <= answered <= 21


@pytest.mark.evidence
def test_both_workers_write_one_audit_log_and_tear_no_line(service: RunningService) -> None:
    """Entries of several pages, from eight clients at a time."""
    groups = [[f"crowd-{group}-{number}" for number in range(4 * PEOPLE_PER_LINE)] for group in range(24)]
    with ThreadPoolExecutor(8) as clients:
        sent = list(clients.map(lambda ids: send(service, "POST", "/v1/people", json={"ids": ids}), groups))
    assert {answer.status_code for answer in sent} == {200}
    lines = (service.folder / AUDIT_LOG).read_text().split("\n")
    assert lines.pop() == ""
    found = Counter(
        entry["entry"] for entry in map(json.loads, lines) if len(entry.get("people", ())) == PEOPLE_PER_LINE
    )
    assert (len(found), set(found.values())) == (24, {4})


@pytest.mark.evidence
def test_a_worker_that_is_killed_is_replaced_and_nobody_is_refused(service: RunningService) -> None:
    before = {worker.pid for worker in workers(service)}
    victim = min(before)
    os.kill(victim, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(pid) for pid in before & {victim} if psutil.pid_exists(pid)], timeout=PATIENCE_S)
    # The other one answers at once: a worker that is not ready does not listen.
    assert {ask(service).status_code for _ in range(20)} == {200}
    until(lambda: len(set(listening(service)) - before) == 1)
    assert {ask(service).status_code for _ in range(20)} == {200}
    ended = events(service, "worker ended, another is started")
    assert [(event["pid"], event["code_number"]) for event in ended] == [(victim, -9)]
    assert service.log.read_text().count("2 workers are ready") == 1


def listening(service: RunningService) -> list[int]:
    """The processes that listen on the service's port."""
    return [
        worker.pid
        for worker in workers(service)
        if any(each.status == "LISTEN" and each.laddr.port == service.port for each in worker.net_connections("tcp"))
    ]


@pytest.mark.evidence
@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_workers_end_with_their_parent(postgis_cluster: object, tmp_path: Path, how: str) -> None:
    del postgis_cluster
    write_keys(tmp_path / "keys.json", new_keys())
    with private_database() as address:
        options = ("--keys", str(tmp_path / "keys.json"), "--workers", "2")
        running = RunningService(tmp_path, options, store=address, key=platform_key(address))
        running.start()
        found = workers(running)
        assert len(found) == 2
        if how == "killed":
            running.kill()
        else:
            assert running.stop() == 0
        assert psutil.wait_procs(found, timeout=PATIENCE_S)[1] == []


@pytest.mark.evidence
def test_what_is_wrong_is_said_once(postgis_cluster: object, tmp_path: Path) -> None:
    del postgis_cluster
    command = [sys.executable, "-c", "from nearveil.cli.main import main; main()", "serve", "--workers", "2"]
    with private_database() as address:
        environment = {**os.environ, "NEARVEIL_STORE": address, "NEARVEIL_KEYS_FILE": str(tmp_path / "keys.json")}
        environment["NEARVEIL_REGION"] = "berlin"
        done = subprocess.run(
            [*command, "--port", "0"], env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
