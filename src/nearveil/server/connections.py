"""Connections to the service: how many there may be, what a request may hold, and how long a client may take.

A client without a key is limited too, so nothing here depends on who asks. `Connections` counts, and closes those that
take too long; `nearveil.server.protocol` measures.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import resource
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nearveil.errors import DataError
from nearveil.server.setting_types import Network, networks
from nearveil.server.settings import Settings

MOST_PIPELINED = 100
"""Requests of one connection that may wait for an answer. A client that sends more without reading is cut off."""

CLOSE_S = 2.0
"""How long a connection that is being closed may take to read what it was sent."""

NEVER = math.inf
"""The deadline of a client that nothing is expected of."""

_NEWCOMER_S = 1.0
_RESERVED_FILES = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """What a connection may do.

    Attributes
    ----------
    header_bytes, headers : int
        Of a request, its first line included.
    head_s, body_s : float
        Until the headers of a request, and then its body, are there; for the first request from the connection on.
    idle_s : float
        Between an answer and the next request.
    send_s : float
        Until a client reads what it was sent.
    connections, connections_per_address : int
        How many there may be at once; 0 for no limit of the latter.
    proxies : tuple of networks
        Not limited per address.
    """

    header_bytes: int
    headers: int
    head_s: float
    body_s: float
    idle_s: float
    send_s: float
    connections: int
    connections_per_address: int
    proxies: tuple[Network, ...]

    @classmethod
    def of(cls, settings: Settings) -> ConnectionLimits:
        """Return the limits that the settings say."""
        return cls(
            header_bytes=settings.most_header_bytes,
            headers=settings.most_headers,
            head_s=settings.head_timeout_s,
            body_s=settings.body_timeout_s,
            idle_s=settings.idle_timeout_s,
            send_s=settings.send_timeout_s,
            connections=settings.most_connections,
            connections_per_address=settings.most_connections_per_address,
            proxies=networks(settings.proxies),
        )


class Connection(Protocol):
    """An open connection, as it is watched."""

    deadline: float
    """Until when something has to happen."""
    write_deadline: float
    """Until when it has to read; infinite while it does."""

    def expire(self) -> None:
        """End the connection, because a deadline has passed, or set another."""

    def abort(self) -> None:
        """End it at once, to make room."""


class Connections:
    """All open connections, for one event loop.

    Parameters
    ----------
    limits : ConnectionLimits
        What they may do.
    refused : callable, optional
        Called with the name of the problem when a connection or a request is refused here.
    clock : callable, optional
        Seconds that never go back.
    """

    def __init__(
        self,
        limits: ConnectionLimits,
        *,
        refused: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits
        self.refused = refused
        self.clock = clock
        self._open: dict[Connection, str | None] = {}
        self._per_address: dict[str, int] = {}
        self._newcomers: dict[Connection, float] = {}
        self._is_watching = False

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Connection, address: str | None) -> bool:
        """Count a new connection; whether it may stay.

        If there are too many, the one that has waited longest without sending its first request makes room.
        """
        counted = self._counted(address)
        most = self.limits.connections_per_address
        if counted is not None and most and self._per_address.get(counted, 0) >= most:
            return False
        now = self.clock()
        if len(self._open) >= self.limits.connections and not self._made_room(now):
            return False
        self._open[connection] = counted
        if counted is not None:
            self._per_address[counted] = self._per_address.get(counted, 0) + 1
        self._newcomers[connection] = now
        connection.deadline = now + self.limits.head_s
        return True

    def heard(self, connection: Connection) -> None:
        """Take note that a connection has sent its first request: it does not make room for others any more."""
        self._newcomers.pop(connection, None)

    def leave(self, connection: Connection) -> None:
        """Forget a connection that is closed, or was never admitted."""
        self._newcomers.pop(connection, None)
        counted = self._open.pop(connection, None)
        if counted is not None:
            self._per_address[counted] -= 1
            if not self._per_address[counted]:
                del self._per_address[counted]

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """End connections whose deadline has passed, regularly, for as long as there are any."""
        if not self._is_watching:
            self._is_watching = True
            loop.call_later(self._interval_s, self._look, loop)

    def sweep(self) -> None:
        """End connections whose deadline has passed."""
        now = self.clock()
        for connection in list(self._open):
            if connection.deadline <= now or connection.write_deadline <= now:
                connection.expire()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_watching = False
        try:
            self.sweep()
        finally:
            if self._open:
                self.watch(loop)

    @property
    def _interval_s(self) -> float:
        limits = self.limits
        # One look at all connections costs less than a timer for each request.
        return min(1.0, min(limits.head_s, limits.body_s, limits.idle_s, limits.send_s) / 4)

    def _made_room(self, now: float) -> bool:
        oldest = next(iter(self._newcomers), None)
        # One that has just come may be about to send.
        if oldest is None or now - self._newcomers[oldest] < _NEWCOMER_S:
            return False
        oldest.abort()
        self.leave(oldest)
        return True

    def _counted(self, address: str | None) -> str | None:
        """Return what connections are counted by: an address, or a network of IPv6; None for proxies."""
        try:
            host = ipaddress.ip_address((address or "").partition("%")[0])
        except ValueError:
            return None
        if isinstance(host, ipaddress.IPv6Address) and host.ipv4_mapped is not None:
            host = host.ipv4_mapped
        if any(host in network for network in self.limits.proxies):
            return None
        # Whoever has one address of IPv6 has the 64 bits below it.
        return str(host) if host.version == 4 else str(ipaddress.ip_network((host, 64), strict=False))


def connections_that_fit(wanted: int) -> int:
    """Let this process open as many files as connections need; return how many connections fit."""
    needed = wanted + _RESERVED_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft - _RESERVED_FILES))


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return what TLS needs, from the files of a certificate, with those above it, and of its key; TLS 1.2 or newer."""
    for path, what in ((certificate, "certificate"), (key, "TLS key")):
        try:
            path.read_bytes()
        except OSError as error:
            raise DataError(
                f"the {what} {path} cannot be read ({error.strerror}); name a PEM file that the service may read"
            ) from None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # A key with a password would ask for it at the terminal.
        context.load_cert_chain(certificate, key, password=lambda: b"")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise DataError(
                f"the TLS key {key} does not belong to the certificate {certificate}; name the key it was made with"
            ) from None
        raise DataError(
            f"{certificate} and {key} are not a certificate and its key in PEM without a password; check that they are "
            "not exchanged"
        ) from None
    return context
