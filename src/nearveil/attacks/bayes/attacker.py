"""The best attacker: knows the mechanism and where people are, and takes the Bayes estimate from what is published.

Attacks that read off the published point are weaker than this one. What it finds is the figure that a defender should
quote. It knows the mechanism with its parameters (fitted intervals included, they are public) and a `Prior`; from the
published places of one target it computes how likely every candidate place is, and guesses three places: the mean of
the posterior (least squared error), its geometric median (least error) and the disc of radius tau that is most likely
to hold the target (best Acc). Several releases of someone who stays put multiply their likelihoods.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nearveil.attacks.bayes.channel import Channel, channel_of
from nearveil.attacks.bayes.guesses import best_disc, geometric_median, mean_distance
from nearveil.attacks.bayes.likelihood import Likelihood
from nearveil.attacks.bayes.prior import Candidates, Prior
from nearveil.attacks.oracle import Spot
from nearveil.errors import UsageError
from nearveil.mechanisms.base import Mechanism
from nearveil.types import FloatArray, IntArray, Progress

_NEGLIGIBLE = 1e-5
_TARGETS_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class BayesEstimate:
    """What the attacker believes about one target: three guesses in metres, each the best for its way of counting.

    ``expected_error_m`` is the mean error of the median and ``disc_probability`` the chance that the disc holds the
    target, both as the attacker believes. Where no place explains what was published, ``possible`` is False and every
    guess is the middle of what was published.
    """

    mean: Spot
    median: Spot
    best_disc: Spot
    expected_error_m: float
    disc_probability: float
    possible: bool = True


@dataclass(frozen=True, kw_only=True, eq=False)
class BayesAttacker:
    """Knows a mechanism and a prior, and guesses places from published ones.

    Parameters
    ----------
    mechanism : Mechanism or Channel
        What the target was published by: a mechanism, fitted if it needs to be, or a `SampledChannel` for anything
        else that publishes places.
    prior : Prior
        Where people are.
    tau_m : float
        Radius of the disc that counts as found.

    Examples
    --------
    >>> from nearveil import PlanarLaplace, named_region
    >>> from nearveil.attacks.bayes.prior import flat_prior
    >>> mechanism = PlanarLaplace(hide_within_m=200, region="san-francisco")
    >>> attacker = BayesAttacker(mechanism=mechanism, prior=flat_prior(named_region("san-francisco")))
    >>> guess = attacker.estimate(np.array([[37.7, -122.4]]))
    >>> round(math.hypot(*guess.mean), 1), round(guess.expected_error_m)
    (0.0, 200)
    """

    mechanism: Mechanism | Channel
    prior: Prior
    tau_m: float = 100.0

    def __post_init__(self) -> None:
        if not 0 < self.tau_m < math.inf:
            raise UsageError("tau must be a distance in metres, more than 0")
        if not self._channel.region.same_edges(self.prior.region):
            raise UsageError("the prior and the mechanism must have the same region")

    def estimate(self, published: FloatArray) -> BayesEstimate:
        """Guess where one person is who stays put, from one or several published places, shape (2,) or (r, 2)."""
        releases = np.asarray(published, dtype=np.float64).reshape(-1, 1, 2)
        return self.estimate_many(releases)[0]

    def estimate_many(
        self, published: FloatArray, *, leave_out: IntArray | None = None, progress: Progress | None = None
    ) -> list[BayesEstimate]:
        """Guess where many people are, each on their own.

        Parameters
        ----------
        published : ndarray of shape (n, 2) or (r, n, 2)
            Published places in degrees: one, or r releases, of each person.
        leave_out : ndarray of int, optional
            For each person, the row of the prior's points to do without: the attacker then does not know that very
            person's place (prior of true places), or does not count it twice (prior of published places).
        progress : callable, optional
            Called with the number of people just finished.
        """
        releases = np.asarray(published, dtype=np.float64)
        releases = releases[None] if releases.ndim == 2 else releases
        if releases.ndim != 3 or releases.shape[2] != 2 or releases.shape[0] == 0:
            raise UsageError("published places must have the shape (people, 2) or (releases, people, 2)")
        if leave_out is not None and len(leave_out) != releases.shape[1]:
            raise UsageError("there must be one row to leave out for each target")
        self._channel.region.check(releases.reshape(-1, 2))
        found = []
        for i, known in enumerate(self._known_likelihoods(releases)):
            found.append(self._estimate_one(releases[:, i], known, None if leave_out is None else int(leave_out[i])))
            if progress:
                progress(1)
        return found

    @cached_property
    def _channel(self) -> Channel:
        return channel_of(self.mechanism)

    @cached_property
    def _known(self) -> tuple[Candidates, Likelihood]:
        """The candidates that are the same for every target, prepared."""
        places = self.prior.known_places()
        if not self._channel.prepares_fast:
            places = _together(places, self.prior.background_grid())
        return places, self._channel.at(places.places_m)

    def _known_likelihoods(self, releases: FloatArray) -> Iterator[FloatArray]:
        """For each target, the log-likelihood of its releases at the candidates, in chunks for speed."""
        places, likelihood = self._known
        size = max(1, _TARGETS_AT_ONCE // len(releases))
        for start in range(0, releases.shape[1], size):
            part = releases[:, start : start + size]
            logs = likelihood(part.reshape(-1, 2)).reshape(len(places), *part.shape[:2]).sum(axis=1)
            yield from logs.T

    def _estimate_one(self, releases: FloatArray, known_logs: FloatArray, without: int | None) -> BayesEstimate:
        """Guess one target's place, given what its releases say of the known candidates."""
        middle = self._middle(releases)
        places, _ = self._known
        logs = known_logs + places.log_weights
        if without is not None:
            logs[: len(self.prior.people)][self.prior.people == without] = -np.inf
        if self._channel.prepares_fast:
            nearby = self.prior.background_around(middle)
            places = _together(places, nearby)
            logs = np.concatenate([logs, self._log_posterior_of(nearby, releases)])
        return _best_guesses(places, logs, middle, self.tau_m)

    def _log_posterior_of(self, candidates: Candidates, releases: FloatArray) -> FloatArray:
        likelihood: FloatArray = self._channel.at(candidates.places_m)(releases).sum(axis=1)
        return likelihood + candidates.log_weights

    def _middle(self, releases: FloatArray) -> FloatArray:
        places = self._channel.region.to_metres(releases)
        return np.array(geometric_median(places, np.full(len(places), 1 / len(places))))


def _best_guesses(places: Candidates, logs: FloatArray, middle: FloatArray, tau_m: float) -> BayesEstimate:
    top = logs.max(initial=-np.inf)
    if not np.isfinite(top):
        here = (float(middle[0]), float(middle[1]))
        return BayesEstimate(here, here, here, math.nan, math.nan, possible=False)
    weights = np.exp(logs - top)
    kept = _all_but(weights, _NEGLIGIBLE)
    where, weights = places.places_m[kept], weights[kept] / weights[kept].sum()
    mean = weights @ where
    median = geometric_median(where, weights)
    # Of a candidate that stands for an area larger than the disc, the disc holds only a part.
    in_disc = weights * np.minimum(1.0, math.pi * tau_m**2 / np.maximum(places.areas_m2[kept], 1e-9))
    x, y, probability = best_disc(where, in_disc, tau_m)
    return BayesEstimate(
        mean=(float(mean[0]), float(mean[1])),
        median=median,
        best_disc=(x, y),
        expected_error_m=mean_distance(where, weights, *median),
        disc_probability=probability,
    )


def _all_but(weights: FloatArray, share: float) -> IntArray:
    """The heaviest candidates that hold all of the weight but a small share."""
    possible = np.flatnonzero(weights > 1e-12)
    order = possible[np.argsort(-weights[possible])]
    sums = np.cumsum(weights[order])
    return order[: int(np.searchsorted(sums, (1 - share) * sums[-1])) + 1]


def _together(first: Candidates, second: Candidates) -> Candidates:
    return Candidates(
        np.concatenate([first.places_m, second.places_m]),
        np.concatenate([first.log_weights, second.log_weights]),
        np.concatenate([first.areas_m2, second.areas_m2]),
    )
