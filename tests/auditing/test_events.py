"""Events: scores that tell two laws apart, and survive being written down."""

import json
import math
from typing import Literal

import numpy as np
import pytest

from nearveil import PlanarLaplace
from nearveil.auditing.events import (
    DensityScore,
    DistanceScore,
    NearnessScore,
    OutputEvent,
    Score,
    event_from_dict,
    find_lattice,
    learn_classifier,
    learn_histogram,
    learn_low_digits,
    learn_recurring,
    learn_scores,
)
from nearveil.auditing.pairs import Pair
from nearveil.auditing.subjects import AuditError, MechanismSubject, PublishedSubject
from nearveil.region import named_region
from nearveil.types import FloatArray

PAIR = Pair((37.70, -122.40), (37.70, -122.39), "side by side")
SUBJECT = MechanismSubject(PlanarLaplace(noise_m=800, region="san-francisco"))


class Nothing(PublishedSubject):
    def publish(self, points: FloatArray, rng: np.random.Generator) -> object:
        del rng
        return points


@pytest.fixture(scope="module")
def outputs() -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(1)
    return SUBJECT.sample(PAIR.first, 40_000, rng), SUBJECT.sample(PAIR.second, 40_000, rng)


def test_scores_are_larger_for_the_first_place(outputs: tuple[FloatArray, FloatArray]) -> None:
    learned = learn_scores(outputs[0][:20_000], outputs[1][:20_000], PAIR, SUBJECT)
    assert [score.kind for score in learned] == ["density", "histogram", "distance", "nearness"]
    for score in [*learned[:-1], learn_classifier(*outputs, PAIR, SUBJECT)]:
        first, second = (score.score(side[20_000:], PAIR, SUBJECT).mean() for side in outputs)
        assert first > second + 0.3, score.kind


def test_without_a_density_a_classifier_is_learned(outputs: tuple[FloatArray, FloatArray]) -> None:
    kinds = [score.kind for score in learn_scores(*outputs, PAIR, Nothing(named_region("san-francisco")))]
    assert kinds == ["classifier", "histogram", "distance", "nearness"]


def test_the_classifier_finds_the_log_ratio_of_planar_laplace(outputs: tuple[FloatArray, FloatArray]) -> None:
    """It is a weighted sum of the features; 20,000 samples find it within 0.1 nearly everywhere."""
    score = learn_classifier(*outputs, PAIR, SUBJECT).score(outputs[0], PAIR, SUBJECT)
    truth = DensityScore().score(outputs[0], PAIR, SUBJECT)
    assert np.quantile(np.abs(score - truth), 0.9) < 0.15


def test_the_histogram_finds_atoms_and_what_never_comes() -> None:
    """Half of the first place's outputs are one point, which never comes from the second."""
    rng = np.random.default_rng(2)
    first, second = rng.random((8000, 2)), rng.random((8000, 2))
    first[::2] = (0.3, 0.7)
    histogram = learn_histogram(first, second)
    at_atom, elsewhere = histogram.score(np.array([[0.3, 0.7], [0.8, 0.2]]), PAIR, SUBJECT)
    assert at_atom > 3
    assert elsewhere < 0
    constant = learn_histogram(np.ones((500, 2)), np.ones((500, 2)))
    assert constant.score(np.ones((1, 2)), PAIR, SUBJECT) == pytest.approx(0.0)


def test_the_histograms_boxes_hold_what_falls_into_them(outputs: tuple[FloatArray, FloatArray]) -> None:
    histogram = learn_histogram(*outputs)
    reaching = histogram.scores >= 0.5
    inside = np.zeros(len(outputs[0]), dtype=bool)
    for x0, y0, x1, y1 in histogram.boxes(reaching):
        inside |= ((outputs[0] > (x0, y0)) & (outputs[0] <= (x1, y1))).all(axis=1)
    assert (inside == (histogram.score(outputs[0], PAIR, SUBJECT) >= 0.5)).all()


def test_distance_is_the_log_ratio_of_planar_laplace(outputs: tuple[FloatArray, FloatArray]) -> None:
    """Up to a factor: the loss claimed between the two places."""
    distance, density = (score.score(outputs[0], PAIR, SUBJECT) for score in (DistanceScore(), DensityScore()))
    factors = density[np.abs(distance) > 0.01] / distance[np.abs(distance) > 0.01]
    np.testing.assert_allclose(factors, factors[0], rtol=1e-6)


def test_nearness_speaks_of_outputs_at_a_place_only() -> None:
    first, second = SUBJECT.in_outputs(PAIR.first), SUBJECT.in_outputs(PAIR.second)
    at = np.array([first, first + 0.1, second, (first + second) / 2, first + 0.1 * (second - first)])
    scores = NearnessScore().score(at, PAIR, SUBJECT)
    assert scores[0] > scores[1] > 5
    assert scores[2] < -5
    assert (scores[3:] == 0).all()


@pytest.mark.parametrize(("period", "origin"), [(1.0, 0.25), (0.1, 0.03), (7.3, 2.0), (1 / 111_320, -122.4)])
def test_a_lattice_is_found_with_its_period_and_origin(period: float, origin: float) -> None:
    """All but a tenth of the values lie on it, over a thousand periods."""
    rng = np.random.default_rng(3)
    values = origin + period * np.round(rng.laplace(0, 300, 3000))
    values[:300] += period * rng.random(300)
    found, at = find_lattice(values)
    assert found == pytest.approx(period, rel=1e-5)
    off = (at - origin) / period
    assert off == pytest.approx(round(off), abs=0.05)


def test_no_lattice_is_found_in_smooth_noise() -> None:
    """Twenty samples of a law without one; the false-alarm rate is 2e-5."""
    rng = np.random.default_rng(4)
    assert all(find_lattice(rng.laplace(0, 300, 2000))[0] == 0 for _ in range(20))
    assert find_lattice(np.zeros(1000)) == (0.0, 0.0)
    assert find_lattice(np.arange(10.0)) == (0.0, 0.0)


def test_recurring_outputs_are_known_again() -> None:
    rng = np.random.default_rng(5)
    pool, other = rng.random((300, 2)), rng.random((300, 2))
    learned = learn_recurring(pool[rng.integers(300, size=900)], other[rng.integers(300, size=900)])
    assert learned is not None
    outputs = np.vstack([pool, other, rng.random((50, 2))])
    scores = learned.score(outputs + 1e-12, PAIR, SUBJECT)
    assert (scores[:300] > 0).mean() > 0.9
    assert (scores[300:600] < 0).mean() > 0.9
    assert (scores[600:] == 0).all()
    assert learn_recurring(rng.random((500, 2)), rng.random((500, 2))) is None


def test_outputs_on_one_public_lattice_tell_nothing_apart() -> None:
    rng = np.random.default_rng(6)
    sides = [np.round(rng.laplace(centre, 300, (2000, 2)), 1) for centre in (0, 40)]
    in_metres = learn_low_digits(sides[0], sides[1], SUBJECT)[0]
    assert not in_metres.in_degrees
    assert (in_metres.score(sides[0], PAIR, SUBJECT) == 0).mean() > 0.95


def lattices(rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    first, second = (np.round(rng.laplace(0, 300, (3000, 2))) + shift for shift in (0.2, 0.7))
    return first, second


@pytest.mark.parametrize("direction", ["first", "second"])
def test_an_event_survives_json(direction: Literal["first", "second"], outputs: tuple[FloatArray, FloatArray]) -> None:
    coarse = lattices(np.random.default_rng(7))
    low_digits, recurring = learn_low_digits(*coarse, SUBJECT)[0], learn_recurring(*coarse)
    assert recurring is not None
    drawn: list[Score] = [DensityScore(), learn_histogram(*outputs), learn_classifier(*outputs, PAIR, SUBJECT)]
    tell_tales: list[Score] = [DistanceScore(), low_digits, recurring]
    for scores, sides in ((drawn, outputs), (tell_tales, coarse)):
        for score in scores:
            event = OutputEvent(score, 0.2, direction)
            again = event_from_dict(json.loads(json.dumps(event.to_dict())))
            hits = event.hits(sides[direction == "second"], PAIR, SUBJECT)
            assert 0.05 < hits.mean() <= 1
            assert (again.hits(sides[direction == "second"], PAIR, SUBJECT) == hits).all()
            assert event.describe() == again.describe()


def test_outputs_of_one_place_only_score_as_certain() -> None:
    class Disjoint(MechanismSubject):
        def log_ratio(self, first: object, second: object, outputs: FloatArray) -> FloatArray:
            del first, second
            return np.array([math.inf, -math.inf, math.nan])[: len(outputs)]

    subject = Disjoint(PlanarLaplace(region="san-francisco"))
    event = OutputEvent(DensityScore(), 999.999, "first")
    assert event.hits(np.zeros((3, 2)), PAIR, subject).tolist() == [True, False, False]
    assert event.describe() == "that the second cannot give, by the mechanism's own density"


def test_a_density_event_needs_a_density() -> None:
    with pytest.raises(AuditError, match="density"):
        DensityScore().score(np.zeros((1, 2)), PAIR, Nothing(named_region("san-francisco")))


@pytest.mark.parametrize(
    "document",
    [
        {"score": {"kind": "density"}, "threshold": math.nan, "direction": "first"},
        {"score": {"kind": "density"}, "threshold": 0.0, "direction": "third"},
        {"score": {"kind": "oracle"}, "threshold": 0.0, "direction": "first"},
        {"score": {"kind": "recurring", "outputs": [[1, 2]], "scores": []}, "threshold": 0.0, "direction": "first"},
        {"score": {"kind": "recurring", "outputs": [[1, math.nan]], "scores": [1]}, "threshold": 0.0,
         "direction": "first"},
        {"score": {"kind": "low-digits", "in_degrees": True, "periods": [[0, 0], [0, 0]], "origins": [[0, 0], [0, 0]]},
         "threshold": 0.0, "direction": "first"},
        {"score": {"kind": "low-digits", "in_degrees": True, "periods": [1], "origins": [0]}, "threshold": 0.0,
         "direction": "first"},
        {"score": {"kind": "classifier", "weights": [1.0], "intercept": 0.0}, "threshold": 0.0, "direction": "first"},
        {"score": {"kind": "histogram", "axes": [0, 2], "cuts": [0, 0], "scores": [0, 1, 2]}, "threshold": 0.0,
         "direction": "first"},
        {"score": {"kind": "histogram", "axes": [2], "cuts": [0], "scores": [0, 1]}, "threshold": 0.0,
         "direction": "first"},
    ],
)  # fmt: skip
def test_what_is_no_event_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        event_from_dict(document)
