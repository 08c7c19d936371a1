"""Events: scores that tell two laws apart, and survive being written down."""

import json
import math

import numpy as np
import pytest

from nearveil import PlanarLaplace
from nearveil.audit.classifier import learn_classifier
from nearveil.audit.events import DensityScore, Event, Score, event_from_dict, learn_scores
from nearveil.audit.histogram import learn_histogram
from nearveil.audit.pairs import Pair
from nearveil.audit.subject import AuditError, MechanismSubject, PublishedSubject
from nearveil.region_names import named_region
from nearveil.types import FloatArray

PAIR = Pair((37.70, -122.40), (37.70, -122.39), "side by side")
SUBJECT = MechanismSubject(PlanarLaplace(hide_within_m=800))


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
    assert [score.kind for score in learned] == ["density", "histogram"]
    for score in [*learned, learn_classifier(*outputs, PAIR, SUBJECT)]:
        first, second = (score.score(side[20_000:], PAIR, SUBJECT).mean() for side in outputs)
        assert first > second + 0.5, score.kind


def test_without_a_density_a_classifier_is_learned(outputs: tuple[FloatArray, FloatArray]) -> None:
    kinds = [score.kind for score in learn_scores(*outputs, PAIR, Nothing(named_region("san-francisco")))]
    assert kinds == ["classifier", "histogram"]


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


@pytest.mark.parametrize("direction", ["first", "second"])
def test_an_event_survives_json(direction: str, outputs: tuple[FloatArray, FloatArray]) -> None:
    scores: list[Score] = [DensityScore(), learn_histogram(*outputs), learn_classifier(*outputs, PAIR, SUBJECT)]
    for score in scores:
        event = Event(score, 0.25, "first" if direction == "first" else "second")
        again = event_from_dict(json.loads(json.dumps(event.to_dict())))
        hits = event.hits(outputs[1], PAIR, SUBJECT)
        assert 0 < hits.mean() < 1
        assert (hits == again.hits(outputs[1], PAIR, SUBJECT)).all()
        assert event.describe() == again.describe()
        assert direction in event.describe()


def test_outputs_of_one_place_only_score_as_certain() -> None:
    class Disjoint(MechanismSubject):
        def log_ratio(self, first: object, second: object, outputs: FloatArray) -> FloatArray:
            del first, second
            return np.array([math.inf, -math.inf, math.nan])[: len(outputs)]

    subject = Disjoint(PlanarLaplace())
    event = Event(DensityScore(), 999.999, "first")
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
