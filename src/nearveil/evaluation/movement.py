"""How users move and what their phones report: users who stay at home, users who commute, and fixes that are off.

`stay_put` and `commute` say where users are in each hour, and `fixes` what a phone reports there. What a service
publishes of them is in `nearveil.evaluation.published_history`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from nearveil.types import FloatArray, IntArray

HOUR = timedelta(hours=1)
MONTH = timedelta(days=30)

HOME, WORK, ELSEWHERE = 0, 1, 2
"""Kinds of places, and the numbers of a user's first two; all others are elsewhere."""

HOUR_KINDS = ("night", "working hours", "evening", "weekend")
_DAY_H, _WEEK_H, _WORKING_WEEK_H = 24, 168, 120
FIRST_HOUR = 18_000 * _DAY_H
"""Hours from 1970 to the first hour of all journeys, a Sunday that begins a window of 30 days."""
# The first of January 1970 was a Thursday; weeks begin on Monday.
_FIRST_HOUR_OF_WEEK = FIRST_HOUR + 3 * _DAY_H

# A commuter returns to a few regular places on evenings and weekends, and visits rare ones once, so many in 30 days.
REGULAR_PLACES, RARE_PER_MONTH = 3, 4.0
_AT_WORK, _OUT_ON_EVENINGS, _OUT_ON_WEEKENDS = 0.85, 0.25, 0.6

SIGMA_M, BAD_M = 10.0, 150.0
"""Standard deviation of a fix along each axis, and how much farther off a bad fix is, in a random direction."""
GOOD_GPS, BAD_GPS = 0.0, 0.05
"""Shares of bad fixes."""
# Share of bad spells that last 2 fixes or more with the same direction, such as a reflection from a tower.
_RUN_SHARE, _LONGEST_RUN = 0.2, 4
MEAN_SPELL = 1 - _RUN_SHARE + _RUN_SHARE * (2 + _LONGEST_RUN) / 2


def fixes(places_m: FloatArray, bad_share: float, rng: np.random.Generator) -> FloatArray:
    """Return the fixes of one phone that is at these places one after the other."""
    found = places_m + SIGMA_M * rng.normal(size=places_m.shape)
    if not bad_share:
        return found
    # So many spells that they reach the end, but for one case in a million.
    most = 20 + math.ceil(1.5 * len(places_m) * bad_share / MEAN_SPELL)
    lengths = np.where(rng.random(most) < _RUN_SHARE, rng.integers(2, _LONGEST_RUN + 1, most), 1)
    # Good fixes before each spell, so that the share of bad ones is right.
    gaps = rng.geometric(1 / (1 + MEAN_SPELL * (1 - bad_share) / bad_share), most) - 1
    bad = np.repeat(np.tile([False, True], most), np.column_stack([gaps, lengths]).ravel())[: len(places_m)]
    angles = 2 * math.pi * rng.random(most)
    offsets = BAD_M * np.column_stack([np.cos(angles), np.sin(angles)])
    found[: len(bad)][bad] += np.repeat(offsets, lengths, axis=0)[: int(bad.sum())]
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Journeys:
    """Where users are in each hour, from `FIRST_HOUR` on.

    ``places_m`` has the shape (users, places, 2): home, work, other regular places, and those visited once. ``where``
    is the number of the place where a user is, of the shape (users, hours).
    """

    places_m: FloatArray = field(repr=False)
    where: NDArray[np.int16] = field(repr=False)

    def time_by_kind(self) -> FloatArray:
        """Return the share of the time that users spend at each kind of place, by the kind of hour.

        Anyone may know this from a survey of how people spend their days. Rows are home, work and elsewhere.
        """
        of_hour, kinds = hour_kinds(self.where.shape[1]), np.minimum(self.where, ELSEWHERE)
        columns = [(kinds == kind).sum(axis=0) for kind in (HOME, WORK, ELSEWHERE)]
        counts = [np.bincount(of_hour, users, minlength=len(HOUR_KINDS)) for users in columns]
        return np.asarray(counts / np.sum(counts, axis=0).clip(1))


def _hours_of_week(hours: int) -> IntArray:
    """Return the hour of the week for each hour from `FIRST_HOUR` on; Monday's first is 0."""
    return (_FIRST_HOUR_OF_WEEK + np.arange(hours, dtype=np.int64)) % _WEEK_H


def hour_kinds(hours: int) -> IntArray:
    """Return the kind of each hour from `FIRST_HOUR` on, as a number of `HOUR_KINDS`."""
    of_week = _hours_of_week(hours)
    of_day = of_week % _DAY_H
    night, at_work = (of_day >= 23) | (of_day < 7), (of_day >= 9) & (of_day < 17)
    kinds = np.select([night, of_week >= _WORKING_WEEK_H, at_work], [0, 3, 1], default=2)
    return kinds.astype(np.int64)


def stay_put(homes_m: FloatArray, lasts: timedelta) -> Journeys:
    """Return users who never leave home."""
    return Journeys(homes_m[:, None], np.zeros((len(homes_m), lasts // HOUR), dtype=np.int16))


def commute(
    homes_m: FloatArray, works_m: FloatArray, city_m: FloatArray, lasts: timedelta, rng: np.random.Generator
) -> Journeys:
    """Return users who commute; their other places are drawn from the places of a city.

    On working days they are at work from about 8 to 17, on some evenings and weekends at one of a few other regular
    places, at night at home. Now and then they visit a place once, for 2 to 4 hours.
    """
    users, hours = len(homes_m), lasts // HOUR
    where = np.zeros((users, hours), dtype=np.int16)
    of_week = _hours_of_week(hours)
    for start in range(0, hours, _DAY_H):
        _spend_day(where[:, start : start + _DAY_H], of_week[start : start + _DAY_H], rng)
    most = _visit_rare_places(where, rng)
    drawn = city_m[rng.integers(0, len(city_m), (users, REGULAR_PLACES + most))]
    return Journeys(np.concatenate([homes_m[:, None], works_m[:, None], drawn], axis=1), where)


def _spend_day(day: NDArray[np.int16], of_week: IntArray, rng: np.random.Generator) -> None:
    """Fill in one day of all users: rows are users, columns hours."""
    users, of_day = len(day), of_week % _DAY_H
    regular = rng.integers(ELSEWHERE, ELSEWHERE + REGULAR_PLACES, users)

    def go(place: IntArray, share: float, begin: IntArray, end: IntArray) -> None:
        goes = rng.random(users) < share
        there = goes[:, None] & (of_day >= begin[:, None]) & (of_day < end[:, None])
        day[there] = np.broadcast_to(place[:, None], day.shape)[there]

    if of_week[0] >= _WORKING_WEEK_H:
        begin = rng.integers(10, 15, users)
        go(regular, _OUT_ON_WEEKENDS, begin, begin + rng.integers(2, 7, users))
        return
    begin = rng.integers(7, 10, users)
    end = begin + rng.integers(8, 10, users)
    go(np.full(users, WORK), _AT_WORK, begin, end)
    evening = np.maximum(end, 18)
    go(regular, _OUT_ON_EVENINGS, evening, evening + rng.integers(2, 5, users))


def _visit_rare_places(where: NDArray[np.int16], rng: np.random.Generator) -> int:
    """Put visits to new places where users are not at work by day; return the largest number of visits of a user."""
    users, hours = where.shape
    visits = rng.poisson(RARE_PER_MONTH * hours / (MONTH // HOUR), users)
    for user, number in enumerate(visits.tolist()):
        days = np.sort(rng.integers(0, max(1, hours // _DAY_H), number)) * _DAY_H
        starts = days + rng.integers(10, 20, number)
        ends = starts + rng.integers(2, 5, number)
        for visit, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            row = where[user, start:end]
            row[row != WORK] = ELSEWHERE + REGULAR_PLACES + visit
    return int(visits.max(initial=0))
