"""Scopes: what a platform key may do, and which route needs what.

`ROUTES` is the only place that says so. The routes check callers by it, the description of the interface takes each
route's keys from it, and the table in the documentation is made of it (a test compares them).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from nearveil.errors import UsageError


class Scope(StrEnum):
    """One of the things that a platform key may do."""

    ASK = "ask"
    REPORT = "report"
    PEOPLE = "people"
    METRICS = "metrics"
    ADMIN = "admin"


ALL_SCOPES = frozenset(Scope)

ABOUT: Mapping[Scope, str] = {
    Scope.ASK: "ask who is near a place",
    Scope.REPORT: "report where people are, and take them off the map",
    Scope.PEOPLE: "create, export and erase people, set their tags, block for them, and revoke their tokens",
    Scope.METRICS: "read metrics, readiness and the ledger's totals",
    Scope.ADMIN: "make and remove platform keys, put intervals, make cells, and use the console and test hooks",
}
"""What each scope allows, in words."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Who may use a route.

    Attributes
    ----------
    scopes : tuple of Scope
        All of them are needed of a platform key; with none, every platform key may.
    person : str or None
        Whether people's tokens may too: for their own id alone ("own"), or always ("any").
    action : str or None
        What the audit log calls it; None if it is not logged there.
    """

    scopes: tuple[Scope, ...] = ()
    person: Literal["own", "any"] | None = None
    action: str | None = None


ROUTES: Mapping[tuple[str, str], Rule] = {
    ("POST", "/v1/nearby"): Rule((Scope.ASK,), "any"),
    ("PUT", "/v1/people/{id}/location"): Rule((Scope.REPORT,), "own"),
    ("POST", "/v1/locations"): Rule((Scope.REPORT,)),
    ("DELETE", "/v1/people/{id}/location"): Rule((Scope.REPORT,), "own", "withdraw person"),
    ("POST", "/v1/people"): Rule((Scope.PEOPLE,), action="create people"),
    ("PUT", "/v1/people/{id}"): Rule((Scope.PEOPLE,), action="create people"),
    ("GET", "/v1/people/{id}"): Rule((Scope.PEOPLE,), "own", "export person"),
    ("DELETE", "/v1/people/{id}"): Rule((Scope.PEOPLE,), "own", "erase person"),
    # What tags mean is the app's business, so that people cannot give themselves any.
    ("PUT", "/v1/people/{id}/tags"): Rule((Scope.PEOPLE,), action="set tags"),
    ("GET", "/v1/people/{id}/blocked"): Rule((Scope.PEOPLE,), "own", "list blocked people"),
    ("PUT", "/v1/people/{id}/blocked"): Rule((Scope.PEOPLE,), "own", "block people"),
    ("PUT", "/v1/people/{id}/blocked/{other}"): Rule((Scope.PEOPLE,), "own", "block people"),
    ("DELETE", "/v1/people/{id}/blocked/{other}"): Rule((Scope.PEOPLE,), "own", "unblock person"),
    # A token may ask and report: no key hands on what it has not.
    ("POST", "/v1/people/{id}/tokens"): Rule((Scope.PEOPLE, Scope.ASK, Scope.REPORT), action="sign token"),
    ("DELETE", "/v1/people/{id}/tokens"): Rule((Scope.PEOPLE,), "own", "revoke tokens"),
    ("GET", "/v1/guarantee"): Rule(person="any"),
    ("GET", "/v1/intervals"): Rule(person="any"),
    ("GET", "/openapi.json"): Rule(person="any"),
    ("GET", "/readyz"): Rule((Scope.METRICS,)),
    ("GET", "/metrics"): Rule((Scope.METRICS,)),
    ("GET", "/v1/ledger"): Rule((Scope.METRICS,)),
    ("GET", "/v1/platform-keys"): Rule((Scope.ADMIN,)),
    ("POST", "/v1/platform-keys/{name}"): Rule((Scope.ADMIN,), action="make platform key"),
    ("DELETE", "/v1/platform-keys/{name}"): Rule((Scope.ADMIN,), action="remove platform key"),
    ("PUT", "/v1/intervals"): Rule((Scope.ADMIN,), action="put intervals"),
    ("GET", "/v1/cells"): Rule((Scope.ADMIN,)),
    ("POST", "/v1/epoch"): Rule((Scope.ADMIN,), action="advance epoch"),
    ("GET", "/v1/console/map"): Rule((Scope.ADMIN,)),
    ("GET", "/v1/console/state"): Rule((Scope.ADMIN,)),
    ("GET", "/v1/console/prediction"): Rule((Scope.ADMIN,)),
    ("GET", "/v1/console/store"): Rule((Scope.ADMIN,)),
    # It names people.
    ("GET", "/v1/console/askers"): Rule((Scope.ADMIN, Scope.PEOPLE), action="list frequent askers"),
    ("POST", "/v1/console/demonstration"): Rule((Scope.ADMIN,)),
}
"""Every route that needs a key or a token; a route that is not here is for nobody."""


def parse_scopes(text: str) -> frozenset[Scope]:
    """Read scopes as people write them: ``ask,report``, or ``all``.

    Examples
    --------
    >>> sorted(parse_scopes("report, ask"))
    [<Scope.ASK: 'ask'>, <Scope.REPORT: 'report'>]
    """
    words = [word.strip().lower() for word in text.split(",")]
    if words == ["all"]:
        return ALL_SCOPES
    try:
        return frozenset(Scope(word) for word in words)
    except ValueError:
        raise UsageError(f"scopes are 'all', or some of {', '.join(Scope)} with commas between") from None
