"""A nearby service small enough to read, behind the same addresses, with places as they are reported."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np

from nearveil.client.http import AsyncClient, Client
from nearveil.region import Region

KEY = "nvk_" + "k" * 43
URL = "http://127.0.0.1:8000"

Route = Callable[[httpx.Request, re.Match[str], str], httpx.Response]


def answer(status: int, document: Any = None, **headers: str) -> httpx.Response:
    return httpx.Response(status, json=document, headers=headers) if document is not None else httpx.Response(status)


def problem(status: int, name: str, title: str = "", **headers: str) -> httpx.Response:
    return answer(status, {"type": f"urn:nearveil:problem:{name}", "title": title, "detail": "Do it so."}, **headers)


@dataclass
class StubService:
    """Publishes at once or when its test hook is called, and then only the first location of a user.

    ``refuse`` may answer in its place.
    """

    region: Region
    at_once: bool = True
    test_hooks: bool = True
    publishes_at: float = 5000.0
    refuse: Callable[[httpx.Request], httpx.Response | None] = lambda _: None
    people: dict[str, int] = field(default_factory=dict)
    published: dict[str, tuple[float, float]] = field(default_factory=dict)
    pending: dict[str, tuple[float, float]] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    epoch: int = 100
    requests: list[httpx.Request] = field(default_factory=list)

    def client(self, key: str = KEY) -> Client:
        client = Client(URL, key, transport=httpx.MockTransport(self.handle))
        client._wire.pause = lambda _: None
        return client

    def async_client(self, key: str = KEY) -> AsyncClient:
        async def at_once(_: float) -> None:
            return None

        client = AsyncClient(URL, key, transport=httpx.MockTransport(self.handle))
        client._wire.pause_async = at_once
        return client

    def populate(self, places: Any) -> None:
        for number, (x, y) in enumerate(self.region.to_metres(places)):
            self.people[f"person-{number}"] = 0
            self.published[f"person-{number}"] = (float(x), float(y))

    def handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if request.url.path == "/healthz":
            return answer(200, {"status": "ok"})
        key = request.headers.get("Authorization", "").removeprefix("Bearer ")
        caller = "" if key == KEY else self.tokens.get(key)
        if caller is None:
            return problem(401, "unauthorised", "Who are you?")
        refused = self.refuse(request)
        if refused is not None:
            return refused
        for method, pattern, route in self._routes():
            match = re.fullmatch(pattern, request.url.path)
            if match and method == request.method:
                return route(request, match, caller)
        return problem(404, "not-found", "Not found")

    def _routes(self) -> list[tuple[str, str, Route]]:
        person = "/v1/people/([^/]+)"
        return [
            ("POST", "/v1/people", self._add),
            ("PUT", person, self._add_one),
            ("DELETE", person, self._erase),
            ("GET", person, lambda _r, match, _c: answer(200, {"person": match[1]})),
            ("POST", person + "/tokens", self._token),
            ("PUT", person + "/location", self._report),
            ("DELETE", person + "/location", self._withdraw),
            ("POST", "/v1/locations", self._report_many),
            ("POST", "/v1/nearby", self._nearby),
            ("POST", "/v1/epoch", self._advance),
            ("GET", "/v1/ledger", self._ledger),
            ("GET", "/v1/guarantee", self._guarantee),
            ("GET", "/v1/intervals", lambda *_: answer(200, {"fingerprint": None, "number": 0})),
            ("PUT", "/v1/intervals", lambda *_: answer(202, {"from_epoch": self.epoch + 1})),
            ("GET", "/readyz", lambda *_: answer(503, {"title": "Not yet"})),
            ("GET", "/metrics", lambda *_: httpx.Response(200, text=self._metrics())),
        ]

    def _guarantee(self, *_: Any) -> httpx.Response:
        edges = {edge: getattr(self.region, edge) for edge in ("south", "west", "north", "east")}
        return answer(200, {"protection": "place", "text": "Card", "guarantee": {}, "region": edges})

    def _metrics(self) -> str:
        return f"# HELP x\nnearveil_reports_total {sum(self.people.values())}.0\nnearveil_reports_created 9e9\n"

    def _add(self, request: httpx.Request, _: re.Match[str], _caller: str) -> httpx.Response:
        new = [person for person in json.loads(request.content)["ids"] if person not in self.people]
        self.people.update(dict.fromkeys(new, 0))
        return answer(200, {"created": len(new)})

    def _add_one(self, _: httpx.Request, match: re.Match[str], _caller: str) -> httpx.Response:
        is_new = match[1] not in self.people
        self.people.setdefault(match[1], 0)
        return answer(201 if is_new else 200, {"created": is_new})

    def _erase(self, _: httpx.Request, match: re.Match[str], _caller: str) -> httpx.Response:
        for kept in (self.published, self.pending):
            kept.pop(match[1], None)
        return httpx.Response(204) if self.people.pop(match[1], None) is not None else problem(404, "not-found")

    def _token(self, _: httpx.Request, match: re.Match[str], _caller: str) -> httpx.Response:
        token = f"nvt_{len(self.tokens)}"
        self.tokens[token] = match[1]
        return answer(201, {"token": token, "expires_at": 9e9})

    def _report(self, request: httpx.Request, match: re.Match[str], caller: str) -> httpx.Response:
        person = match[1]
        if caller not in ("", person):
            return problem(403, "forbidden")
        self.people[person] += 1
        place = json.loads(request.content)
        x, y = self.region.to_metres([[place["latitude"], place["longitude"]]])[0]
        if self.at_once:
            self.published[person] = (float(x), float(y))
        elif self.people[person] == 1:
            self.pending[person] = (float(x), float(y))
        status = "published" if self.at_once else "taken"
        at = None if self.at_once else self.publishes_at
        return answer(202, {"status": status, "receipt": "r", "publishes_at": at})

    def _report_many(self, request: httpx.Request, _: re.Match[str], _caller: str) -> httpx.Response:
        answers: list[dict[str, Any]] = []
        for one in json.loads(request.content)["reports"]:
            if one["id"] in self.people:
                answers.append({"status": "taken", "receipt": f"r-{one['id']}", "publishes_at": self.publishes_at})
            else:
                name = "urn:nearveil:problem:too-many-requests"
                answers.append({"type": name, "title": "No", "status": 429, "detail": "Later.", "retry_after_s": 7})
        return answer(202, {"answers": answers})

    def _withdraw(self, _: httpx.Request, match: re.Match[str], _caller: str) -> httpx.Response:
        for kept in (self.published, self.pending):
            kept.pop(match[1], None)
        return httpx.Response(204)

    def _nearby(self, request: httpx.Request, _: re.Match[str], caller: str) -> httpx.Response:
        question = json.loads(request.content)
        spot = self.region.to_metres([[question["latitude"], question["longitude"]]])[0]
        ids = [person for person in self.published if person != caller]
        places = np.array([self.published[person] for person in ids])
        order = np.argsort(np.hypot(*(places - spot).T), kind="stable")[: question["k"]]
        return answer(200, {"ids": [ids[number] for number in order]})

    def _advance(self, *_: Any) -> httpx.Response:
        if not self.test_hooks:
            return problem(404, "not-found", "Not found")
        self.epoch += 1
        self.published.update(self.pending)
        self.pending.clear()
        return answer(200, {"epoch": self.epoch})

    def _ledger(self, _: httpx.Request, _match: re.Match[str], caller: str) -> httpx.Response:
        return problem(403, "forbidden", "Not yours") if caller else answer(200, {"epoch": self.epoch, "people": 3})


TOWN = Region(37.745, -122.455, 37.79, -122.398)


def populated() -> StubService:
    """Return a small town with 600 users."""
    stub = StubService(TOWN)
    stub.populate(TOWN.from_metres(np.random.default_rng(4).uniform(-0.95, 0.95, (600, 2)) * TOWN.half_extent_m))
    return stub
