"""Run a service: listen, serve until a signal arrives, and finish requests and writes."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import math
import os
import resource
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import uvicorn

from nearveil.errors import OutputError, UsageError
from nearveil.nearby.stores import is_postgres
from nearveil.nearby.stores.base import Store
from nearveil.server.app import create_app
from nearveil.server.asgi import Answers, App
from nearveil.server.auth import new_platform_key
from nearveil.server.connections import ConnectionLimits, Connections, connections_that_fit, tls_context
from nearveil.server.hot_path import HotRoutes
from nearveil.server.logs import log_event
from nearveil.server.service import Service
from nearveil.server.settings import Settings

PLATFORM_KEY_FILE = "platform-key.txt"
FIRST_KEY_NAME = "first"

_BACKLOG = 2048
_PR_SET_DUMPABLE = 4
_SEND_BUFFER_BYTES = 128 * 1024
# Threads that write and publish yield after this time, so that a question never waits long for them.
_SWITCH_INTERVAL_S = 0.0005


def make_data_folder(settings: Settings) -> Path | None:
    """Create the folder of a SQLite store, readable by its owner only; None if the store is a database server."""
    if is_postgres(settings.store):
        return None
    folder = Path(settings.store).parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"the folder {folder} cannot be created ({error.strerror}); choose another store") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"the folder {folder} cannot be written to; choose another store, or run as its owner")
    return folder


def first_platform_key(store: Store, folder: Path | None) -> Path | None:
    """Create the first platform key of a SQLite store that has none; return the file that it is written to."""
    if folder is None or store.keys():
        return None
    secret, kept = new_platform_key(FIRST_KEY_NAME)
    path = folder / PLATFORM_KEY_FILE
    try:
        # A key left over from a deleted store is useless.
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(secret + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OutputError(f"the platform key cannot be written to {path} ({error.strerror})") from None
    # After the file is written: a key that its owner cannot read would be useless.
    store.add_key(kept)
    return path


def listen(settings: Settings, *, with_others: bool = False) -> socket.socket:
    """Return a socket that listens on the host and port of the settings.

    One ``with_others`` does not listen yet, and shares its port with other processes of the same user (SO_REUSEPORT).
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind)
    except OSError:
        raise UsageError(f"the address {settings.host} does not exist; choose another --host") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Of every connection: by itself the system keeps megabytes of answers for a client that reads nothing.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        if with_others:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind(address)
        if not with_others:
            listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        reason = os.strerror(error.errno) if error.errno else "it is refused"
        raise UsageError(
            f"cannot listen on {settings.host} port {settings.port} ({reason}); choose another --port or --host"
        ) from None
    return listening


def address_of(listening: socket.socket, *, has_tls: bool = False) -> str:
    """Return the address of a listening socket as a URL."""
    host, port = listening.getsockname()[:2]
    scheme = "https" if has_tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def check_server(settings: Settings) -> None:
    """Refuse to start with a certificate that cannot be used, or with a uvicorn that cannot be limited."""
    _tls_of(settings)
    if not has_limits() and not settings.limits_in_proxy:
        raise UsageError(
            f"the installed uvicorn {uvicorn.__version__} does not let Nearveil limit connections and headers; install "
            "one that Nearveil asks for (pip install 'nearveil[serve]'), or, if a reverse proxy has these limits, set "
            "limits_in_proxy"
        )


def has_limits() -> bool:
    """Whether the installed uvicorn lets the service limit connections."""
    try:
        from nearveil.server.protocol import LimitedProtocol, fitting  # noqa: PLC0415 - may have changed
    except ImportError:
        return False
    return fitting(LimitedProtocol)


def run(
    service: Service,
    listening: socket.socket,
    *,
    when_ready: Callable[[], None] | None = None,
    before_listening: Callable[[Callable[[], bool]], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; then refuse new requests, finish those under way, write reports, and return.

    ``when_ready`` is called in a thread as soon as questions can be answered. ``before_listening`` is called when the
    service has started, and nobody is let in until it returns. It gets a function that says whether to stop.
    """
    forbid_core_dumps()
    settings = service.settings
    check_server(settings)
    config = uvicorn.Config(
        app := create_app(service),
        loop="uvloop",
        http=_protocol(service, app),
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=math.ceil(settings.idle_timeout_s),
        timeout_graceful_shutdown=max(1, round(settings.graceful_s)),
    )
    if not has_limits():
        config.load()
        config.ssl = _tls_of(settings)
    server = uvicorn.Server(config)
    _stop_on_signals(server)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        service.start()
        threading.Thread(target=_after_loading, args=(service, when_ready), daemon=True).start()
        if before_listening is not None:
            before_listening(lambda: server.should_exit)
        if not server.should_exit:
            server.run(sockets=[listening])
    finally:
        service.close()
        listening.close()


def forbid_core_dumps() -> None:
    """Let nobody write this process's memory to a file: it holds keys, and true locations for up to an hour.

    The limit alone is not enough: Linux ignores it where core dumps are piped to a program, as many distributions do.
    A process that is not dumpable is not dumped either way. Nor can other processes of the same user attach to it, or
    read its variables.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux" and ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        log_event("process is still dumpable", level="warning")


def _protocol(service: Service, app: App) -> type[asyncio.Protocol] | Literal["httptools"]:
    """Return the protocol with limits and, if the installed uvicorn is known, with the fast lane for questions."""
    if not has_limits():
        log_event("no limits on connections, uvicorn is not known", level="error", version=uvicorn.__version__)
        return "httptools"
    from nearveil.server.protocol import FastLaneProtocol, LimitedProtocol, fitting, protocol_for  # noqa: PLC0415

    settings = service.settings
    limits = ConnectionLimits.of(settings)
    fitting_connections = connections_that_fit(limits.connections)
    if fitting_connections < limits.connections:
        log_event("fewer connections, this process may open few files", level="warning", count=fitting_connections)
    connections = Connections(replace(limits, connections=fitting_connections), refused=service.metrics.rejected)
    service.metrics.count_connections(lambda: len(connections))
    # With an access log all requests take the ordinary route.
    is_fast = isinstance(app, HotRoutes)
    if is_fast and not fitting(FastLaneProtocol):
        log_event("no fast lane, uvicorn is not known", level="warning", version=uvicorn.__version__)
        is_fast = False
    return protocol_for(
        FastLaneProtocol if is_fast else LimitedProtocol,
        connections,
        Answers(),
        routes=app if is_fast else None,
        tls=_tls_of(settings),
    )


def _tls_of(settings: Settings) -> ssl.SSLContext | None:
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    return tls_context(settings.tls_certificate, settings.tls_key)


def _after_loading(service: Service, when_ready: Callable[[], None] | None) -> None:
    service.scheduler.loaded.wait()
    # Objects that live as long as the process, such as all ids, are excluded from garbage collection.
    gc.freeze()
    if when_ready is not None:
        when_ready()


def _stop_on_signals(server: uvicorn.Server) -> None:
    """Stop gracefully; uvicorn raises the signal again when it is done, and that must not count as a failure."""

    def stop(_number: int, _frame: object) -> None:
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
