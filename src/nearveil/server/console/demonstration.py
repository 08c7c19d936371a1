"""One attack on one made-up person, in memory, bounded in time: nobody of the service has anything to do with it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from nearveil.attacks.oracle import CountedOracle, Oracle, OutOfQueriesError, Spot, spot_of
from nearveil.attacks.simulator import SimulatedService
from nearveil.evaluation.attack_instances import Instance, draw_instances, instances_of_person
from nearveil.evaluation.contenders import Contender, contenders
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.nearby.index import Person
from nearveil.region import Region
from nearveil.report.attack_scene import Scene
from nearveil.server.console.city import made_up_people, published_m
from nearveil.server.problems import too_many_requests
from nearveil.types import FloatArray

FOUND_WITHIN_M = 100.0
MOST_QUESTIONS = 400
MOST_SECONDS = 30.0
MOST_AT_ONCE = 2

# The adaptive attack goes on until it is this sure, with so many accounts; the others end by themselves.
_SURE_WITHIN_M = 20.0
_ACCOUNTS = 4
# Somebody about a walk away, not next door and not out in the country.
_A_WALK_M = 500.0
_CHOICE = 20


class DemonstrationWish(BaseModel):
    """What to show."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True)

    attack: Literal["gi-lia", "zo-lia", "adaptive", "unfolding"]
    protected: bool
    hide_within_m: Annotated[float, Field(ge=50, le=2000)] = 500.0
    k: Annotated[int, Field(ge=5, le=100)] = 10
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1


class Turns:
    """Lets one demonstration at a time run for a key, and few in all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[str] = set()

    @contextmanager
    def of(self, key: str) -> Iterator[None]:
        """Take a turn, or raise that it is too early."""
        with self._lock:
            if key in self._running or len(self._running) >= MOST_AT_ONCE:
                raise too_many_requests(2.0)
            self._running.add(key)
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(key)


def attack_somebody(wish: DemonstrationWish, region: Region, *, most_seconds: float = MOST_SECONDS) -> Scene:
    """Attack a made-up person; the same seed means the same person, protected or not.

    The attacker's accounts are believed to be where they are put, which a live service does not grant: what protection
    does is shown against an attacker who finds the published place without fail.
    """
    true_m = _city_m(region)
    rng = np.random.default_rng(wish.seed)
    instance = _somebody(SimulatedService(region, true_m, rng=wish.seed), true_m, wish.k, rng)
    served_m = true_m
    if wish.protected:
        served_m = published_m(true_m, PlanarLaplace(hide_within_m=wish.hide_within_m, region=region), rng)
    service = SimulatedService(region, served_m, rng=wish.seed)
    if wish.protected:
        instance = instances_of_person(service, served_m, instance.target, k=wish.k, count=1, rng=rng)[0]
    contender = _contender(wish.attack, region)
    oracle = service.oracle(k=wish.k, colluders=contender.colluders, most_queries=MOST_QUESTIONS)
    result = contender.attack.infer(_until(oracle, time.monotonic() + most_seconds), instance.target, instance.start)
    return Scene(
        result,
        region,
        served_m,
        truth=spot_of(true_m[instance.target]),
        tau_m=FOUND_WITHIN_M,
        published=spot_of(served_m[instance.target]) if wish.protected else None,
    )


@lru_cache(maxsize=2)
def _city_m(region: Region) -> FloatArray:
    return region.to_metres(made_up_people(region))


def _somebody(service: SimulatedService, true_m: FloatArray, k: int, rng: np.random.Generator) -> Instance:
    drawn = draw_instances(service, true_m, k=k, count=_CHOICE, rng=rng)
    return min(drawn, key=lambda one: abs(math.dist(one.start, true_m[one.target]) - _A_WALK_M))


def _contender(attack: str, region: Region) -> Contender:
    tau_m = _SURE_WITHIN_M if attack == "adaptive" else FOUND_WITHIN_M
    return contenders((attack,), region, colluders=(_ACCOUNTS,), tau_m=tau_m)[0]


def _until(oracle: Oracle, deadline_s: float) -> CountedOracle:
    """Answer no question after a moment of the monotonic clock."""

    def ask(place: Spot) -> Sequence[Person]:
        if time.monotonic() > deadline_s:
            raise OutOfQueriesError("the demonstration has taken as long as it may")
        return oracle.nearby(place)

    return CountedOracle(ask, oracle.put, k=oracle.k, colluders=oracle.colluders, most_queries=MOST_QUESTIONS)
