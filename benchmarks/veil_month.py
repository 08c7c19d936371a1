"""What Veil publishes of a month and of a year, and what an attacker makes of it.

``python -m benchmarks.veil_month`` takes minutes of a quiet core; ``--users 20`` is quick. A user's month has a
home, an office 8 km away, lunch 400 m from there, and commutes. A fix is off by a normal error of 10 m along each
axis, and a bad one, 1 in 20, by 100 m; the phone states the radius that holds two thirds of such fixes.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.stats import binomtest

from nearveil.attacks.bayes import best_disc, geometric_median
from nearveil.report.text_table import text_table
from nearveil.types import FloatArray
from nearveil.veil import R, Veil

NOISE_M = 500.0
GPS_M, BAD_M, BAD_SHARE = 10.0, 100.0, 0.05
# The radius that holds 68 % of normal errors, in standard deviations along an axis.
STATED = 1.51
WITHIN_M = 100.0
MIDDLE = np.array([52.52, 13.405])
DEGREE_M = math.radians(R) * np.array([1.0, math.cos(math.radians(MIDDLE[0]))])


@dataclass(frozen=True, slots=True)
class Policy:
    """How an app calls Veil, and how often."""

    minutes: int
    bad_share: float
    known: bool
    accuracy: bool

    def __str__(self) -> str:
        called = "known, accuracy_m" if self.accuracy else "known" if self.known else "neither"
        return f"{called}, every {self.minutes} min, {self.bad_share:.0%} bad"


def days(policy: Policy, count: int, *, only_home: bool, draw: np.random.Generator) -> FloatArray:
    """Return true locations in meters from home."""
    hours = np.arange(0, 24 * count, policy.minutes / 60)
    of_day, weekday = hours % 24, hours // 24 % 7 < 5
    if only_home:
        return np.zeros((len(hours), 2))
    office = 8000 * _direction(draw)
    lunch = office + 400 * _direction(draw)
    # Half an hour each way, in a straight line.
    on_the_way = np.clip(np.minimum((of_day - 8) / 0.5, (18 - of_day) / 0.5), 0, 1) * weekday
    places = on_the_way[:, None] * office
    places[weekday & (of_day >= 12) & (of_day < 13)] = lunch
    return places


def published(policy: Policy, count: int, user: int, *, only_home: bool = False) -> tuple[FloatArray, FloatArray]:
    """Return a user's answers in meters from home, one for each fix, and which fixes were at home."""
    draw = np.random.default_rng(user)
    veil = Veil(draw.bytes(32), NOISE_M)
    home = MIDDLE + draw.uniform(-5000, 5000, 2) / DEGREE_M
    places = days(policy, count, only_home=only_home, draw=draw)
    error_m = np.where(draw.random(len(places)) < policy.bad_share, BAD_M, GPS_M)
    fixes = home + (places + error_m[:, None] * draw.standard_normal(places.shape)) / DEGREE_M
    if policy.known:
        known: dict[tuple[float, float], None] = {}
        answers = []
        for (latitude, longitude), stated in zip(fixes.tolist(), (STATED * error_m).tolist(), strict=True):
            answer = veil.blur("user", latitude, longitude, known, stated if policy.accuracy else None)
            known[answer] = None
            answers.append(answer)
        degrees = np.array(answers)
    else:
        degrees = np.column_stack(veil.blur_many(["user"] * len(fixes), *fixes.T.tolist()))
    return (degrees - home) * DEGREE_M, (places == 0).all(axis=1)


def _direction(draw: np.random.Generator) -> FloatArray:
    bearing = draw.uniform(0, 2 * np.pi)
    return np.array([math.cos(bearing), math.sin(bearing)])


# Attackers: from all answers for home, in the order of the fixes, to a guess. Home is at the origin.


def distinct(answers: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the distinct answers, the most frequent first, and how often each was given."""
    values, counts = np.unique(answers, axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return values[order], counts[order].astype(float)


def by_bayes(answers: FloatArray) -> FloatArray:
    """The disc that most probably holds home: answers as independent noise around it, all locations equally likely."""
    values, _ = distinct(answers)
    grid = np.stack(np.meshgrid(*[np.arange(-1500, 1501, 25.0)] * 2), axis=-1).reshape(-1, 2) + values.mean(axis=0)
    distances = np.linalg.norm(grid[:, None] - values, axis=2)
    # The center of a cell is somewhere within some 50 m, which makes the peak of the law round.
    logs = -2 / NOISE_M * np.hypot(distances, 50).sum(axis=1)
    weights = np.exp(logs - logs.max())
    return np.array(best_disc(grid, weights / weights.sum(), WITHIN_M)[:2])


def _median(values: FloatArray, weights: FloatArray) -> FloatArray:
    return np.array(geometric_median(values, weights / weights.sum()))


ATTACKERS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "the first": lambda answers: answers[0],
    "the most frequent": lambda answers: distinct(answers)[0][0],
    "mean of all": lambda answers: answers.mean(axis=0),
    "mean of the distinct": lambda answers: distinct(answers)[0].mean(axis=0),
    "median of all": lambda answers: _median(*distinct(answers)),
    "median of the distinct": lambda answers: _median(distinct(answers)[0], np.ones(len(distinct(answers)[0]))),
    "Bayes": by_bayes,
}


def month_of(policy: Policy, user: int) -> list[float]:
    """Return distinct answers, those for home, and the errors of two averages of those for home and of one answer."""
    answers, at_home = published(policy, 30, user)
    for_home = answers[at_home]
    different = distinct(for_home)[0]
    guesses = for_home.mean(axis=0), different.mean(axis=0), for_home[0]
    return [len(distinct(answers)[0]), len(different), *(float(np.linalg.norm(guess)) for guess in guesses)]


def year_of(policy: Policy, user: int) -> list[float]:
    """Return the number of distinct answers, and the errors of all attackers."""
    answers, _ = published(policy, 365, user, only_home=True)
    return [len(distinct(answers)[0]), *(float(np.linalg.norm(guess(answers))) for guess in ATTACKERS.values())]


def share(errors: FloatArray) -> str:
    """Say how many are within 100 m, with a 95 % interval (Clopper and Pearson)."""
    found = binomtest(int((errors <= WITHIN_M).sum()), len(errors))
    interval = found.proportion_ci(0.95)
    return f"{found.statistic:.1%} ({interval.low:.1%} to {interval.high:.1%})"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=400, help="of a year; a tenth as many of a month")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    months = [
        Policy(2, BAD_SHARE, known=False, accuracy=False),
        Policy(2, BAD_SHARE, known=True, accuracy=False),
        Policy(2, BAD_SHARE, known=True, accuracy=True),
        Policy(60, BAD_SHARE, known=True, accuracy=True),
        Policy(2, 0.0, known=True, accuracy=True),
    ]
    with ProcessPoolExecutor(options.processes) as pool:
        rows = []
        for policy in months:
            measured = np.array(list(pool.map(partial(month_of, policy), range(max(4, options.users // 10)))))
            counts, errors_m = measured.mean(axis=0)[:2], measured.mean(axis=0)[2:]
            rows.append([str(policy), *(f"{count:.1f}" for count in counts), *(f"{error:.0f} m" for error in errors_m)])
        print("A month: distinct answers, and for home: distinct answers, and mean errors of the average of all")
        print("answers, of the average of the distinct ones, and of one answer")
        print(text_table(["called with", "distinct", "home", "all", "each once", "one"], rows))
        for policy in (Policy(60, 0.0, known=True, accuracy=True), Policy(60, 0.0, known=False, accuracy=False)):
            measured = np.array(list(pool.map(partial(year_of, policy), range(options.users))))
            errors = dict(zip(ATTACKERS, measured[:, 1:].T, strict=True))
            # Chosen on half of the users, and counted on the others.
            best = max(errors, key=lambda name: float((errors[name][::2] <= WITHIN_M).mean()))
            print(f"\nA year at home ({policy}): {measured[:, 0].mean():.2f} distinct answers a user")
            print(f"  within {WITHIN_M:.0f} m, best attacker ({best}): {share(errors[best][1::2])}")
            print(f"  within {WITHIN_M:.0f} m, one answer: {share(errors['the first'])}")


if __name__ == "__main__":
    main()
