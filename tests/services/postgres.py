"""A private PostgreSQL with PostGIS: a cluster in a folder of its own, on a free port, by a user who is not root."""

from __future__ import annotations

import atexit
import functools
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import pytest
from tests.waiting import PATIENCE_S, until

PACKAGES = ("postgresql", "postgresql-15-postgis-3")
TEMPLATE = "nearveil_template"
# Nothing here outlives the machine, and only our own processes are killed.
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "128MB",
    "max_connections": "60",
    "listen_addresses": "127.0.0.1",
    "timezone": "UTC",
}


class NoPostgresError(Exception):
    """PostgreSQL with PostGIS cannot be had here, and why."""


@dataclass
class Cluster:
    """A running server.

    Attributes
    ----------
    binaries : Path
        Where its programs are.
    folder : Path
        Its data, log and socket.
    command : list of str
        Starts it.
    """

    binaries: Path
    folder: Path
    port: int
    command: list[str]
    process: subprocess.Popen[bytes]
    owner: int

    def address(self, database: str) -> str:
        """Return a connection string."""
        return f"postgresql://tester:no-secret@127.0.0.1:{self.port}/{database}"

    def halt(self) -> None:
        """End the server as a crash would, all connections with it; `resume` starts it again."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(PATIENCE_S)

    def resume(self) -> None:
        """Start the server after `halt`, and return when it answers."""
        self.process = _run(self.command, self.folder)
        _wait_until_ready(self)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let the server and all its processes stand still: connections stay, and nobody answers."""
        processes = [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]
        for process in processes:
            process.suspend()
        try:
            yield
        finally:
            for process in reversed(processes):
                process.resume()

    def stop(self) -> None:
        """End it and remove its folder, unless this is a copy in a forked process."""
        if os.getpid() != self.owner:
            return
        if self.process.poll() is None:
            # An interrupt is PostgreSQL's fast shutdown.
            self.process.send_signal(2)
            self.process.wait(PATIENCE_S)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgis_cluster() -> Cluster:
    """One cluster for all tests of a process."""
    try:
        return cluster()
    except NoPostgresError as error:
        pytest.skip(str(error))


@functools.cache
def cluster() -> Cluster:
    """Start the cluster of this process, which ends with it."""
    binaries = _binaries()
    if binaries is None:
        raise NoPostgresError(f"PostgreSQL with PostGIS is not here; install {' and '.join(PACKAGES)}")
    started = _start(binaries)
    atexit.register(started.stop)
    _make_template(started)
    return started


@contextmanager
def own_cluster() -> Iterator[Cluster]:
    """Give a server that nobody else uses, to be halted and resumed."""
    started = _start(cluster().binaries)
    try:
        _make_template(started)
        yield started
    finally:
        started.stop()


@contextmanager
def private_database(server: Cluster | None = None) -> Iterator[str]:
    """Give the address of a fresh database with PostGIS, gone after the block."""
    server = server or cluster()
    name = f"test_{secrets.token_hex(8)}"
    run_sql(server.address("postgres"), f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
    try:
        yield server.address(name)
    finally:
        run_sql(server.address("postgres"), f"DROP DATABASE {name} WITH (FORCE)")


def run_sql(address: str, *statements: str) -> None:
    """Run statements as the administrator."""
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def dump(address: str) -> bytes:
    """Return a database as text, as a backup would hold it."""
    command = [str(cluster().binaries / "pg_dump"), "--inserts", address]
    return subprocess.run(command, check=True, capture_output=True).stdout


def _binaries() -> Path | None:
    """Return the newest installed programs that have PostGIS beside them."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    for initdb in reversed(found):
        version = initdb.parts[-3]
        if Path(f"/usr/share/postgresql/{version}/extension/postgis.control").exists():
            return initdb.parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


def _start(binaries: Path) -> Cluster:
    folder = Path(tempfile.mkdtemp(prefix="nearveil-postgres-"))
    data = folder / "data"
    as_user = _as_another_user(folder)
    initdb = [str(binaries / "initdb"), "--pgdata", str(data), "--username", "tester", "--auth", "trust"]
    done = subprocess.run(
        [*as_user, *initdb, "--no-sync", "--encoding", "UTF8", "--locale", "C"], check=False, capture_output=True
    )
    if done.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        raise NoPostgresError(f"PostgreSQL cannot make a cluster here: {done.stderr.decode()[-300:]}")
    port = _free_port()
    settings = [f"--{name}={value}" for name, value in _SETTINGS.items()]
    server = [str(binaries / "postgres"), "-D", str(data), "-p", str(port), "-k", str(folder), *settings]
    command = [*as_user, *server]
    started = Cluster(binaries, folder, port, command, _run(command, folder), os.getpid())
    _wait_until_ready(started)
    return started


def _run(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def _as_another_user(folder: Path) -> list[str]:
    """Return what runs a command as somebody else than root, whom PostgreSQL refuses, and give them the folder."""
    if os.geteuid() != 0:
        return []
    user = next((user for name in ("postgres", "nobody") if (user := _user(name))), None)
    setpriv = shutil.which("setpriv")
    if user is None or setpriv is None:
        raise NoPostgresError("PostgreSQL refuses to run as root, and there is no other user or no setpriv here")
    os.chown(folder, user.pw_uid, user.pw_gid)
    # It ends with the tests, also if those are killed.
    who = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return [setpriv, *who, "--pdeathsig", "INT", "--"]


def _user(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(started: Cluster) -> None:
    def has_answered_or_ended() -> bool:
        try:
            psycopg.connect(started.address("postgres"), connect_timeout=int(PATIENCE_S)).close()
        except psycopg.OperationalError:
            return started.process.poll() is not None
        return True

    until(has_answered_or_ended)
    if started.process.poll() is not None:
        told = (started.folder / "log").read_text(errors="replace")[-300:]
        started.stop()
        raise NoPostgresError(f"PostgreSQL does not start here: {told}")


def _make_template(started: Cluster) -> None:
    run_sql(started.address("postgres"), f"CREATE DATABASE {TEMPLATE}")
    try:
        run_sql(started.address(TEMPLATE), "CREATE EXTENSION postgis")
    except psycopg.Error as error:
        raise NoPostgresError(f"PostGIS is not here; install {PACKAGES[1]} ({error.diag.message_primary})") from None
