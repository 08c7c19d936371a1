"""Services that answer nonsense or fail: every attack ends by itself, within its questions, and claims nothing."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
from tests.evidence import for_evidence

from nearveil.attacks.adaptive import Adaptive
from nearveil.attacks.base import Attack, Outcome
from nearveil.attacks.oracle import CountedOracle, Oracle, OracleError, Point
from nearveil.attacks.policies import AnswerPolicy
from nearveil.attacks.registry import ATTACKS
from nearveil.attacks.simulator import SimulatedService
from nearveil.evaluation.attack_experiment import draw_instances, set_up_attacks
from nearveil.io.synthetic import synthetic_city
from nearveil.nearby.index import Person
from nearveil.region import Region

K = 8
LONG_LIST = 30
MOST_QUERIES = 300
Ask = Callable[[Point], Sequence[Person]]
Disorder = Callable[[list[Person], Person, np.random.Generator], list[Person]]


@pytest.fixture(params=tuple(ATTACKS))
def attack(request: pytest.FixtureRequest, san_francisco: Region) -> Attack:
    return set_up_attacks([request.param], san_francisco, accounts=[2], tau_m=100.0)[0].attack


def oracle_of(ask: Ask) -> CountedOracle:
    return CountedOracle(ask, lambda _who, _where: None, k=K, accounts=("a", "b"), most_queries=MOST_QUERIES)


def strangers() -> Ask:
    rng = np.random.default_rng(1)
    return lambda _place: ["target", *(f"nobody-{number}" for number in rng.integers(10**12, size=K - 1))]


def changing_its_mind() -> Ask:
    rng = np.random.default_rng(1)
    people = ["target", "a", "b", *range(12)]
    return lambda _place: [people[i] for i in rng.permutation(len(people))[:K]]


def deaf() -> Ask:
    return lambda _place: ["target", "x", "y"]


def silent_after_the_first() -> Ask:
    answers = iter([["target", "x", "y"]])
    return lambda _place: next(answers, [])


@pytest.mark.parametrize("service", [strangers, changing_its_mind, deaf, silent_after_the_first])
def test_nonsense_ends_without_a_claim(attack: Attack, service: Callable[[], Ask]) -> None:
    result = attack.infer(oracle_of(service()), "target", (0.0, 0.0))
    assert result.queries <= MOST_QUERIES
    assert not result.certified


def test_empty_answers_are_not_listed(attack: Attack) -> None:
    result = attack.infer(oracle_of(lambda _place: []), "target", (0.0, 0.0))
    assert result.outcome in {Outcome.NOT_LISTED, Outcome.CONTRADICTION}
    assert result.queries <= 3


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (["target", "x", "x"], "somebody twice"),
        ([f"p{number}" for number in range(K + 1)], f"{K + 1} people where {K} were asked for"),
        (None, "did not answer with a list"),
        ([["target"]], "did not answer with a list"),
    ],
    ids=["twice", "too many", "nothing at all", "no ids"],
)
def test_what_no_service_can_answer_is_an_error(attack: Attack, answer: Sequence[Person], says: str) -> None:
    with pytest.raises(OracleError, match=says):
        attack.infer(oracle_of(lambda _place: answer), "target", (0.0, 0.0))


def test_a_service_that_cannot_be_reached(attack: Attack) -> None:
    def refuse(_place: Point) -> Sequence[Person]:
        raise ConnectionRefusedError("127.0.0.1:8000")

    with pytest.raises(OracleError, match="did not answer"):
        attack.infer(oracle_of(refuse), "target", (0.0, 0.0))


# Lists of the right people in an order that says nothing, or something else. Every answer is possible for itself.


def shuffled(listed: list[Person], _target: Person, rng: np.random.Generator) -> list[Person]:
    return [listed[row] for row in rng.permutation(len(listed))]


def with_the_target_at(place: int | None) -> Disorder:
    """The target always at a place of the list, or at any."""

    def disorder(listed: list[Person], target: Person, rng: np.random.Generator) -> list[Person]:
        others = [user for user in listed if user != target][: LONG_LIST - 1]
        others.insert(int(rng.integers(len(others) + 1)) if place is None else min(place, len(others)), target)
        return others

    return disorder


def reversed_order(listed: list[Person], _target: Person, _rng: np.random.Generator) -> list[Person]:
    return listed[::-1]


def _ask_in_disorder(
    plain: Oracle, target: Person, disorder: Disorder, rng: np.random.Generator, place: Point
) -> list[Person]:
    return disorder([*plain.nearby(place)], target, rng)


@pytest.mark.parametrize(
    ("policy", "disorder", "accounts"),
    [
        (None, shuffled, 4),
        (None, with_the_target_at(LONG_LIST), 2),
        *for_evidence(
            (None, shuffled, 1),
            (None, with_the_target_at(0), 1),
            (None, with_the_target_at(0), 4),
            ("bands:500m", with_the_target_at(0), 4),
            (None, with_the_target_at(4), 4),
            (None, with_the_target_at(None), 1),
            (None, reversed_order, 2),
            (None, reversed_order, 4),
        ),
    ],
)
def test_an_order_that_means_something_else_is_not_believed(
    san_francisco: Region,
    policy: str | None,
    disorder: Disorder,
    accounts: int,
) -> None:
    places_m = san_francisco.to_metres(synthetic_city(5000, san_francisco, rng=3))
    service = SimulatedService(san_francisco, places_m, rng=1, policy=AnswerPolicy.parse(policy) if policy else None)
    attack = Adaptive(half_extent_m=san_francisco.half_extent_m, accounts=accounts)
    instances = draw_instances(service, places_m, k=LONG_LIST, count=2, rng=np.random.default_rng(5))
    for number, instance in enumerate(instances):
        plain = service.oracle(k=LONG_LIST, accounts=accounts, rng=number)
        ask = partial(_ask_in_disorder, plain, instance.target, disorder, np.random.default_rng(number))
        oracle = CountedOracle(ask, plain.put, k=LONG_LIST, accounts=plain.accounts)
        result = attack.infer(oracle, instance.target, instance.start)
        assert result.outcome is not Outcome.FOUND
        assert not result.certified
        assert result.radius_m is None
