"""The best attacker's error, many times faster where noise is confined to the target's own interval.

There the published place discloses the interval, so nobody of another interval is a candidate. The attacker gets
targets a few at a time and only the people who share an interval with one of them: the guesses are the same.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nearveil.attacks.bayes import BayesAttacker, Prior, prior_from_points, score_attacker
from nearveil.evaluation.cells.publication import TAU_M, Publication, best_guess_of
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.nearest_centre import nearest_centre_table
from nearveil.types import BoolArray, IntArray

_TARGETS_AT_ONCE = 8


def guess(publication: Publication, targets: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return the best attacker's mean error in metres and its Acc at 100 m, as `best_guess_of` does."""
    mechanism = publication.mechanism
    if not (isinstance(mechanism, DPRS) and mechanism.chosen_release == "interval"):
        found = best_guess_of(publication, targets, rng)
        return float(found["attacker error_m"]), float(found["attacker acc"])
    places = publication.dataset.places
    rows = rng.choice(len(places), size=min(targets, len(places)), replace=False)
    prior = prior_from_points(places, mechanism.resolved_region, spread_m=0.0)
    intervals = mechanism.current_intervals
    own = nearest_centre_table(intervals.centres, intervals.region.half_extent_square)(mechanism.enter(places))
    errors_m, accuracies, sizes = [], [], []
    for part in _parts(rows, own):
        attacker = BayesAttacker(
            mechanism=mechanism, prior=_only(prior, np.isin(own, own[part])), tau_m=TAU_M
        )  # fmt: skip
        score = score_attacker(attacker, places, publication.places, targets=part, leave_out=False)
        errors_m.append(score.median.error_m.value)
        accuracies.append(score.best_disc.accuracy.value)
        sizes.append(len(part))
    return float(np.average(errors_m, weights=sizes)), float(np.average(accuracies, weights=sizes))


def _parts(rows: IntArray, own: IntArray) -> list[IntArray]:
    """Targets a few at a time, those of one interval together; never one alone, which has no standard error."""
    ordered = rows[np.argsort(own[rows], kind="stable")]
    return np.array_split(ordered, max(1, len(ordered) // _TARGETS_AT_ONCE))


def _only(prior: Prior, people: BoolArray) -> Prior:
    """The same weights for some of the people, and none of the others."""
    kept = people[prior.people]
    return replace(prior, places_m=prior.places_m[kept], weights=prior.weights[kept], people=prior.people[kept])
