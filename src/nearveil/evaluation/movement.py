"""How people move and what their phones report: who stays put, who commutes, and fixes that are off.

People are made up, or homes are given. `stay_put` and `commute` say where everybody is in every hour, and a `GpsError`
how far a phone is off. What a service publishes of them is in `nearveil.evaluation.longitudinal`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from nearveil.errors import UsageError
from nearveil.types import FloatArray, IntArray

HOUR = timedelta(hours=1)
MONTH = timedelta(days=30)

HOME, WORK = 0, 1
"""Numbers of a person's first two places; regular others follow, and then those visited once."""

_DAY_H, _WEEK_H = 24, 168
# The first of January 1970 was a Thursday; weeks begin on Monday.
_FIRST_HOUR_OF_WEEK = 3 * _DAY_H


@dataclass(frozen=True, slots=True, kw_only=True)
class GpsError:
    """How far a fix lies from where somebody is: a core, and a share of bad fixes.

    Parameters
    ----------
    sigma_m : float
        Standard deviation of the core along each axis, in metres.
    radius_m : float
        Or a radius within which fixes lie evenly; both add up.
    bad_share : float
        Share of fixes that are bad.
    bad_m : float
        How far off a bad fix is, in a random direction, besides the core.
    run_share : float
        Share of bad spells that last 2 to ``longest_run`` fixes with one and the same direction, such as a reflection
        from a tower; the others are single fixes.
    longest_run : int
        Longest spell, in fixes.
    """

    sigma_m: float = 10.0
    radius_m: float = 0.0
    bad_share: float = 0.0
    bad_m: float = 150.0
    run_share: float = 0.2
    longest_run: int = 4

    def __post_init__(self) -> None:
        lengths = (self.sigma_m, self.radius_m, self.bad_m)
        if not all(0 <= length < math.inf for length in lengths):
            raise UsageError("errors of a phone are lengths in metres, 0 or more")
        if not 0 <= self.bad_share < 1 or not 0 <= self.run_share <= 1 or self.longest_run < 2:
            raise UsageError("bad fixes and their runs are shares from 0 to 1, and a run has 2 fixes or more")

    @property
    def mean_spell(self) -> float:
        """Mean number of fixes of a bad spell."""
        return 1 - self.run_share + self.run_share * (2 + self.longest_run) / 2

    def core(self, people: int, rng: np.random.Generator) -> FloatArray:
        """Draw the error of a good fix for everybody."""
        return self.radius_m * _in_unit_disc(people, rng) + self.sigma_m * rng.normal(size=(people, 2))


GOOD_GPS = GpsError()
BAD_GPS = GpsError(bad_share=0.05)
"""Within 10 m or so along each axis; and the same with every twentieth fix 150 m off."""


def _in_unit_disc(count: int, rng: np.random.Generator) -> FloatArray:
    return np.sqrt(rng.random(count))[:, None] * _directions(count, rng)


def _directions(count: int, rng: np.random.Generator) -> FloatArray:
    angles = 2 * math.pi * rng.random(count)
    return np.column_stack([np.cos(angles), np.sin(angles)])


def fixes(places_m: FloatArray, error: GpsError, rng: np.random.Generator) -> FloatArray:
    """Return the fixes of one phone that is at these places one after the other."""
    found = places_m + error.core(len(places_m), rng)
    if not error.bad_share:
        return found
    # So many spells that they reach the end, but for one case in a million.
    most = 20 + math.ceil(1.5 * len(places_m) * error.bad_share / error.mean_spell)
    runs = rng.random(most) < error.run_share
    lengths = np.where(runs, rng.integers(2, error.longest_run + 1, most), 1)
    # Good fixes before each spell, so that bad ones are the share that was asked for.
    gaps = rng.geometric(min(1.0, 1 / (1 + error.mean_spell * (1 - error.bad_share) / error.bad_share)), most) - 1
    bad = np.repeat(np.tile([False, True], most), np.column_stack([gaps, lengths]).ravel())[: len(places_m)]
    offsets = np.repeat(error.bad_m * _directions(most, rng), lengths, axis=0)[: int(bad.sum())]
    found[: len(bad)][bad] += offsets
    return found


# Where people are, hour by hour.


ShortArray = NDArray[np.int16]

KINDS = ("home", "work", "elsewhere")


@dataclass(frozen=True, slots=True, eq=False)
class Journeys:
    """Where people are in every hour.

    Attributes
    ----------
    places_m : ndarray of shape (people, places, 2)
        Everybody's places in metres: home, work, other regular places, and those that are visited once.
    where : ndarray of shape (people, hours)
        The number of the place that a person is at.
    starts_s : float
        When the first hour begins, in seconds since 1970.
    """

    places_m: FloatArray = field(repr=False)
    where: ShortArray = field(repr=False)
    starts_s: float

    def __len__(self) -> int:
        return len(self.places_m)

    @property
    def homes_m(self) -> FloatArray:
        """Everybody's home."""
        return self.places_m[:, HOME]

    @property
    def works_m(self) -> FloatArray | None:
        """Where everybody works; None where nobody does."""
        return self.places_m[:, WORK] if self.places_m.shape[1] > WORK else None

    def time_by_kind(self) -> FloatArray:
        """Share of the time that people spend at each kind of place, by the kind of hour: shape (kinds, hours).

        What is known of people in general, as from a survey of how they spend their days.
        """
        of_hour = hour_kinds(self.starts_s, self.where.shape[1])
        kinds = np.minimum(self.where, len(KINDS) - 1)
        counts = np.zeros((len(KINDS), len(HOUR_KINDS)))
        for kind in range(len(KINDS)):
            counts[kind] = np.bincount(of_hour, (kinds == kind).sum(axis=0), minlength=len(HOUR_KINDS))
        return counts / counts.sum(axis=0, keepdims=True).clip(1)


HOUR_KINDS = ("night", "working hours", "evening", "weekend")

_NIGHT = (23, 7)
_WORKING = (9, 17)


def hours_of_week(starts_s: float, hours: int) -> IntArray:
    """Return the hour of the week, Monday's first being 0, for each hour from a moment on."""
    first = int(starts_s // HOUR.total_seconds())
    return (first + _FIRST_HOUR_OF_WEEK + np.arange(hours, dtype=np.int64)) % _WEEK_H


def hour_kinds(starts_s: float, hours: int) -> IntArray:
    """Return the kind of each hour from a moment on, as a number of `HOUR_KINDS`."""
    of_week = hours_of_week(starts_s, hours)
    of_day, weekend = of_week % _DAY_H, of_week >= 5 * _DAY_H
    found = np.full(hours, HOUR_KINDS.index("evening"), dtype=np.int64)
    found[(of_day >= _WORKING[0]) & (of_day < _WORKING[1])] = HOUR_KINDS.index("working hours")
    found[weekend] = HOUR_KINDS.index("weekend")
    found[(of_day >= _NIGHT[0]) | (of_day < _NIGHT[1])] = HOUR_KINDS.index("night")
    return found


def stay_put(homes_m: FloatArray, *, starts_s: float, lasts: timedelta) -> Journeys:
    """Return people who never leave home."""
    hours = _hours(lasts)
    return Journeys(homes_m[:, None], np.zeros((len(homes_m), hours), dtype=np.int16), starts_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commuter:
    """A week of somebody with few regular places, and now and then one that is visited once.

    On working days people are at work from about 8 to 17, on some evenings and weekends at one of a few other regular
    places, at night at home.

    Parameters
    ----------
    others : int
        Regular places besides home and work.
    at_work, out_evenings, out_weekends : float
        Share of working days at work, of evenings out, and of days of the weekend out.
    rare_per_month : float
        Mean number of places in 30 days that are visited once, for 2 to 4 hours (a Poisson process).
    """

    others: int = 3
    at_work: float = 0.85
    out_evenings: float = 0.25
    out_weekends: float = 0.6
    rare_per_month: float = 4.0

    def __post_init__(self) -> None:
        shares = (self.at_work, self.out_evenings, self.out_weekends)
        if self.others < 1 or not all(0 <= share <= 1 for share in shares) or not 0 <= self.rare_per_month <= 100:
            raise UsageError(
                "a commuter has at least one other place, shares from 0 to 1, and 0 to 100 rare places in 30 days"
            )


def commute(
    homes_m: FloatArray,
    works_m: FloatArray,
    city_m: FloatArray,
    commuter: Commuter,
    *,
    starts_s: float,
    lasts: timedelta,
    rng: np.random.Generator,
) -> Journeys:
    """Return people who commute; their other places are drawn from the places of a city.

    Parameters
    ----------
    homes_m, works_m : ndarray of shape (n, 2)
        Of each person, in metres.
    city_m : ndarray of shape (m, 2)
        Where other places are drawn from.
    """
    people, hours = len(homes_m), _hours(lasts)
    where = np.zeros((people, hours), dtype=np.int16)
    for day, start in enumerate(range(0, hours, _DAY_H)):
        _spend_day(where[:, start : start + _DAY_H], commuter, starts_s + day * 86_400.0, rng)
    first_rare = WORK + 1 + commuter.others
    most = _visit_rare_places(where, commuter, first_rare, rng)
    drawn = city_m[rng.integers(0, len(city_m), (people, commuter.others + most))]
    places = np.concatenate([homes_m[:, None], works_m[:, None], drawn], axis=1)
    return Journeys(places, where, starts_s)


def _spend_day(day: ShortArray, commuter: Commuter, starts_s: float, rng: np.random.Generator) -> None:
    """Fill in one day of everybody: rows are people, columns hours."""
    people = len(day)
    of_day = hours_of_week(starts_s, day.shape[1]) % _DAY_H
    weekend = hours_of_week(starts_s, 1)[0] >= 5 * _DAY_H
    other = rng.integers(WORK + 1, WORK + 1 + commuter.others, people)

    def be(where: IntArray, who: IntArray, begin: IntArray, end: IntArray) -> None:
        there = (of_day >= begin[:, None]) & (of_day < end[:, None]) & (who[:, None] > 0)
        day[there] = np.broadcast_to(where[:, None], day.shape)[there]

    if weekend:
        out = (rng.random(people) < commuter.out_weekends).astype(np.int64)
        begin = rng.integers(10, 15, people)
        be(other, out, begin, begin + rng.integers(2, 7, people))
        return
    working = (rng.random(people) < commuter.at_work).astype(np.int64)
    begin = rng.integers(7, 10, people)
    end = begin + rng.integers(8, 10, people)
    be(np.full(people, WORK), working, begin, end)
    out = (rng.random(people) < commuter.out_evenings).astype(np.int64)
    be(other, out, np.maximum(end, 18), np.maximum(end, 18) + rng.integers(2, 5, people))


def _visit_rare_places(where: ShortArray, commuter: Commuter, first: int, rng: np.random.Generator) -> int:
    """Put visits to new places where people are at home by day; return the most that anybody has."""
    people, hours = where.shape
    visits = rng.poisson(commuter.rare_per_month * hours / _hours(MONTH), people)
    for person, number in enumerate(visits.tolist()):
        days = np.sort(rng.integers(0, max(1, hours // _DAY_H), number)) * _DAY_H
        starts = days + rng.integers(10, 20, number)
        ends = starts + rng.integers(2, 5, number)
        for visit, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            row = where[person, start:end]
            row[row != WORK] = first + visit
    return int(visits.max(initial=0))


def _hours(lasts: timedelta) -> int:
    return math.ceil(lasts / HOUR)
