"""Services that answer nonsense or fail: every attack ends by itself, within its questions, and claims nothing."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from nearveil.attacks.base import Attack, Outcome
from nearveil.attacks.oracle import CountedOracle, OracleError, Spot
from nearveil.attacks.registry import ATTACKS
from nearveil.evaluation.attack_trials import set_up_attacks
from nearveil.nearby.index import Person
from nearveil.region import Region

K = 8
MOST_QUERIES = 300
Ask = Callable[[Spot], Sequence[Person]]


@pytest.fixture(params=tuple(ATTACKS))
def attack(request: pytest.FixtureRequest, san_francisco: Region) -> Attack:
    return set_up_attacks([request.param], san_francisco, colluders=[2], tau_m=100.0)[0].attack


def oracle_of(ask: Ask) -> CountedOracle:
    return CountedOracle(ask, lambda _who, _where: None, k=K, colluders=("a", "b"), most_queries=MOST_QUERIES)


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
    def refuse(_place: Spot) -> Sequence[Person]:
        raise ConnectionRefusedError("127.0.0.1:8000")

    with pytest.raises(OracleError, match="did not answer"):
        attack.infer(oracle_of(refuse), "target", (0.0, 0.0))
