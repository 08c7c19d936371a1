"""The adaptive attack on services that answer about one person: it finds, it certifies, and it admits defeat."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from tests.evidence import for_evidence

from nearveil.attacks.adaptive import Adaptive
from nearveil.attacks.adaptive_rings import CHECKS_WITHOUT_RULE
from nearveil.attacks.answers import ROUNDINGS, Answers
from nearveil.attacks.base import AttackResult, Outcome
from nearveil.attacks.gi_lia import GILIA
from nearveil.attacks.oracle import (
    CountedBands,
    CountedDistance,
    CountedFilter,
    OracleError,
    OutOfQueriesError,
    PersonOracle,
    Point,
    Radii,
)
from nearveil.attacks.readings import UNITS_M, Question, reading_of
from nearveil.errors import UsageError
from nearveil.region import Region

TAU_M = 100.0
AT = (4321.0, -7654.0)


@pytest.fixture
def attack(san_francisco: Region) -> Adaptive:
    return Adaptive.for_region(san_francisco, tau_m=TAU_M, accounts=1)


def anywhere(region: Region, count: int, seed: int = 5) -> list[Point]:
    places = np.random.default_rng(seed).uniform(-1, 1, (count, 2)) * region.half_extent_m
    return [(float(x), float(y)) for x, y in places]


def shown(target: Point, step_m: float, rounding: str, step: float = 1.0) -> CountedDistance:
    return CountedDistance(lambda place: step * ROUNDINGS[rounding](math.dist(place, target) / step_m))


# The figures of docs/guides/attacking.md, on three people, so bounds are a little above those of 200. Seeds are fixed.
@pytest.mark.parametrize(
    ("answers", "most_questions"),
    [
        ("distance:1km", 11.0),
        ("bands:500m", 8.5),
        ("filter:1km", 20.0),
        *for_evidence(("distance:1mi", 12.5), ("circle:2km", 20.0), ("filter:5km-fixed", 31.0)),
    ],
)
def test_finds_and_certifies_anybody_in_few_questions(
    attack: Adaptive, san_francisco: Region, answers: str, most_questions: float
) -> None:
    rng, asked = np.random.default_rng(1), []
    for target in anywhere(san_francisco, 3):
        oracle = Answers.parse(answers).simulated(target, most_queries=100, rng=rng)
        found = attack.locate(oracle)
        assert found.outcome is Outcome.FOUND
        assert found.certified
        assert found.estimate is not None
        assert found.radius_m is not None
        assert math.dist(found.estimate, target) <= found.radius_m <= TAU_M
        assert found.queries == oracle.queries == len(found.trace.steps)
        asked.append(found.queries)
    assert np.mean(asked) <= most_questions


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(
    ("unit", "step"), [("km", 1.0), ("mi", 1.0), ("mi", 0.25), ("km", 3.0), ("m", 500.0), ("ft", 1000.0)]
)
def test_every_answer_is_a_ring_around_the_truth_under_some_rule(
    san_francisco: Region, rounding: str, unit: str, step: float
) -> None:
    """Whatever the unit and the rounding: nothing is told to the reading but numbers."""
    rng = np.random.default_rng(2)
    reading = reading_of(shown(AT, UNITS_M[unit] * step, rounding, step))
    for _ in range(30):
        x, y = rng.uniform(-1, 1, 2) * san_francisco.half_extent_m
        reading.ask(Question((float(x), float(y))))
        rings = reading.rings()
        distances = np.hypot(rings[..., 0] - AT[0], rings[..., 1] - AT[1])
        holds = ((rings[..., 2] <= distances) & (distances <= rings[..., 3])).all(axis=1)
        assert holds.any()
    # In the end steps and units are those of the service.
    steps_m = {reading.rules[number].step_m for number in np.flatnonzero(holds).tolist()}
    assert steps_m == {UNITS_M[unit] * step}


@pytest.mark.parametrize("rule_m", [500.0, *for_evidence(0.0, 1000.0)])
def test_a_filter_that_rounds_before_it_compares_is_found_out(attack: Adaptive, rule_m: float) -> None:
    oracle = CountedFilter(
        lambda place, radius: math.dist(place, AT) <= radius + rule_m, radii=Radii(step_m=1000.0), has_fixed_rule=True
    )
    found = attack.locate(oracle)
    assert found.certified
    assert found.estimate is not None
    assert math.dist(found.estimate, AT) <= TAU_M


def test_the_target_is_in_a_cell_after_every_answer(attack: Adaptive) -> None:
    for oracle in (
        shown(AT, 1609.344, "nearest"),
        Answers.parse("circle:2km").simulated(AT, most_queries=99, rng=np.random.default_rng(1)),
    ):
        found = attack.locate(oracle)
        for step in found.trace.steps:
            assert step.cells is not None
            assert (np.abs(step.cells[:, :2] - AT) <= step.cells[:, 2:]).all(axis=1).any()


def test_near_a_start_fewer_questions_are_needed(attack: Adaptive) -> None:
    start = (AT[0] + 150.0, AT[1] - 100.0)
    filter_ = Answers.parse("filter:1km")
    rng = np.random.default_rng(1)
    cold = attack.locate(filter_.simulated(AT, most_queries=99, rng=rng))
    warm = attack.locate(filter_.simulated(AT, most_queries=99, rng=rng), start)
    assert warm.certified
    assert warm.queries < cold.queries - 3


def test_a_service_that_allows_for_other_distances_is_believed_less(attack: Adaptive) -> None:
    """A service that computes on a sphere is off by a share; the tolerance covers it, and nothing else does."""
    stretched = [
        CountedDistance(lambda place: math.floor(1.003 * math.dist(place, AT) / 100.0) * 100.0, tolerance=tolerance)
        for tolerance in (0.005, 0.0)
    ]
    with_tolerance, without = (attack.locate(oracle) for oracle in stretched)
    assert with_tolerance.estimate is not None
    assert math.dist(with_tolerance.estimate, AT) <= TAU_M
    assert with_tolerance.outcome is Outcome.FOUND
    assert without.outcome is Outcome.CONTRADICTION


def banded(target: Point, edges: tuple[float, ...]) -> CountedBands:
    return CountedBands(lambda place: next(band for band in pairwise(edges) if math.dist(place, target) < band[1]))


def test_bands_of_different_widths_are_found(attack: Adaptive, san_francisco: Region) -> None:
    """As services label them, with an open end; seeds are fixed."""
    for target in anywhere(san_francisco, 2):
        found = attack.locate(banded(target, (0.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0, math.inf)))
        assert found.outcome is Outcome.FOUND
        assert found.estimate is not None
        assert math.dist(found.estimate, target) <= TAU_M
        assert found.queries <= 30


def graded(*tiers: tuple[float, float], unit_m: float = 1.0) -> Callable[[float, str], float]:
    """Rounding to the step of the first tier that reaches as far, in the service's unit."""

    def rounded(distance_m: float, rounding: str) -> float:
        shown = distance_m / unit_m
        step = next(step for most, step in tiers if shown < most)
        return step * ROUNDINGS[rounding](shown / step)

    return rounded


@pytest.mark.parametrize("rounding", ["floor", *for_evidence("nearest", "ceil")])
@pytest.mark.parametrize(
    "rule",
    [
        *for_evidence(graded((1000, 100), (math.inf, 1000)), graded((1, 0.1), (math.inf, 1), unit_m=1609.344)),
        # One step of 500 m would explain these answers, and put those from afar into rings that are too narrow.
        graded((5000, 500), (math.inf, 1000)),
    ],
    ids=["100 m, 1 km", "0.1, 1 mile", "500 m, 1 km"],
)
def test_distances_that_are_rounded_more_coarsely_farther_away_are_found(
    attack: Adaptive, san_francisco: Region, rule: Callable[[float, str], float], rounding: str
) -> None:
    for target in anywhere(san_francisco, 3):
        oracle = CountedDistance(
            lambda place, target=target: rule(math.dist(place, target), rounding), has_fixed_rule=True
        )
        found = attack.locate(oracle)
        assert found.outcome is Outcome.FOUND
        assert found.estimate is not None
        assert found.radius_m is not None
        assert math.dist(found.estimate, target) <= found.radius_m <= TAU_M
        assert found.queries <= 30


@pytest.mark.parametrize(("unit_m", "most"), [(1000.0, 10.0), *for_evidence((1609.344, 5.0))])
def test_the_greatest_distance_may_stand_for_everything_beyond(
    attack: Adaptive, san_francisco: Region, unit_m: float, most: float
) -> None:
    """Such as "10 km and more"."""
    for target in anywhere(san_francisco, 2):
        found = attack.locate(
            CountedDistance(lambda place, target=target: min(math.dist(place, target) // unit_m, most))
        )
        assert found.outcome is Outcome.FOUND
        assert found.estimate is not None
        assert math.dist(found.estimate, target) <= TAU_M
        assert found.queries <= 40


# Services that cannot be believed.


def honest(found: AttackResult, attack: Adaptive) -> bool:
    return not found.certified and found.outcome is not Outcome.FOUND and found.queries <= attack.most_queries


def test_a_rule_that_changes_midway_is_a_contradiction(attack: Adaptive) -> None:
    asked: list[Point] = []

    def distance(place: Point) -> float:
        asked.append(place)
        return math.dist(place, AT) // 1000 + (3 if len(asked) > 4 else 0)

    found = attack.locate(CountedDistance(distance))
    assert honest(found, attack)
    assert found.outcome is Outcome.CONTRADICTION
    assert found.radius_m is None


def test_a_target_that_jumps_is_a_contradiction(attack: Adaptive) -> None:
    places = [AT, (-9000.0, 15000.0)]

    def within(place: Point, radius_m: float) -> bool:
        places.reverse()
        return math.dist(place, places[0]) <= radius_m

    found = attack.locate(CountedFilter(within, radii=Radii(step_m=1000.0)))
    assert found.outcome is Outcome.CONTRADICTION
    # Yes and no fit nearly everything: it is the check that fails.
    assert found.trace.steps[-1].answer == "not within 1000 m"


def test_the_same_answer_everywhere_is_no_location(attack: Adaptive) -> None:
    everywhere: list[PersonOracle] = [
        CountedFilter(lambda place, radius: True, radii=Radii(step_m=1000.0)),
        CountedFilter(lambda place, radius: False, radii=Radii(fixed_m=(5000.0,))),
        CountedBands(lambda place: (0.0, math.inf)),
        CountedDistance(lambda place: 0),
        CountedDistance(lambda place: 12345.678),
    ]
    attack = replace(attack, most_queries=10)
    for oracle in everywhere:
        assert honest(attack.locate(oracle), attack)


# A check tells something only if its answer is certain by the service's own distances, too.
@pytest.mark.parametrize(
    ("answer", "radii"),
    [(False, Radii(step_m=1000.0)), (False, Radii(least_m=2000.0)), (True, Radii(fixed_m=(5000.0,)))],
    ids=["never within a step", "never within a circle", "always within a fixed radius"],
)
def test_checks_allow_for_other_distances(attack: Adaptive, answer: bool, radii: Radii) -> None:
    oracle = CountedFilter(lambda place, radius: answer, radii=radii, tolerance=0.005, has_fixed_rule=True)
    assert honest(attack.locate(oracle), attack)


def rounded_by_chance(target: Point, rng: np.random.Generator) -> PersonOracle:
    return CountedDistance(lambda place: math.floor(math.dist(place, target) / 1000 + rng.random()))


def noisy_filter(target: Point, rng: np.random.Generator) -> PersonOracle:
    return CountedFilter(
        lambda place, radius: math.dist(place, target) + rng.normal(0, 200) <= radius, radii=Radii(step_m=1000.0)
    )


@pytest.mark.parametrize("service", [noisy_filter, *for_evidence(rounded_by_chance)])
def test_nothing_is_certified_without_a_fixed_rule(
    attack: Adaptive, san_francisco: Region, service: Callable[[Point, np.random.Generator], PersonOracle]
) -> None:
    """Without checks some of these answers fit one location, whose radius is given. Seeds are fixed."""
    rng, attack = np.random.default_rng(3), replace(attack, checks=0)
    found = [attack.locate(service(target, rng)) for target in anywhere(san_francisco, 3)]
    assert any(one.outcome is Outcome.FOUND for one in found)
    assert not any(one.certified for one in found)
    assert all((one.radius_m is None) == (one.outcome is Outcome.CONTRADICTION) for one in found)


def test_more_checks_are_made_where_nobody_says_that_the_rule_is_fixed(attack: Adaptive) -> None:
    asked: dict[bool, list[Point]] = {True: [], False: []}
    for known, places in asked.items():

        def distance(place: Point, places: list[Point] = places) -> float:
            places.append(place)
            return math.dist(place, AT) // 1000

        found = attack.locate(CountedDistance(distance, has_fixed_rule=known))
        assert found.certified == known
        assert found.outcome is Outcome.FOUND
        assert math.dist(found.estimate or (0, 0), AT) <= (found.radius_m or 0) <= TAU_M
    assert asked[False][: len(asked[True])] == asked[True]
    more = asked[False][len(asked[True]) :]
    assert len(more) == CHECKS_WITHOUT_RULE - 1
    # From all sides.
    sides = sorted(math.atan2(y - AT[1], x - AT[0]) for x, y in [asked[True][-1], *more])
    assert np.diff([*sides, sides[0] + 2 * math.pi]).max() < math.pi


def test_a_limit_on_questions_ends_the_attack_with_a_radius(attack: Adaptive) -> None:
    found = attack.locate(CountedDistance(lambda place: math.dist(place, AT) // 1000, most_queries=4))
    assert honest(found, attack)
    assert found.outcome is Outcome.OUT_OF_QUERIES
    assert found.queries == 4
    assert found.estimate is not None
    assert found.radius_m is not None
    assert math.dist(found.estimate, AT) <= found.radius_m
    few = replace(attack, most_queries=3).locate(CountedDistance(lambda place: math.dist(place, AT) // 1000))
    assert (few.outcome, few.queries) == (Outcome.OUT_OF_QUERIES, 3)


def test_a_service_that_refuses_at_once_leaves_nothing_to_believe(attack: Adaptive) -> None:
    def refuse(place: Point) -> float:
        raise OutOfQueriesError("enough")

    found = attack.locate(CountedDistance(refuse))
    assert (found.outcome, found.estimate, found.radius_m) == (Outcome.OUT_OF_QUERIES, None, None)


@pytest.mark.parametrize("answer", ["2 km", None, math.nan, -1.0, math.inf, True, [2.0]])
def test_what_is_no_distance_is_refused(answer: object) -> None:
    with pytest.raises(OracleError, match="did not answer with a distance"):
        CountedDistance(lambda place: answer).distance((0.0, 0.0))


@pytest.mark.parametrize("answer", ["500 m", None, (500.0,), (500.0, 100.0), (-1.0, 5.0), (math.nan, 5.0), ("0", "5")])
def test_what_is_no_band_is_refused(answer: object) -> None:
    with pytest.raises(OracleError, match="band"):
        CountedBands(lambda place: answer).band((0.0, 0.0))


@pytest.mark.parametrize("answer", ["yes", None, 1, 0.0])
def test_what_is_neither_yes_nor_no_is_refused(answer: object) -> None:
    with pytest.raises(OracleError, match="True or False"):
        CountedFilter(lambda place, radius: answer, radii=Radii()).within((0.0, 0.0), 1000.0)


def test_a_service_that_is_down_is_one_sentence() -> None:
    def down(place: Point) -> float:
        raise ConnectionRefusedError

    with pytest.raises(OracleError, match="is it running"):
        CountedDistance(down).distance((0.0, 0.0))


# Parts.


def test_attacks_that_need_lists_say_so() -> None:
    with pytest.raises(UsageError, match="adaptive"):
        GILIA().locate(shown(AT, 1000.0, "floor"))
    assert Adaptive.takes_other_answers()
    assert not GILIA.takes_other_answers()


def test_an_attack_asks_for_allowed_radii_within_the_region_only(attack: Adaptive, san_francisco: Region) -> None:
    asked: list[tuple[Point, float]] = []

    def within(place: Point, radius_m: float) -> bool:
        asked.append((place, radius_m))
        return math.dist(place, AT) <= radius_m

    attack.locate(CountedFilter(within, radii=Radii(step_m=1000.0)))
    assert all(radius_m >= 1000 and radius_m % 1000 == 0 for _, radius_m in asked)
    assert all((np.abs(place) <= san_francisco.half_extent_m).all() for place, _ in asked)


# Texts such as distance:1km.


@pytest.mark.parametrize(
    "text",
    ["list", "distance:1km", "distance:1mi", "distance:500m-floor", "bands:500m", "filter:5km-fixed", "circle:2km"],
)
def test_answers_are_read_and_written_alike(text: str) -> None:
    assert str(Answers.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "one of list"),
        ("distances:1km", "one of list"),
        ("distance:1 furlong", "one of list"),
        ("distance:-1km", "one of list"),
        ("distance", "takes a length"),
        ("list:1km", "takes no length"),
        ("distance:0km", "between 1 m"),
        ("distance:1.2.3km", "between 1 m"),
        ("circle:9999km", "between 1 m"),
        ("distance:1km-fixed", "ceil, floor, nearest"),
        ("bands:500m-floor", "no variant"),
    ],
)
def test_other_texts_are_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        Answers.parse(text)


def test_a_list_is_not_about_one_person() -> None:
    rng = np.random.default_rng(1)
    with pytest.raises(UsageError, match="about everybody"):
        Answers().simulated(AT, most_queries=5, rng=rng)


def test_a_rounding_that_is_not_stated_is_drawn() -> None:
    place: Callable[[CountedDistance], float] = lambda oracle: oracle.distance((AT[0] + 1200.0, AT[1]))  # noqa: E731
    drawn = {
        place(Answers.parse("distance:1km").simulated(AT, most_queries=5, rng=np.random.default_rng(seed)))  # type: ignore[arg-type]
        for seed in range(20)
    }
    assert drawn == {1.0, 2.0}


@pytest.mark.parametrize("unit", ["km", *for_evidence("mi")])
@pytest.mark.parametrize("rounding", ["floor", *for_evidence("nearest")])
def test_noise_in_each_answer_averages_out(attack: Adaptive, unit: str, rounding: str) -> None:
    """60 answers with noise of 200 m, three people: the median error is below a fifth of the unit. Seeds are fixed.

    One answer is a third of the unit off, so an attack that gives up at the first contradiction is farther off.
    """
    errors_m, rng = [], np.random.default_rng(3)
    for target in ((4321.0, -7654.0), (-9000.0, 3000.0), (500.0, 12000.0)):

        def noisy(place: Point, target: Point = target) -> float:
            return max(0, ROUNDINGS[rounding]((math.dist(place, target) + rng.normal(0, 200)) / UNITS_M[unit]))

        found = attack.locate(CountedDistance(noisy))
        assert found.estimate is not None
        assert found.outcome is Outcome.CONTRADICTION
        assert (found.queries, found.radius_m, found.certified) == (attack.most_queries, None, False)
        assert len(found.trace.steps) == found.queries
        errors_m.append(math.dist(found.estimate, target))
    assert np.median(errors_m) < 0.2 * UNITS_M[unit]


def test_averaging_ends_where_the_service_refuses_more_questions(attack: Adaptive) -> None:
    rng = np.random.default_rng(3)
    oracle = CountedDistance(
        lambda place: max(0, round((math.dist(place, AT) + rng.normal(0, 200)) / 1000)), most_queries=30
    )
    found = attack.locate(oracle)
    assert found.queries == 30
    assert found.estimate is not None
    assert math.dist(found.estimate, AT) < 1000
