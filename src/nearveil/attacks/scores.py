"""How well the best attacker does: how wrong its guesses are, and whom it names, for the operator who knows the truth.

`score_attacker` compares a `BayesAttacker`'s guesses of places with the truth. `score_naming` lets an attacker who
knows every address guess which one is the target's, and counts how often that is right, also where people are
sparsest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from nearveil.attacks.bayes import TARGETS_AT_ONCE, BayesAttacker
from nearveil.attacks.channels import Channel, DensityChannel, channel_of, edge_sides
from nearveil.attacks.matching import AddressBook
from nearveil.errors import UsageError
from nearveil.mechanisms.base import Mechanism
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


# Who is named: the attacker knows every address, but not who lives where, and its first guess is an address.


NAMING_TARGETS = 2_000
TENTHS = 10
_SPARSENESS_NEIGHBOR = 50
_PEOPLE_PER_NEIGHBOR = 20
_ALIKE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class NamingScore:
    """How likely each target is named: the attacker's first guess is the right address, ties shared evenly.

    Attributes
    ----------
    probabilities : ndarray
        For each target.
    tenths : ndarray of int
        For each target, its tenth of density: 0 is the densest, 9 the sparsest (`density_tenths`).
    """

    probabilities: FloatArray
    tenths: IntArray

    @property
    def named(self) -> Measured:
        """The share of all targets."""
        return _measure(self.probabilities)

    @property
    def sparsest(self) -> Measured:
        """The share in the sparsest tenth."""
        return self.in_tenth(TENTHS - 1)

    def in_tenth(self, tenth: int) -> Measured:
        """The share in one tenth of density."""
        return _measure(self.probabilities[self.tenths == tenth])

    def __str__(self) -> str:
        return f"named: {self.named.value:.1%} of people, and {self.sparsest.value:.1%} of the sparsest tenth"


def score_naming(
    mechanism: Mechanism | Channel,
    true: FloatArray,
    published: FloatArray,
    *,
    targets: IntArray | None = None,
    tenths: IntArray | None = None,
) -> NamingScore:
    """Let an attacker who knows every address name people, and measure how often it is right.

    Several people at one address are one address with more weight.

    Parameters
    ----------
    mechanism : Mechanism or Channel
        What everybody was published by, fitted if it needs to be.
    true : ndarray of shape (n, 2)
        True places of everybody, in degrees: the addresses.
    published : ndarray of shape (n, 2) or (r, n, 2)
        Their published places: one release, or r of people who stay put.
    targets : ndarray of int, optional
        Rows to name; everybody by default. `naming_targets` draws some.
    tenths : ndarray of int, optional
        Everybody's `density_tenths`, where they are known already.
    """
    places = np.asarray(true, dtype=np.float64)
    rows = np.arange(len(places)) if targets is None else np.asarray(targets, dtype=np.int64)
    if len(rows) < 1:
        raise UsageError("there must be at least one target")
    releases = np.asarray(published, dtype=np.float64)[..., rows, :].reshape(-1, len(rows), 2)
    channel = channel_of(mechanism)
    book = AddressBook.of(channel, places)
    own = book.lives_at[rows]
    probabilities = np.empty(len(rows))
    rest = np.arange(len(rows))
    decay_per_m = channel.decay_per_m if isinstance(channel, DensityChannel) else None
    if decay_per_m is not None and len(releases) == 1:
        # The density falls with the distance alone, except where places beyond the region were clamped.
        clamped = (edge_sides(releases[0], channel.region) != 0).any(axis=1)
        near, rest = np.flatnonzero(~clamped), np.flatnonzero(clamped)
        published_m = channel.region.to_metres(releases[0, near])
        probabilities[near] = _named_by_distance(book, published_m, decay_per_m, own[near])
    size = max(1, TARGETS_AT_ONCE // len(releases))
    for start in range(0, len(rest), size):
        some = rest[start : start + size]
        part = releases[:, some]
        logs = book.likelihood(part.reshape(-1, 2)).reshape(-1, *part.shape[:2]).sum(axis=1)
        probabilities[some] = named_by(book, logs.T, own[some])
    tenths = density_tenths(channel.region.to_metres(places)) if tenths is None else tenths
    return NamingScore(probabilities, tenths[rows])


def named_by(book: AddressBook, logs: FloatArray, own: IntArray) -> FloatArray:
    """Return how likely each target's own address is the first guess, by the log-likelihood of each kind."""
    # Only the largest address of a kind can be the first guess.
    largest = np.zeros(logs.shape[1], dtype=np.int64)
    np.maximum.at(largest, book.kind, book.residents)
    leads = book.residents == largest[book.kind]
    leading = np.bincount(book.kind[leads], minlength=len(largest)).astype(np.float64)
    weighted = logs + np.log(largest)
    first = weighted >= weighted.max(axis=1, keepdims=True) - _ALIKE
    right = first[np.arange(len(own)), book.kind[own]] & leads[own]
    found: FloatArray = right / (first @ leading)
    return found


def _named_by_distance(book: AddressBook, published_m: FloatArray, rate_per_m: float, own: IntArray) -> FloatArray:
    """The same for noise whose density falls by the distance: of those with equally many people, the nearest."""
    best = np.full(len(own), -np.inf)
    named = np.zeros(len(own))
    for people in np.unique(book.residents):
        rows = np.flatnonzero(book.residents == people)
        away_m, nearest = cKDTree(book.places_m[rows]).query(published_m)
        logs = math.log(people) - rate_per_m * away_m
        # No two addresses are as far away to the last digit, but by chance.
        better = logs > best
        best = np.where(better, logs, best)
        named = np.where(better, rows[nearest] == own, named)
    return named


def density_tenths(places_m: FloatArray) -> IntArray:
    """Return each person's tenth of density: 0 for the densest, 9 for the sparsest.

    By the distance to the 50th neighbor; where there are fewer than 1,000 people, to that of a twentieth of them.
    """
    people = len(places_m)
    neighbor = min(_SPARSENESS_NEIGHBOR, max(1, people // _PEOPLE_PER_NEIGHBOR), max(1, people - 1))
    away_m = np.asarray(cKDTree(places_m).query(places_m, k=[neighbor + 1])[0]).reshape(-1)
    rank = np.empty(people, dtype=np.int64)
    rank[np.argsort(away_m, kind="stable")] = np.arange(1, people + 1)
    # The last tenth has somebody in it, however few there are.
    return (rank * TENTHS - 1) // people


def naming_targets(tenths: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """Draw people to name, equally many of each of the `density_tenths`; everybody where there are no more."""
    if len(tenths) <= count:
        return np.arange(len(tenths))
    drawn = [
        rng.choice(np.flatnonzero(tenths == tenth), size=-(-count // TENTHS), replace=False) for tenth in range(TENTHS)
    ]
    return np.concatenate(drawn)
