"""A learned classifier: logistic regression that tells which of two places an output came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from nearveil.audit.pairs import Pair
from nearveil.audit.subject import Subject
from nearveil.types import FloatArray

_RIDGE = 1e-6
_MOST_SAMPLES = 20_000
_FEATURES = 12
_MOST_STEPS = 30
_MOST_HALVINGS = 12
_LEAST_GAIN = 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class ClassifierScore:
    """A weighted sum of fixed features of an output, learned to be the log-odds of the first place.

    The features are the coordinates, their squares and product, and the distances to both places: straight, and along
    each axis. With them the log-ratio of planar Laplace, of Laplace along the axes and of Gaussian noise is such a sum.
    """

    kind = "classifier"

    weights: FloatArray
    intercept: float

    def score(self, outputs: FloatArray, pair: Pair, subject: Subject) -> FloatArray:
        """Score each output: the larger, the more it speaks for the first place."""
        total = np.full(len(outputs), self.intercept)
        for column, weight in zip(_columns(outputs, pair, subject), self.weights, strict=True):
            total += weight * column
        return total

    def describe(self) -> str:
        """Say what the score is."""
        return "a classifier that learned to tell the two places' outputs apart"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"kind": self.kind, "weights": self.weights.tolist(), "intercept": self.intercept}


def classifier_from_dict(document: dict[str, Any]) -> ClassifierScore:
    """Read what `ClassifierScore.to_dict` gave."""
    weights, intercept = np.array(document["weights"], dtype=np.float64), float(document["intercept"])
    if weights.shape != (_FEATURES,) or not np.isfinite(weights).all() or not np.isfinite(intercept):
        raise ValueError("classifier")
    return ClassifierScore(weights, intercept)


def learn_classifier(first: FloatArray, second: FloatArray, pair: Pair, subject: Subject) -> ClassifierScore:
    """Fit the weights to outputs of both places, by maximum likelihood with a slight pull towards 0."""
    first, second = first[:_MOST_SAMPLES], second[:_MOST_SAMPLES]
    features = _features(np.vstack([first, second]), pair, subject)
    middle, spread = features.mean(axis=0), features.std(axis=0)
    spread[spread <= 1e-12 * (1 + np.abs(middle))] = 1.0
    standard = (features - middle) / spread
    found = _fit(np.column_stack([np.ones(len(standard)), standard]), np.repeat([1.0, 0.0], [len(first), len(second)]))
    weights = found[1:] / spread
    return ClassifierScore(weights, float(found[0] - weights @ middle))


def _fit(features: FloatArray, is_first: FloatArray) -> FloatArray:
    """Minimise the logistic loss by Newton's method, with steps halved until they improve."""
    weights = np.zeros(features.shape[1])
    odds = np.zeros(len(features))
    loss = _loss(odds, is_first, weights)
    for _ in range(_MOST_STEPS):
        chance = expit(odds)
        slope = np.einsum("i,ij->j", chance - is_first, features) / len(odds) + 2 * _RIDGE * weights
        bend = (features.T * (chance * (1 - chance) / len(odds))) @ features + 2 * _RIDGE * np.eye(len(weights))
        step = np.linalg.solve(bend, slope)
        for _ in range(_MOST_HALVINGS):
            odds = _weighted(features, weights - step)
            improved = _loss(odds, is_first, weights - step)
            if improved <= loss:
                break
            step /= 2
        else:
            break
        weights, gain, loss = weights - step, loss - improved, improved
        if gain < _LEAST_GAIN:
            break
    return weights


def _loss(odds: FloatArray, is_first: FloatArray, weights: FloatArray) -> float:
    return float(np.mean(np.logaddexp(0, odds) - is_first * odds) + _RIDGE * (weights**2).sum())


def _weighted(features: FloatArray, weights: FloatArray) -> FloatArray:
    """Sum the features by weight. Not a matrix product: its threads wait for each other on a busy machine."""
    total: FloatArray = np.einsum("ij,j->i", features, weights)
    return total


def _features(outputs: FloatArray, pair: Pair, subject: Subject) -> FloatArray:
    return np.column_stack(_columns(outputs, pair, subject))


def _columns(outputs: FloatArray, pair: Pair, subject: Subject) -> list[FloatArray]:
    first, second = subject.in_outputs(pair.first), subject.in_outputs(pair.second)
    # Lengths in units of the distance between the two places, counted from their middle: numbers of moderate size.
    unit = max(float(np.hypot(*(first - second))), 1e-9)
    t = (outputs - (first + second) / 2) / unit
    half_gap = (first - second) / 2 / unit
    from_first, from_second = t - half_gap, t + half_gap
    reach = np.hypot(t[:, 0], t[:, 1])
    return [
        *t.T,
        *(t**2).T,
        t[:, 0] * t[:, 1],
        reach,
        np.hypot(*from_first.T),
        np.hypot(*from_second.T),
        *np.abs(from_first).T,
        *np.abs(from_second).T,
    ]
