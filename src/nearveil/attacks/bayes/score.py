"""How wrong the best attacker is: its estimates against the truth, for the operator who knows it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nearveil.attacks.bayes.attacker import BayesAttacker
from nearveil.errors import UsageError
from nearveil.types import FloatArray, IntArray, Progress


@dataclass(frozen=True, slots=True)
class Measured:
    """A mean over targets and its standard error."""

    value: float
    standard_error: float

    def __str__(self) -> str:
        return f"{self.value:.4g} ± {self.standard_error:.2g}"


@dataclass(frozen=True, slots=True)
class GuessScore:
    """One kind of guess against the truth: mean error, mean squared error, and share within tau (Acc)."""

    error_m: Measured
    squared_error_m2: Measured
    accuracy: Measured


@dataclass(frozen=True, slots=True)
class BayesScore:
    """The attacker's three guesses against the truth, and the published place itself (its mean, if there are several).

    Quote ``median.error_m`` and ``best_disc.accuracy``.
    """

    mean: GuessScore
    median: GuessScore
    best_disc: GuessScore
    read_off: GuessScore
    targets: int
    tau_m: float

    def __str__(self) -> str:
        return (
            f"the best attacker is wrong by {self.median.error_m.value:,.0f} m on average, and within "
            f"{self.tau_m:,.0f} m in {self.best_disc.accuracy.value:.1%} of cases"
        )


def score_attacker(
    attacker: BayesAttacker,
    true: FloatArray,
    published: FloatArray,
    *,
    targets: IntArray | None = None,
    leave_out: bool,
    progress: Progress | None = None,
) -> BayesScore:
    """Attack people whose true places are known, and measure how wrong the guesses are.

    Parameters
    ----------
    attacker : BayesAttacker
        Who guesses.
    true : ndarray of shape (n, 2)
        True places, in degrees.
    published : ndarray of shape (n, 2) or (r, n, 2)
        Their published places: one release, or r of people who stay put.
    targets : ndarray of int, optional
        Rows to attack; everybody by default.
    leave_out : bool
        Whether each target's own row of the prior is left out; the prior must then be made from the same rows. With
        a prior of true places this is an attacker who knows the population but not this person, as against one whose
        list of addresses holds the target's.
    progress : callable, optional
        Called with the number of targets just finished.
    """
    places = np.asarray(true, dtype=np.float64)
    rows = np.arange(len(places)) if targets is None else np.asarray(targets, dtype=np.int64)
    releases = np.asarray(published, dtype=np.float64)[..., rows, :].reshape(-1, len(rows), 2)
    if len(rows) < 2:
        raise UsageError("there must be at least 2 targets, so that there is a standard error")
    if leave_out and attacker.prior.people.max(initial=-1) >= len(places):
        raise UsageError("to leave a target out, the prior must be made from the same rows as the true places")
    guesses = attacker.estimate_many(releases, leave_out=rows if leave_out else None, progress=progress)
    region = attacker.prior.region
    true_m = region.to_metres(places[rows])
    read_off_m = region.to_metres(releases.reshape(-1, 2)).reshape(releases.shape).mean(axis=0)

    def score(guess_m: FloatArray) -> GuessScore:
        errors = np.hypot(*(guess_m - true_m).T)
        return GuessScore(_measure(errors), _measure(errors**2), _measure((errors <= attacker.tau_m).astype(float)))

    return BayesScore(
        mean=score(np.array([guess.mean for guess in guesses])),
        median=score(np.array([guess.median for guess in guesses])),
        best_disc=score(np.array([guess.best_disc for guess in guesses])),
        read_off=score(read_off_m),
        targets=len(rows),
        tau_m=attacker.tau_m,
    )


def _measure(values: FloatArray) -> Measured:
    return Measured(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values)))
