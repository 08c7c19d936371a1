"""A service that speaks TLS by itself."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx
import pytest
from tests.server.test_connections import self_signed
from tests.services.flood import OPTIONS
from tests.services.running import RunningService
from tests.waiting import PATIENCE_S


def test_tls_from_the_command(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    files = ("--tls-certificate", str(certificate), "--tls-key", str(key))
    trust = ssl.create_default_context(cafile=str(certificate))
    service = RunningService(tmp_path / "service", (*OPTIONS, *files), trust=trust)
    service.start()
    try:
        service.wait_until_said(f"https://127.0.0.1:{service.port}")
        with httpx.Client(base_url=service.url, headers=service.headers, verify=trust, timeout=PATIENCE_S) as client:
            place = {"latitude": 37.774937, "longitude": -122.419418}
            assert client.post("/v1/nearby", json={**place, "k": 3}).json() == {"ids": []}
        with pytest.raises(httpx.TransportError):
            httpx.get(service.url.replace("https", "http"), timeout=PATIENCE_S)
    finally:
        assert service.stop() == 0
