"""Traces have the method, route, status and time of requests, and nothing else, whatever is sent."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from nearveil.errors import UsageError
from tests.server.running import HERE, Running, running
from tests.server.test_abuse import captured_log

WHO, OTHER = "ann-4711", "bob-4712"
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
EVERYTHING = {
    ("PUT", "/v1/people/{id}", 201), ("POST", "/v1/people", 200), ("PUT", "/v1/people/{id}/location", 202),
    ("PUT", "/v1/people/{id}/location", 422), ("POST", "/v1/locations", 202), ("POST", "/v1/nearby", 200),
    ("POST", "/v1/nearby", 401), ("GET", "/v1/people/{id}", 200), ("PUT", "/v1/people/{id}/blocked/{other}", 204),
    ("GET", "other", 404), ("DELETE", "/v1/people/{id}", 204), ("_OTHER", "other", 404),
}  # fmt: skip


@contextmanager
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """Takes traces on a free port of this machine."""
    received: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            head = f"{self.path} {self.headers}".encode()
            received.append(head + self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def use(here: Running) -> list[str]:
    """Send everything that must not be told in every place where a request has room; return what that is."""
    headers = {"traceparent": TRACEPARENT, "tracestate": f"who={WHO}", "baggage": f"who={WHO}", "user-agent": WHO}
    query = "?" + "&".join(f"{name}={value}" for name, value in HERE.items())
    place = f"/{HERE['latitude']},{HERE['longitude']}"

    def call(method: str, path: str, **request: Any) -> None:
        here.call(method, path + query, headers=headers, **request)

    call("PUT", f"/v1/people/{WHO}")
    call("POST", "/v1/people", json={"ids": [OTHER]})
    call("PUT", f"/v1/people/{WHO}/location", json=HERE)
    call("PUT", f"/v1/people/{WHO}/location", json={**HERE, "latitude": 90.5})
    call("POST", "/v1/locations", json={"reports": [{"id": OTHER, **HERE}, {"id": WHO, **HERE}]})
    call("POST", "/v1/nearby", json={**HERE, "asker": WHO})
    call("POST", "/v1/nearby", json=HERE, key="nvk_wrong")
    call("GET", f"/v1/people/{WHO}")
    call("PUT", f"/v1/people/{WHO}/blocked/{OTHER}")
    call("GET", place)
    call("DELETE", f"/v1/people/{WHO}")
    call(f"GET{WHO}", place)
    numbers = [str(value).lstrip("-") for value in HERE.values()]
    return [WHO, OTHER, here.key, "nvk_wrong", TRACEPARENT.split("-")[1], "tests", "latitude", *numbers]


@pytest.fixture
def _installed() -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs nearveil[serve]")


@pytest.mark.usefixtures("_installed")
def test_no_span_names_anybody_or_any_place() -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    with collector() as (address, received):
        with running(traces_to=address, traces_share=1.0) as here:
            secrets = use(here)
        # Closing the service sends what waits.
        content = b"".join(received)
        for secret in secrets:
            assert secret.encode() not in content, secret
            assert not _has_bytes(content, secret), secret
        spans, resources = [], []
        for sent in received:
            request = ExportTraceServiceRequest.FromString(sent.partition(b"\n\n")[2])
            resources += [one.resource for one in request.resource_spans]
            spans += [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
    assert {one.key for resource in resources for one in resource.attributes} == {"service.name", "service.version"}
    seen = set()
    for span in spans:
        known = {one.key: one.value.string_value or one.value.int_value for one in span.attributes}
        assert set(known) == {"http.request.method", "http.route", "http.response.status_code"}
        method, route, status = (known[f"http.{name}"] for name in ("request.method", "route", "response.status_code"))
        assert span.name == f"{method} {route}"
        assert (span.parent_span_id, span.trace_state) == (b"", "")
        assert not (span.events or span.links or span.status.message)
        assert span.start_time_unix_nano % 1_000_000 == span.end_time_unix_nano % 1_000_000 == 0
        seen.add((method, route, status))
    assert seen == EVERYTHING
    assert len(spans) == len(EVERYTHING)


def _has_bytes(content: bytes, secret: str) -> bool:
    """Whether the number of a trace that a client chose is in what was sent, as bytes."""
    try:
        return bytes.fromhex(secret) in content
    except ValueError:
        return False


@pytest.mark.usefixtures("_installed")
def test_a_share_of_none_sends_nothing() -> None:
    with collector() as (address, received):
        with running(traces_to=address, traces_share=0.0) as here:
            use(here)
        assert received == []


@pytest.mark.usefixtures("_installed")
def test_a_collector_that_is_away_harms_nobody() -> None:
    with captured_log() as log, running(traces_to="http://127.0.0.1:1/v1/traces", traces_share=1.0) as here:
        secrets = use(here)
        here.add(WHO)
        assert here.report(WHO).status_code == 202
    assert not any(secret in log.getvalue() for secret in secrets if secret not in ("tests", "latitude"))


def test_without_the_package_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with (
        pytest.raises(UsageError, match=r"pip install \'nearveil\[serve\]\'"),
        running(traces_to="http://127.0.0.1:1/"),
    ):
        pass
