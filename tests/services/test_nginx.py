"""deploy/nginx.conf as it is, with other ports and files, in front of a service: what passes, and what is logged."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from tests.server.test_connections import self_signed
from tests.services.running import RunningService, free_port
from tests.waiting import PATIENCE_S, until

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx.conf"
HERE = {"latitude": 37.774937, "longitude": -122.419418}
_MAIN = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/main-error.log crit; {user}
events {{}}
http {{
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    include {folder}/nearveil.conf;
}}
"""


@dataclass
class Nginx:
    folder: Path
    port: int
    trust: ssl.SSLContext

    def client(self, **headers: str) -> httpx.Client:
        return httpx.Client(
            base_url=f"https://localhost:{self.port}", verify=self.trust, headers=headers, timeout=PATIENCE_S
        )

    def written(self) -> bytes:
        """Everything that nginx wrote, but for the certificate and the configuration."""
        own = {"nginx.conf", "nearveil.conf", "own.crt", "own.key"}
        files = (path for path in self.folder.rglob("*") if path.is_file() and path.name not in own)
        return b"\n".join(path.read_bytes() for path in files)

    def log(self) -> list[dict[str, str]]:
        return [json.loads(line) for line in (self.folder / "access.log").read_text().splitlines()]


@contextmanager
def nginx_before(folder: Path, upstream_port: int, changes: Mapping[str, str] | None = None) -> Iterator[Nginx]:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        pytest.skip("nginx is not here; install nginx")
    certificate, key = self_signed(folder)
    port = free_port()
    text = CONFIGURATION.read_text(encoding="utf-8")
    for stated, ours in {
        "server 127.0.0.1:8000;": f"server 127.0.0.1:{upstream_port};",
        "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
        "    listen [::]:443 ssl;\n": "",
        "/etc/nearveil/tls.crt": str(certificate),
        "/etc/nearveil/tls.key": str(key),
        "/var/log/nginx/nearveil.log": str(folder / "access.log"),
        "/var/log/nginx/nearveil-error.log": str(folder / "error.log"),
        **(changes or {}),
    }.items():
        assert text.count(stated) == 1, stated
        text = text.replace(stated, ours)
    (folder / "nearveil.conf").write_text(text)
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(_MAIN.format(folder=folder, user=user))
    process = subprocess.Popen(
        [program, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "main-error.log")],
        stderr=subprocess.PIPE,
    )
    try:
        until(lambda: _listens(port, process))
        yield Nginx(folder, port, ssl.create_default_context(cafile=str(certificate)))
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def _listens(port: int, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, process.communicate()[1].decode()
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S).close()
    except ConnectionError:
        return False
    return True


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    running = RunningService(tmp_path_factory.mktemp("service"), ("--open-probes", "--questions-per-minute", "0"))
    running.start()
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def nginx(service: RunningService, tmp_path: Path) -> Iterator[Nginx]:
    with nginx_before(tmp_path, service.port) as started:
        yield started


def test_questions_and_reports_pass_and_nothing_of_them_is_written(service: RunningService, nginx: Nginx) -> None:
    with nginx.client(**service.headers) as client:
        assert client.post("/v1/people", json={"ids": ["ann-of-the-test"]}).status_code == 200
        token = client.post("/v1/people/ann-of-the-test/tokens", json={"expires_in_s": 600}).json()["token"]
    with nginx.client(Authorization=f"Bearer {token}") as client:
        reported = client.put("/v1/people/ann-of-the-test/location", json=HERE)
        asked = client.post("/v1/nearby", json={**HERE, "k": 3})
        # By mistake in the query, on a path that there is and on one that there is not, and in a broken request.
        query = f"latitude={HERE['latitude']}&longitude={HERE['longitude']}&token={token}"
        client.get(f"/v1/nearby?{query}")
        client.get(f"/{HERE['latitude']},{HERE['longitude']}?{query}", headers={"Referer": f"https://app/?{query}"})
        client.put("/v1/people/ann-of-the-test/location", content=b" " * 60_000 + json.dumps(HERE).encode())
        client.post("/v1/nearby", content=b"1" * 800_000, params=HERE)
        client.put("/v1/people/ann-of-the-test/blocked/ann-of-the-test")
    with (
        socket.create_connection(("127.0.0.1", nginx.port), timeout=PATIENCE_S) as line,
        nginx.trust.wrap_socket(line, server_hostname="localhost") as secured,
    ):
        secured.sendall(f"POST /v1/nearby?{query} HTTP/1.1\r\nHost : {query}\r\n\r\n".encode())
        assert secured.recv(1000).startswith(b"HTTP/1.1 400")
    assert (reported.status_code, asked.status_code) == (202, 200)
    written = nginx.written()
    for secret in (*HERE.values(), token, service.key, "ann-of-the-test", "127.0.0.1", "latitude"):
        assert str(secret).lstrip("-").encode() not in written
    routes = [(line["method"], line["route"], line["status"]) for line in nginx.log()]
    assert ("PUT", "/v1/people/{id}/location", "202") in routes
    assert ("POST", "/v1/nearby", "200") in routes
    assert ("POST", "/v1/nearby", "413") in routes
    assert ("PUT", "/v1/people/{id}/blocked/{other}", "422") in routes
    assert ("GET", "other", "404") in routes


def _refused_by_service(service: RunningService) -> float:
    text = httpx.get(f"{service.url}/metrics", headers=service.headers, timeout=PATIENCE_S).text
    lines = [line for line in text.splitlines() if line.startswith("nearveil_rejected_total")]
    return sum(float(line.split()[-1]) for line in lines)


@pytest.mark.parametrize("headers", [{"long": "1" * 9_000}, {f"h{number}": "1" * 1_000 for number in range(20)}])
def test_headers_that_are_too_large_are_refused_by_nginx(
    service: RunningService, nginx: Nginx, headers: dict[str, str]
) -> None:
    before = _refused_by_service(service)
    with nginx.client(**service.headers) as client:
        refused = client.post("/v1/nearby", json={**HERE, "k": 3}, headers=headers)
        assert (refused.status_code, refused.headers["server"]) == (400, "nginx")
        assert client.post("/v1/nearby", content=b"1" * 786_433).status_code == 413
        assert client.post("/v1/nearby", json={**HERE, "k": 3}, headers={"short": "1" * 5_000}).status_code == 200
    assert _refused_by_service(service) == before


@pytest.mark.parametrize(
    "path", ["/readyz", "/metrics", "/", "/console.js", "/v1/console/state", "/v1/platform-keys", "/v1/epoch"]
)
def test_what_is_for_operators_is_not_for_everybody(service: RunningService, nginx: Nginx, path: str) -> None:
    with nginx.client(**service.headers) as client:
        assert client.get(path).status_code == 404
        assert client.get("/healthz").status_code == 200


@dataclass
class Echo:
    """A server in place of the service: it keeps headers, and answers when it is let."""

    port: int
    headers: list[dict[str, str]] = field(default_factory=list)
    asked: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    answers: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def echo() -> Iterator[Echo]:
    echo = Echo(0)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            echo.headers.append(dict(self.headers.items()))
            echo.asked.release()
            echo.answers.wait(PATIENCE_S)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        echo.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield echo
        finally:
            echo.answers.set()
            server.shutdown()


def test_headers_that_say_who_asks_are_set_or_stripped(echo: Echo, tmp_path: Path) -> None:
    echo.answers.set()
    own = {"X-Forwarded-For": "192.0.2.9", "Forwarded": "for=192.0.2.9", "X-Real-IP": "192.0.2.9", "Cookie": "a=b"}
    with nginx_before(tmp_path, echo.port) as nginx, nginx.client(Authorization="Bearer nvk_1", **own) as client:
        assert client.get("/v1/guarantee").status_code == 204
    got = {name.lower(): value for name, value in echo.headers[0].items()}
    assert got["authorization"] == "Bearer nvk_1"
    assert got["x-forwarded-for"] == "127.0.0.1"
    assert not got.keys() & {"forwarded", "x-real-ip", "cookie", "referer", "user-agent"}


def test_an_address_has_so_many_requests_under_way(echo: Echo, tmp_path: Path) -> None:
    few = {"limit_conn nearveil_address 64;": "limit_conn nearveil_address 2;"}
    with nginx_before(tmp_path, echo.port, few) as nginx:

        def ask() -> None:
            with nginx.client() as client:
                client.get("/v1/guarantee")

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert all(echo.asked.acquire(timeout=PATIENCE_S) for _ in threads)
        with nginx.client() as client:
            assert client.get("/v1/guarantee").status_code == 503
            echo.answers.set()
            for thread in threads:
                thread.join()
            assert client.get("/v1/guarantee").status_code == 204
