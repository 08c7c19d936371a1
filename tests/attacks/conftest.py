"""A city to attack, as the service knows it, and targets as the paper picks them."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from nearveil.attacks.adaptive import Adaptive
from nearveil.attacks.base import AttackResult, Outcome
from nearveil.attacks.oracle import Point
from nearveil.attacks.policies import AnswerPolicy
from nearveil.attacks.simulator import SimulatedService
from nearveil.evaluation.attack_experiment import draw_instances
from nearveil.region import Region
from nearveil.types import FloatArray

Instances = Callable[..., Iterator[tuple[Point, int]]]
TAU_M = 100.0


@pytest.fixture(scope="session")
def city_m(san_francisco: Region, city: FloatArray) -> FloatArray:
    return san_francisco.to_metres(city)


@pytest.fixture
def service(san_francisco: Region, city_m: FloatArray) -> SimulatedService:
    return SimulatedService(san_francisco, city_m, rng=1)


@pytest.fixture
def instances(city_m: FloatArray) -> Instances:
    """Starts near a random person, each with the person who is k-th from there."""
    return lambda k, count, seed=3: near(city_m, k, count, seed)


def near(points_m: FloatArray, k: int, count: int, seed: int = 1) -> Iterator[tuple[Point, int]]:
    """Starts near a random user, each with the user who is k-th from there."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        start = points_m[rng.integers(len(points_m))] + rng.normal(0, 50, 2)
        target = int(np.argsort(np.hypot(*(points_m - start).T))[k - 1])
        yield (float(start[0]), float(start[1])), target


def error_m(result: AttackResult, at: FloatArray | Point) -> float:
    """How far the estimate is from where the service has the target; infinite without an estimate."""
    return math.dist(result.estimate, at) if result.estimate else math.inf


def truth_is_possible(result: AttackResult, at: FloatArray | Point) -> bool:
    """Whether no answer ruled the truth out."""
    return all(
        (np.abs(step.cells[:, :2] - at) <= step.cells[:, 2:] + 1e-6).all(axis=1).any()
        for step in result.trace.steps
        if step.cells is not None
    )


def claims_are_true(result: AttackResult, at: FloatArray | Point, most_queries: int = 60) -> bool:
    """Whether the attack stopped in time, and "found" and a certificate are within tau; prints what is not."""
    claims = result.certified or result.outcome is Outcome.FOUND
    is_true = result.queries <= most_queries and (not claims or error_m(result, at) <= TAU_M)
    if not is_true:
        print("wrong:", result.outcome, result.certified, result.queries, error_m(result, at))
    return is_true


def attack_policy(
    policy: str,
    points_m: FloatArray,
    region: Region,
    *,
    accounts: int,
    count: int,
    most_queries: int = 60,
    seed: int = 2,
) -> Iterator[tuple[AttackResult, FloatArray]]:
    """Results of attacks on a service with a policy, each with where the service has the target."""
    rules = AnswerPolicy.parse(policy) if policy else AnswerPolicy()
    served_m = rules.snapped(points_m, region.half_extent_m)
    service = SimulatedService(region, served_m, rng=1, policy=rules)
    attack = Adaptive(half_extent_m=region.half_extent_m, accounts=accounts, tau_m=TAU_M, most_queries=most_queries)
    drawn = draw_instances(service, served_m, k=30, count=count, rng=np.random.default_rng(seed))
    for number, instance in enumerate(drawn):
        oracle = service.oracle(k=30, accounts=accounts, rng=number)
        yield attack.infer(oracle, instance.target, instance.start), served_m[instance.target]
