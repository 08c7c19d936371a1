"""The oracle is all an attack can touch."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from nearveil.attacks.base import Outcome
from nearveil.attacks.gi_lia import GILIA
from nearveil.attacks.oracle import (
    CountedBands,
    CountedDistance,
    CountedFilter,
    CountedOracle,
    OracleError,
    OutOfQueriesError,
    Point,
    Radii,
)
from nearveil.attacks.simulator import SimulatedService
from nearveil.errors import UsageError
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.region import Region
from nearveil.types import FloatArray


def test_counts_and_stops(service: SimulatedService) -> None:
    oracle = service.oracle(k=5, accounts=1, most_queries=3)
    for number in range(3):
        assert len(oracle.nearby((0.0, 0.0))) == 5
        assert oracle.queries == number + 1
    with pytest.raises(OutOfQueriesError):
        oracle.nearby((0.0, 0.0))


def test_accounts_appear_move_and_go(service: SimulatedService) -> None:
    oracle = service.oracle(k=5, accounts=2)
    first, second = oracle.accounts
    oracle.put(first, (0.0, 0.0))
    assert oracle.nearby((0.0, 0.0))[0] == first
    oracle.put(first, (9000.0, 0.0))
    assert first not in oracle.nearby((0.0, 0.0))
    oracle.put(first, None)
    oracle.put(second, None)
    with pytest.raises(OracleError, match="own accounts"):
        oracle.put(3, (0.0, 0.0))
    # The next attacker starts with a clean map.
    oracle.put(second, (0.0, 0.0))
    assert second not in service.oracle(k=5, accounts=0).nearby((0.0, 0.0))


def test_nothing_but_answers_can_be_reached(service: SimulatedService, city_m: FloatArray) -> None:
    """Everything public on the oracle, followed as far as attributes go, holds no place of anybody."""
    oracle = service.oracle(k=5, accounts=1)
    public = {name for name in dir(oracle) if not name.startswith("_")}
    assert public == {"k", "accounts", "queries", "nearby", "put", "has_exact_lists"}
    assert not hasattr(oracle, "__dict__")
    for name in public:
        value = getattr(oracle, name)
        assert callable(value) or isinstance(value, int | tuple)
    answer = oracle.nearby((0.0, 0.0))
    assert all(isinstance(person, int | str) for person in answer)
    del city_m


@pytest.mark.parametrize(
    ("answer", "words"),
    [([1, 2, 2], "twice"), ([1, 2, 3, 4, 5, 6], "6 people where 5")],
)
def test_nonsense_is_recognised(answer: Sequence[int], words: str) -> None:
    oracle = CountedOracle(lambda _place: answer, lambda _who, _where: None, k=5, accounts=("c",))
    with pytest.raises(OracleError, match=words):
        oracle.nearby((0.0, 0.0))


def test_services_that_answer_too_little_or_at_random_end_cleanly() -> None:
    rng = np.random.default_rng(1)

    def nobody(_place: Point) -> list[int]:
        return []

    def anybody(_place: Point) -> list[int]:
        return list(rng.permutation(9)[:5])

    for ask in (nobody, anybody):
        oracle = CountedOracle(ask, lambda _who, _where: None, k=5, accounts=("c",), most_queries=300)
        result = GILIA().infer(oracle, 3, (0.0, 0.0))
        assert result.queries <= 300
        assert not result.certified
        if ask is nobody:
            assert result.outcome is Outcome.NOT_LISTED


def test_published_accounts_are_not_where_they_were_put(san_francisco: Region, city_m: FloatArray) -> None:
    mechanism = PlanarLaplace(noise_m=2000, region="san-francisco")
    service = SimulatedService(san_francisco, city_m, account_mechanism=mechanism, rng=1)
    oracle = service.oracle(k=3, accounts=1)
    first = 0
    for _ in range(20):
        oracle.put(oracle.accounts[0], (0.0, 0.0))
        first += oracle.nearby((0.0, 0.0))[0] == oracle.accounts[0]
    assert first < 10


def test_impossible_services(san_francisco: Region, service: SimulatedService) -> None:
    with pytest.raises(UsageError, match="without people"):
        SimulatedService(san_francisco, np.empty((0, 2)))
    for k in (0, 10**6):
        with pytest.raises(UsageError, match="k must"):
            service.oracle(k=k, accounts=0)


@pytest.mark.parametrize("answer", ["2 km", None, math.nan, -1.0, math.inf, True, [2.0]])
def test_what_is_no_distance_is_refused(answer: object) -> None:
    with pytest.raises(OracleError, match="did not answer with a distance"):
        CountedDistance(lambda point: answer).distance((0.0, 0.0))


@pytest.mark.parametrize("answer", ["500 m", None, (500.0,), (500.0, 100.0), (-1.0, 5.0), (math.nan, 5.0), ("0", "5")])
def test_what_is_no_band_is_refused(answer: object) -> None:
    with pytest.raises(OracleError, match="band"):
        CountedBands(lambda point: answer).band((0.0, 0.0))


@pytest.mark.parametrize("answer", ["yes", None, 1, 0.0])
def test_what_is_neither_yes_nor_no_is_refused(answer: object) -> None:
    with pytest.raises(OracleError, match="True or False"):
        CountedFilter(lambda point, radius: answer, radii=Radii()).within((0.0, 0.0), 1000.0)


def test_a_service_that_is_down_is_one_sentence() -> None:
    def down(point: Point) -> float:
        raise ConnectionRefusedError

    with pytest.raises(OracleError, match="is it running"):
        CountedDistance(down).distance((0.0, 0.0))
