"""Clients of a running service (`Client`, `AsyncClient`), and the audit of one's own service through its interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearveil._lazy import lazy_names

if TYPE_CHECKING:
    from nearveil.client.calls import IssuedToken, LocationReport, Receipt, ServiceError, UnreachableError
    from nearveil.client.http import AsyncClient, Client

__all__ = [
    "AsyncClient",
    "Client",
    "IssuedToken",
    "LocationReport",
    "Receipt",
    "ServiceError",
    "UnreachableError",
]

_HOMES = {
    "AsyncClient": "nearveil.client.http",
    "Client": "nearveil.client.http",
    "IssuedToken": "nearveil.client.calls",
    "LocationReport": "nearveil.client.calls",
    "Receipt": "nearveil.client.calls",
    "ServiceError": "nearveil.client.calls",
    "UnreachableError": "nearveil.client.calls",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
