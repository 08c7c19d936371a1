"""Whom to attack, and from where: the paper's protocol."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nearveil.attacks.oracle import Spot
from nearveil.attacks.simulator import SimulatedService
from nearveil.errors import UsageError
from nearveil.types import FloatArray

START_OFFSET_M = 100.0


@dataclass(frozen=True, slots=True)
class Instance:
    """One attack to be made: the attacker starts where the target is listed."""

    start: Spot
    target: int


def draw_instances(
    service: SimulatedService, people_m: FloatArray, *, k: int, count: int, rng: np.random.Generator
) -> list[Instance]:
    """Start at a point near a random person; the target is the k-th in the list there."""
    found = []
    for _ in range(count):
        start = _near(people_m[rng.integers(len(people_m))], rng)
        found.append(Instance(start, _ranked(service, start, k)[-1]))
    return found


def instances_of_person(
    service: SimulatedService, people_m: FloatArray, target: int, *, k: int, count: int, rng: np.random.Generator
) -> list[Instance]:
    """Start at points near people around the target, wherever the target is listed; all as the service has them.

    Raises
    ------
    UsageError
        If the target is listed from none of them: the service publishes it far from where it is.
    """
    by_distance = np.argsort(np.hypot(*(people_m - people_m[target]).T), kind="stable")[: 2 * k + 1]
    found: list[Instance] = []
    for _ in range(20 * count):
        start = _near(people_m[rng.choice(by_distance)], rng)
        if target in _ranked(service, start, k):
            found.append(Instance(start, target))
            if len(found) == count:
                return found
    if not found:
        raise UsageError("this person is listed from no place near their own; raise --k, or attack somebody else")
    return [found[number % len(found)] for number in range(count)]


def _near(place: FloatArray, rng: np.random.Generator) -> Spot:
    """A point within 100 m, any as likely as any other."""
    length = START_OFFSET_M * math.sqrt(rng.random())
    angle = 2 * math.pi * rng.random()
    return float(place[0] + length * math.cos(angle)), float(place[1] + length * math.sin(angle))


def _ranked(service: SimulatedService, start: Spot, k: int) -> list[int]:
    return [person for person in service.oracle(k=k, colluders=0).nearby(start) if isinstance(person, int)]
