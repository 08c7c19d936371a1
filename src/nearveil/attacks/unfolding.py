from __future__ import annotations
import math, os
from dataclasses import dataclass
from typing import ClassVar, Self
import numpy as np
from nearveil.attacks.base import Attack, Finding, Inquiry, Outcome, step_from
from nearveil.attacks.crowd_map import CrowdMap, step_between
from nearveil.attacks.oracle import Point, point_of
from nearveil.region import Region

_GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))
E = lambda n, d: type(d)(os.environ.get(n, d))
CH, FIRST, LEAST, BATCH, TH, FRESH, SPREAD = E("CH", 6), E("FIRST", 10), E("LEAST", 12), E("BATCH", 3), E("TH", 0.5), E("FRESH", 2), E("SPREAD", 0.5)
NEXT = E("NEXT", "circle")
DBG = E("DBG", 0)


@dataclass(frozen=True, kw_only=True)
class Unfolding(Attack):
    name: ClassVar[str] = "unfolding"
    seconds_each: ClassVar[float] = 0.5
    accounts_needed: ClassVar[int] = 0

    half_extent_m: tuple[float, float]
    tau_m: float = 100.0
    most_queries: int = 44

    @classmethod
    def for_region(cls, region: Region, *, tau_m: float, accounts: int) -> Self:
        return cls(half_extent_m=region.half_extent_m, tau_m=tau_m)

    def _run(self, inquiry: Inquiry, start: Point) -> Finding:
        rng = np.random.default_rng(1)
        crowd = CrowdMap(inquiry.oracle.k, self.half_extent_m, rng)
        lists = []

        def ask(place):
            place = self._inside(place)
            lists.append(inquiry.ask(place))
            crowd.add(place, lists[-1])
            return lists[-1]

        if inquiry.target not in ask(start):
            return Finding(Outcome.NOT_LISTED)
        step_m, step = 50.0, 1.0
        for number in range(min(6, self.most_queries - 1)):
            step = step_between(lists[0], ask(step_from(start, number * _GOLDEN_ANGLE, step_m)))
            if 0.12 <= step <= 0.8:
                break
            step_m = step_m * 4 if step < 0.12 else step_m / 2
        reach_m = min(max(step_m / step, 1.0), *self.half_extent_m)
        t = crowd.target = crowd.people.index(inquiry.target)
        n = 0
        while len(lists) < min(FIRST, self.most_queries):
            n += 1
            ask(step_from(start, (n + 2) * _GOLDEN_ANGLE, SPREAD * reach_m * math.sqrt(n / (FIRST - 2))))
        agreed = puzzled = False
        while True:
            crowd.fit(afresh=puzzled)
            samples = crowd.samples[:, t]
            middle = crowd.estimates()[t]
            dev = float(crowd.away_m().max(axis=0)[t])
            puzzled = crowd.disorder() > 0.2
            if DBG:
                print(len(lists), f"s={reach_m:.0f} {crowd.reach_m():.0f} dev={dev:.0f} dis={crowd.disorder():.3f} err={math.dist(middle, TRUTH):.0f}", [f"{math.dist(x[t], TRUTH):.0f}" for x in crowd._solutions])
            agreed = len(lists) >= min(LEAST, self.most_queries) and crowd.is_sure and dev <= TH * self.tau_m and crowd.points_apart() >= min(12, len(crowd.people))
            if agreed and not puzzled or len(lists) >= self.most_queries:
                break
            for _ in range(min(BATCH, self.most_queries - len(lists))):
                ask(self._next(crowd, t, lists, inquiry.oracle.k, rng, crowd.is_sure and dev <= self.tau_m))
        if puzzled:
            return Finding(Outcome.CONTRADICTION, point_of(middle))
        d = crowd.away_m().max(axis=0)
        est = crowd.estimates()
        others = {p: point_of(est[i]) for i, p in enumerate(crowd.people) if i != t and d[i] <= 2.5 * self.tau_m}
        return Finding(Outcome.FOUND if agreed else Outcome.OUT_OF_QUERIES, point_of(middle), others=others)

    def _next(self, crowd, t, lists, k, rng, ok) -> Point:
        radius = (0.5 if ok else 0.75) * float(crowd.reach_m())
        start = crowd.places[0]
        half = (crowd.estimates()[t] - start) / 2
        middle = start + half * min(1.0, radius / (float(np.hypot(*half)) + 1e-9))
        ang = rng.uniform(0, 2 * math.pi, 40)
        places = middle + radius * np.column_stack([np.cos(ang), np.sin(ang)])
        if NEXT == "gap":
            places = middle + radius * np.column_stack([np.cos(ang), np.sin(ang)]) * np.sqrt(rng.uniform(0, 1, (40, 1)))
        gaps = np.linalg.norm(places[:, None] - crowd.places, axis=2).min(axis=1)
        return point_of(places[np.argmax(gaps)])

    def _inside(self, place: Point) -> Point:
        (x, y), (width, height) = place, self.half_extent_m
        return min(max(x, -width), width), min(max(y, -height), height)
