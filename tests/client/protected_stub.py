"""A stub of a service with noise per place that may tell right places from wrong ones, as services once did."""

import json
import math
import re
import threading
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np

from nearveil.nearby.publishing.protection import Cell, PlaceGrid
from tests.client.stub_service import Route, StubService, answer, problem


@dataclass
class ProtectedStub(StubService):
    """Publishes the noisy first place of everybody. A report within its cell is a right guess, and others are wrong.

    Attributes
    ----------
    tells : str
        Where right and wrong differ, as they once did: "answer", "export", "ledger", "metrics"; "" for nowhere.
    """

    tells: str = ""
    noise_m: float = 500.0
    cells: dict[str, Cell] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    reports: int = 0
    at_once: bool = False
    lock: Any = field(default_factory=threading.Lock, repr=False)

    def handle(self, request: httpx.Request) -> httpx.Response:
        with self.lock:
            return super().handle(request)

    def _routes(self) -> list[tuple[str, str, Route]]:
        return [
            ("GET", "/v1/people/([^/]+)", self._export),
            ("GET", "/v1/guarantee", lambda *_: answer(200, self._card())),
            *super()._routes(),
        ]

    def _card(self) -> dict[str, Any]:
        region = self.region
        edges = {"south": region.south, "west": region.west, "north": region.north, "east": region.east}
        guarantee = {"epsilon": 2 / self.noise_m, "unit": "per metre"}
        return {"protection": "place", "text": "Card", "guarantee": guarantee, "region": edges}

    def _export(self, _: httpx.Request, match: re.Match[str], caller: str) -> httpx.Response:
        person = match[1]
        if caller not in ("", person):
            return problem(403, "forbidden")
        point = self.published.get(person)
        document: dict[str, Any] = {"id": person, "published": point and {"x_m": point[0], "y_m": point[1]}}
        if self.tells == "export":
            document["pending"] = {"receipt": "r"} if person in self.waiting else None
        return answer(200, document)

    def _ledger(self, request: httpx.Request, match: re.Match[str], caller: str) -> httpx.Response:
        if caller:
            return problem(403, "forbidden")
        pending = {"pending": len(self.waiting)} if self.tells == "ledger" else {}
        return answer(200, {"epoch": self.epoch, "new_places_per_window": 20, **pending})

    def _metrics(self) -> str:
        pending = f"nearveil_pending_draws {len(self.waiting)}.0\n" if self.tells == "metrics" else ""
        counted = f"nearveil_reports_total {self.reports}.0\nnearveil_question_seconds_sum {self.reports}\n"
        return f"# HELP x\n{counted}{pending}"

    def _report(self, request: httpx.Request, match: re.Match[str], caller: str) -> httpx.Response:
        person = match[1]
        if caller not in ("", person):
            return problem(403, "forbidden")
        place = json.loads(request.content)
        x, y = (float(part) for part in self.region.to_metres([[place["latitude"], place["longitude"]]])[0])
        grid = PlaceGrid(self.noise_m / 4)
        near = grid.cells_near(x, y)
        self.reports += 1
        if person not in self.cells:
            self.cells[person] = near[0]
            centre = grid.centre_of(near[0])
            rng = np.random.default_rng(len(self.cells))
            angle, length = rng.uniform(0, 2 * math.pi), rng.gamma(2.0, self.noise_m / 2)
            self.pending[person] = (centre[0] + length * math.cos(angle), centre[1] + length * math.sin(angle))
        is_right = self.cells[person] in near
        (self.waiting.discard if is_right else self.waiting.add)(person)
        said = ("same place" if is_right else "pending") if self.tells == "answer" else "taken"
        return answer(202, {"status": said, "receipt": f"{self.reports:08x}", "publishes_at": self.publishes_at})
