"""A private Redis: on this machine alone, on a free port, and without a file."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis
from tests.services.running import free_port
from tests.waiting import PATIENCE_S, until


class RedisServer:
    """One that can be killed and started again, with nothing left of what it held."""

    def __init__(self, program: str, *options: str) -> None:
        self.port = free_port(self)
        self.address = f"redis://127.0.0.1:{self.port}"
        self._program, self._options = program, options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [self._program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        command += self._options
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self._answers)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "Redis does not start"
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_S)
            self._process = None

    def spent(self, refill_s: float) -> int:
        """Return what is missing in all buckets, if one request is earned in so long."""
        with self.client() as client:
            keys = [key for key in client.scan_iter("nearveil:*") if key != "nearveil:recent"]
            return round(sum(float(client.get(key) or 0) / 1e6 - time.time() for key in keys) / refill_s)

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port, decode_responses=True)


@contextmanager
def running_redis(*options: str) -> Iterator[RedisServer]:
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        pytest.skip("Redis is not here; install redis-server")
    server = RedisServer(program, *options)
    server.start()
    try:
        yield server
    finally:
        server.kill()
