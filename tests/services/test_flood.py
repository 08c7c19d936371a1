"""A service that is flooded answers others, and the limits are those of its settings."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from tests.server.served import nearveil
from tests.server.test_connections import self_signed
from tests.services.flood import OPTIONS, asking, idle_connections, many_short_headers, one_long_header, unread_answers
from tests.services.running import RunningService

LIMITS = {
    "NEARVEIL_MOST_CONNECTIONS": "60",
    "NEARVEIL_MOST_CONNECTIONS_PER_ADDRESS": "50",
    "NEARVEIL_PROXIES": "10.0.0.0/8",
    "NEARVEIL_HEAD_TIMEOUT_S": "2",
    "NEARVEIL_SEND_TIMEOUT_S": "2",
}


@pytest.fixture(scope="module", params=[(), ("--access-log",)], ids=["fast", "plain"])
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    running = RunningService(tmp_path_factory.mktemp("service"), (*OPTIONS, *request.param), env=LIMITS)
    running.start()
    try:
        yield running
    finally:
        assert running.stop() == 0


def refused(service: RunningService, problem: str) -> float:
    text = httpx.get(f"{service.url}/metrics", headers=service.headers).text
    found = re.search(rf'nearveil_rejected_total{{problem="{problem}"}} (\S+)', text)
    assert found is not None
    return float(found[1])


@pytest.mark.evidence
@pytest.mark.parametrize("flood", [one_long_header, many_short_headers])
def test_headers_without_end(service: RunningService, flood: Callable[[int, int], None]) -> None:
    before = refused(service, "headers-too-large")
    with asking(service) as asker:
        flood(service.port, 10_000_000)
    assert asker.seconds
    assert asker.refused == 0
    assert refused(service, "headers-too-large") == before + 1


@pytest.mark.evidence
def test_idle_connections_are_closed_or_refused(service: RunningService) -> None:
    with asking(service) as asker:
        idle_connections(service.port, 100)
    assert asker.seconds
    assert refused(service, "too-many-connections") >= 50
    assert refused(service, "too-slow") > 0
    # Only the connection that this is asked on is left, sooner or later.
    while "\nnearveil_connections 1.0\n" not in httpx.get(f"{service.url}/metrics", headers=service.headers).text:
        pass


@pytest.mark.evidence
def test_answers_that_nobody_reads_are_dropped(service: RunningService) -> None:
    with asking(service) as asker:
        unread_answers(service.port, 5, service.key)
    assert asker.seconds
    assert asker.refused == 0


def test_tls_from_the_command(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    files = ("--tls-certificate", str(certificate), "--tls-key", str(key))
    trust = ssl.create_default_context(cafile=str(certificate))
    service = RunningService(tmp_path / "service", (*OPTIONS, *files), trust=trust)
    service.start()
    try:
        service.wait_until_said(f"https://127.0.0.1:{service.port}")
        with httpx.Client(base_url=service.url, headers=service.headers, verify=trust) as client:
            place = {"latitude": 37.774937, "longitude": -122.419418}
            assert client.post("/v1/nearby", json={**place, "k": 3}).json() == {"ids": []}
        with pytest.raises(httpx.TransportError):
            httpx.get(service.url.replace("https", "http"))
    finally:
        assert service.stop() == 0


def test_files_that_are_no_certificate_are_one_sentence(tmp_path: Path) -> None:
    certificate, _ = self_signed(tmp_path)
    _, other = self_signed(tmp_path, "other")
    done = nearveil("serve", "--tls-certificate", str(certificate), "--tls-key", str(other), folder=tmp_path)
    assert done.returncode == 3
    assert "does not belong to the certificate" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "nearveil-data").exists()
