"""Traces: a share of the requests as spans of OpenTelemetry, sent to a collector (OTLP over HTTP).

A span has the method, the route and the status of a request, and its time in whole milliseconds. It has nothing else:
no id, no location, no key, no address, no query. A trace that a client has begun is not continued, because the client
chose its number.
"""

from __future__ import annotations

import time
from importlib import metadata
from typing import Any

from nearveil.errors import UsageError

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
_MS = 1_000_000
_TIMEOUT_S = 2.0
_NOT_INSTALLED = "traces need OpenTelemetry: pip install 'nearveil[serve]', or leave out traces_to"


class Traces:
    """Sends spans to a collector, from a thread of its own; what it cannot send is lost, and nothing waits for it.

    Parameters
    ----------
    address : str
        Where the collector takes traces.
    share : float
        Of all requests, how many are traced: chosen at random.
    """

    def __init__(self, address: str, share: float) -> None:
        try:
            from opentelemetry.context import Context  # noqa: PLC0415 - an extra, and slow to load
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
            from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
            from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
            from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
            from opentelemetry.sdk.trace.sampling import TraceIdRatioBased  # noqa: PLC0415
            from opentelemetry.trace import SpanKind  # noqa: PLC0415
        except ImportError:
            raise UsageError(_NOT_INSTALLED) from None
        version = metadata.version("nearveil")
        # Not what the package would find out about this machine and process.
        resource = Resource({"service.name": "nearveil", "service.version": version})
        self._provider: Any = TracerProvider(TraceIdRatioBased(share), resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=address, timeout=_TIMEOUT_S)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer: Any = self._provider.get_tracer("nearveil", version)
        # A trace has no parent, whatever else in this process might have begun one.
        self._kind, self._no_parent = SpanKind.SERVER, Context()

    def close(self) -> None:
        """Send what waits, and stop."""
        self._provider.shutdown()

    def add(self, method: str, route: str, status: int, elapsed_ns: int) -> None:
        """Record a request that has just been answered, if it is one of the share."""
        method, ended_ns = method if method in _METHODS else "_OTHER", time.time_ns()
        span = self._tracer.start_span(
            f"{method} {route}",
            context=self._no_parent,
            kind=self._kind,
            attributes={"http.request.method": method, "http.route": route, "http.response.status_code": status},
            start_time=(ended_ns - elapsed_ns) // _MS * _MS,
        )
        span.end(-(-ended_ns // _MS) * _MS)
