"""A service as a process of its own, started by the command."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.waiting import PATIENCE_S, until

_COMMAND = "from nearveil.cli.main import main; main()"


def nearveil(*arguments: str, folder: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-c", _COMMAND, *arguments],
        cwd=folder,
        env=_environment(env),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@dataclass
class Served:
    process: subprocess.Popen[str]
    address: str
    key: str
    said: list[str]
    log: Path
    client: httpx.Client = field(repr=False)

    def call(self, method: str, path: str, **request: Any) -> httpx.Response:
        return self.client.request(method, self.address + path, **request)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def events(self) -> list[str]:
        lines = self.log.read_text().splitlines()
        return [json.loads(line)["event"] for line in lines if line.startswith("{")]


@contextmanager
def served(folder: Path, *options: str, env: dict[str, str] | None = None) -> Iterator[Served]:
    """Start the command in a folder, and wait until it says that it serves and is ready."""
    log = folder / "log.txt"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [
                sys.executable,
                "-u",
                "-c",
                _COMMAND,
                "serve",
                "--port",
                "0",
                "--region",
                "san-francisco",
                "--no-console",
                *options,
            ],
            cwd=folder,
            env=_environment(env),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    watchdog = threading.Timer(PATIENCE_S, process.kill)
    watchdog.start()
    try:
        said: list[str] = []
        address = _address(process, said)
        key = (folder / "nearveil-data" / "platform-key.txt").read_text().strip()
        with httpx.Client(headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE_S) as client:
            until(lambda: client.get(f"{address}/readyz").status_code == 200)
            yield Served(process, address, key, said, log, client)
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _address(process: subprocess.Popen[str], said: list[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        said.append(line.rstrip("\n"))
        if " on http://" in line:
            return line.rpartition(" on ")[2].strip()
    raise AssertionError("the command ended before it served: " + "\n".join(said))


def _environment(extra: dict[str, str] | None) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("NEARVEIL_")}
    return {**own, **(extra or {})}
