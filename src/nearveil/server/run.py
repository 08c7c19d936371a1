"""Run a service: listen, serve until told to stop, and leave nothing half done."""

from __future__ import annotations

import gc
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import uvicorn

from nearveil.errors import OutputError, UsageError
from nearveil.nearby.stores import is_postgres
from nearveil.nearby.stores.base import Store
from nearveil.server.app import create_app
from nearveil.server.auth import new_platform_key
from nearveil.server.hot_path import HotRoutes, fast_lane
from nearveil.server.service import Service
from nearveil.server.settings import Settings

PLATFORM_KEY_FILE = "platform-key.txt"
FIRST_KEY_NAME = "first"

_BACKLOG = 2048
# Threads that write and publish hand over this soon, so that a question never waits long for them.
_HAND_OVER_S = 0.0005


def make_data_folder(settings: Settings) -> Path | None:
    """Make the folder of an embedded store, for its owner's eyes only; None where the store is a database."""
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
    """Give an embedded store without any platform key its first one; return the file that it is written to."""
    if folder is None or store.keys():
        return None
    secret, kept = new_platform_key(FIRST_KEY_NAME)
    path = folder / PLATFORM_KEY_FILE
    try:
        # One left over by a store that is gone is of no use to anybody.
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(secret + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OutputError(f"the platform key cannot be written to {path} ({error.strerror})") from None
    # Only a key that its owner can find is of use.
    store.add_key(kept)
    return path


def listen(settings: Settings) -> socket.socket:
    """Return a socket that listens where the settings say."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind)
    except OSError:
        raise UsageError(f"there is no address {settings.host}; choose another --host") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        reason = os.strerror(error.errno) if error.errno else "it is refused"
        raise UsageError(
            f"cannot listen on {settings.host} port {settings.port} ({reason}); choose another --port or --host"
        ) from None
    return listening


def address_of(listening: socket.socket) -> str:
    """Return the address of a listening socket as a browser takes it."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(service: Service, listening: socket.socket, *, when_ready: Callable[[], None] | None = None) -> None:
    """Serve until SIGTERM or SIGINT: then accept no more, finish what runs, write what waits, and return.

    ``when_ready`` is called, in a thread, when the first question can be answered.
    """
    app = create_app(service)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        # Whoever wants a line per request gets it on the usual way.
        http=fast_lane(app) if isinstance(app, HotRoutes) else "httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=max(1, round(service.settings.graceful_s)),
    )
    server = uvicorn.Server(config)
    # Memory holds places for moments, and those of the watch on askers for an hour: it is never written out.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _stop_on_signals(server)
    sys.setswitchinterval(_HAND_OVER_S)
    try:
        service.start()
        threading.Thread(target=_settle_down, args=(service, when_ready), daemon=True).start()
        server.run(sockets=[listening])
    finally:
        service.close()
        listening.close()


def _settle_down(service: Service, when_ready: Callable[[], None] | None) -> None:
    service.scheduler.loaded.wait()
    # What lives as long as the process, everybody's id among it, need not be looked at again and again.
    gc.freeze()
    if when_ready is not None:
        when_ready()


def _stop_on_signals(server: uvicorn.Server) -> None:
    """Stop in an orderly way; uvicorn passes the signal on when it is done, and that is no reason to fail."""

    def stop(_number: int, _frame: object) -> None:
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
