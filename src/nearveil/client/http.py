"""Client: a Nearveil service from Python, with a platform's key or a person's token."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import httpx

from nearveil.client.checks import checked_id, checked_key, person_path, place_body
from nearveil.client.errors import ServiceError
from nearveil.client.values import Card, IntervalsInUse, Ledger, Receipt, Token
from nearveil.client.wire import Wire, field_of, json_of, object_of, strange

MOST_PEOPLE_AT_ONCE = 10_000


class Client:
    """A service and the key to talk to it with.

    Parameters
    ----------
    url : str
        The service's address. Over plain http it must be this machine, unless ``allow_plain_http`` says otherwise:
        a key must not travel in clear.
    key : str
        A platform's key or a person's token; empty for `is_healthy` alone.
    timeout_s : float
        How long to wait for an answer.
    transport : httpx.BaseTransport, optional
        Another way to the service, for tests.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:8000", "nvk_secret")
    >>> client
    Client('http://127.0.0.1:8000')
    >>> client.close()
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout_s: float = 10.0,
        transport: httpx.BaseTransport | None = None,
        allow_plain_http: bool = False,
    ) -> None:
        self._wire = Wire(url, timeout_s=timeout_s, transport=transport, allow_plain_http=allow_plain_http)
        self._key = checked_key(key)

    def with_key(self, key: str) -> Client:
        """Return a client that talks with another key over the same connections; closing one closes both."""
        other = object.__new__(Client)
        other._wire, other._key = self._wire, checked_key(key)
        return other

    def close(self) -> None:
        """Let go of the connections."""
        self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._wire.shown_url!r})"

    # -- the service -------------------------------------------------------------------------------------------

    def is_healthy(self) -> bool:
        """Whether the service answers that it is well."""
        return self._is_fine("/healthz")

    def is_ready(self) -> bool:
        """Whether the service can answer questions."""
        return self._is_fine("/readyz")

    def _is_fine(self, path: str) -> bool:
        try:
            self._get(path)
        except ServiceError as error:
            if error.status == 503:
                return False
            raise
        return True

    def guarantee(self) -> Card:
        """Return what the service promises."""
        answer = self._get("/v1/guarantee")
        return Card(field_of(answer, "text", str), json_of(answer))

    def ledger(self) -> Ledger:
        """Return the ledger's state; platforms only."""
        document = object_of(self._get("/v1/ledger"))
        epoch = document.get("epoch")
        return Ledger(epoch if isinstance(epoch, int) else None, document)

    def metrics(self) -> str:
        """Return the service's metrics as Prometheus reads them."""
        return self._get("/metrics").text

    def intervals(self) -> IntervalsInUse:
        """Return which intervals are in use."""
        document = object_of(self._get("/v1/intervals"))
        fingerprint = document.get("fingerprint")
        return IntervalsInUse(fingerprint if isinstance(fingerprint, str) else None, document)

    def put_intervals(self, file: str) -> int:
        """Hand over an intervals file as it was written; return the epoch from which on it is used."""
        answer = self._send("PUT", "/v1/intervals", repeatable=True, content=file.encode())
        return int(field_of(answer, "from_epoch", int))

    def advance_epoch(self) -> int:
        """Go to the next epoch at once, where the service has test hooks; return it."""
        return int(field_of(self._send("POST", "/v1/epoch", repeatable=False), "epoch", int))

    # -- people ------------------------------------------------------------------------------------------------

    def create_person(self, person: str) -> bool:
        """Create a person; whether there was none of this id before."""
        return self._send("PUT", person_path(person), repeatable=True).status_code == 201

    def create_people(self, people: Sequence[str]) -> int:
        """Create many people; return how many are new."""
        for person in people:
            checked_id(person)
        created = 0
        for start in range(0, len(people), MOST_PEOPLE_AT_ONCE):
            part = list(people[start : start + MOST_PEOPLE_AT_ONCE])
            answer = self._send("POST", "/v1/people", repeatable=False, json={"ids": part})
            created += int(field_of(answer, "created", int))
        return created

    def delete_person(self, person: str) -> bool:
        """Erase a person; whether there was one."""
        return self._delete(person_path(person))

    def export(self, person: str) -> dict[str, Any]:
        """Return everything held about a person."""
        return object_of(self._get(person_path(person)))

    def issue_token(self, person: str, *, expires_in_s: int = 3600) -> Token:
        """Return a token that lets a person speak for themselves; platforms only."""
        body = {"expires_in_s": expires_in_s}
        answer = self._send("POST", person_path(person, "/tokens"), repeatable=False, json=body)
        return Token(field_of(answer, "token", str), field_of(answer, "expires_at", (str, int, float)))

    def revoke_tokens(self, person: str) -> bool:
        """Void the tokens made for a person so far; whether there was such a person."""
        return self._delete(person_path(person, "/tokens"))

    # -- places ------------------------------------------------------------------------------------------------

    def report(self, person: str, latitude: float, longitude: float) -> Receipt:
        """Report where a person is."""
        body = place_body(latitude, longitude)
        answer = self._send("PUT", person_path(person, "/location"), repeatable=True, json=body)
        document = object_of(answer)
        at = document.get("publishes_at")
        moment = float(at) if isinstance(at, int | float) and not isinstance(at, bool) else None
        return Receipt(field_of(answer, "status", str), str(document.get("receipt") or ""), moment)

    def withdraw(self, person: str) -> bool:
        """Take a person off the map; whether there was such a person."""
        return self._delete(person_path(person, "/location"))

    def nearby(
        self, latitude: float, longitude: float, *, k: int = 10, within_m: float | None = None, asker: str | None = None
    ) -> list[str]:
        """Return the ids of the people near a place, nearest first."""
        body: dict[str, Any] = {**place_body(latitude, longitude), "k": k}
        if within_m is not None:
            body["within_m"] = within_m
        if asker is not None:
            body["asker"] = checked_id(asker)
        # A question changes nothing, so that it may be asked again.
        answer = self._send("POST", "/v1/nearby", repeatable=True, json=body)
        ids = field_of(answer, "ids", list)
        if not all(isinstance(person, str) for person in ids):
            raise strange(answer)
        return list(ids)

    # -- underneath --------------------------------------------------------------------------------------------

    def _get(self, path: str) -> httpx.Response:
        return self._send("GET", path, repeatable=True)

    def _delete(self, path: str) -> bool:
        try:
            self._send("DELETE", path, repeatable=True)
        except ServiceError as error:
            if error.status == 404:
                return False
            raise
        return True

    def _send(
        self, method: str, path: str, *, repeatable: bool, json: Any = None, content: bytes | None = None
    ) -> httpx.Response:
        return self._wire.send(method, path, self._key, repeatable=repeatable, json=json, content=content)
