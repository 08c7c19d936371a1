"""A real service in a process of its own, for tests that start, load and kill it."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx
from tests.waiting import PATIENCE_S, until

START_S = 300.0


def free_port(owner: object = None) -> int:
    """Return a port that is free now, and that no other process is given while the owner lives.

    A port that is only looked up may be gone before a server has started, which takes seconds on a busy machine: as the
    port of another test's server or of an outgoing connection. A socket that does not listen keeps it, and lets a
    server in that reuses addresses, as all servers here do.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    port = int(reserved.getsockname()[1])
    if owner is None:
        reserved.close()
    else:
        weakref.finalize(owner, reserved.close)
    return port


class RunningService:
    """`nearveil serve` with options, its log in a file, and the platform's key at hand."""

    def __init__(
        self,
        folder: Path,
        options: Sequence[str] = (),
        *,
        store: str | None = None,
        key: str | None = None,
        trust: ssl.SSLContext | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.port = free_port(self)
        self.url = f"{'https' if trust else 'http'}://127.0.0.1:{self.port}"
        self.log = folder / "service.log"
        address = store or str(folder / "data" / "nearveil.db")
        self._command = [
            *(sys.executable, "-c", "from nearveil.cli.main import main; main()", "serve"),
            *("--port", str(self.port), "--region", "san-francisco", *options),
        ]
        # In a variable: an address with a password is refused on the command line.
        self._environment = {**os.environ, **(env or {}), "NEARVEIL_STORE": address}
        # What it says must be in the log at once, also without this.
        self._environment.pop("PYTHONUNBUFFERED", None)
        self._given_key = key
        self._trust = trust
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it answers questions."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=self._environment)
        until(self._is_ready, START_S)

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the service ended: {self.log.read_text()[-2000:]}"
        try:
            address, trust = f"{self.url}/readyz", self._trust or True
            return httpx.get(address, headers=self.headers, timeout=PATIENCE_S, verify=trust).status_code == 200
        except (httpx.TransportError, FileNotFoundError):
            return False

    def wait_until_said(self, text: str) -> str:
        """Wait until a text is in the log, which may be a little after the first answer, and return the log."""
        until(lambda: text in self.log.read_text())
        return self.log.read_text()

    @property
    def key(self) -> str:
        """The platform's key, as the service wrote it at its first start."""
        return self._given_key or (self.folder / "data" / "platform-key.txt").read_text().strip()

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to end, and wait until it has."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        if self._process is None:
            return 0
        self._process.send_signal(how)
        code = self._process.wait(PATIENCE_S)
        self._process = None
        return code
