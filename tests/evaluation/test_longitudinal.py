"""The attacker who combines months: more with noise that is drawn anew, bad fixes and pairs; nothing more without."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from nearveil.errors import UsageError
from nearveil.evaluation.longitudinal import (
    Knowledge,
    LongitudinalAttacker,
    MonthsScores,
    addresses,
    density,
    measure_months,
    pairs,
    score_months,
)
from nearveil.evaluation.movement import BAD_GPS, GOOD_GPS, HOUR, MONTH, Commuter, GpsError, commute, stay_put
from nearveil.evaluation.published_history import (
    PublishedJourneys,
    first_moment,
    publish_journeys,
)
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.nearby.publishing.keys import SecretKeys
from nearveil.nearby.publishing.protection import Protection, Schedule
from nearveil.region import Region

TOWN = Region(37.70, -122.52, 37.82, -122.36)
CITY = synthetic_city(3000, TOWN, rng=5)
CITY_M = TOWN.to_metres(CITY)
WORKS_M = CITY_M[np.random.default_rng(6).permutation(len(CITY_M))]
PERMANENT = Protection(region=TOWN, noise_m=500.0, schedule=Schedule(epoch=HOUR, window=MONTH))
# A bad practice: the noise is drawn again every hour, as if each hour were on its own.
AT_ONCE = replace(PERMANENT, dwell_epochs=1)
PEOPLE = 200
ROWS = np.arange(PEOPLE)
# Fixed, so that a test that passes always does; the rates that tests state are those of other keys.
KEYS = SecretKeys(noise=b"k" * 32, tokens=b"t" * 32)


def publish_at_home(
    protection: Protection, months: int, gps: GpsError = GOOD_GPS, people: int = PEOPLE, *, forgets: bool = False
) -> PublishedJourneys:
    journeys = stay_put(CITY_M[:people], starts_s=first_moment(protection), lasts=months * MONTH)
    return publish_journeys(protection, journeys, gps=gps, keys=KEYS, forgets=forgets, rng=1)


def score(
    protection: Protection,
    published: PublishedJourneys,
    months: tuple[int, ...],
    knowledge: Knowledge | None = None,
    gps: GpsError = GOOD_GPS,
) -> MonthsScores:
    attacker = LongitudinalAttacker(protection, knowledge or addresses(CITY_M), gps)
    people = len(published.histories)
    return score_months(published, attacker, CITY_M[:people], months=months, rows=np.arange(people))


@pytest.mark.statistical
def test_noise_that_is_drawn_anew_gives_people_away() -> None:
    """12 points instead of one: about 55 % are found and not 15 %, of 200 people.

    Both are binomial: fewer than 80 of 200 at 0.55, and more than 56 at 0.15 have probabilities of 1e-5 and 1e-6. One
    point is within 100 m in 6.2 %, so fewer than 6 of 200 have a probability of 1e-2.
    """
    found = score(AT_ONCE, publish_at_home(AT_ONCE, 12, forgets=True), (1, 12))
    first, last = found.found.sum(axis=1)
    assert first <= 56
    assert last >= 80
    assert found.error_m[1].mean() < 0.5 * found.error_m[0].mean()
    assert found.named[1].sum() > found.named[0].sum()
    assert found.points.mean() < 1.05


def test_permanent_noise_gives_nothing_more_away() -> None:
    """The same points after a year as after a month, and so the same guesses, person by person."""
    found = score(PERMANENT, publish_at_home(PERMANENT, 12, people=60), (1, 12))
    for figures in (found.found, found.named, found.error_m):
        assert (figures[0] == figures[1]).all()


@pytest.mark.statistical
def test_bad_fixes_give_people_away_within_a_month() -> None:
    """Two points instead of one, where a place counts at once: the mean error is smaller.

    Errors have a standard deviation of 300 m, so that of 200 people the means differ by four standard errors.
    """
    good, bad = (score(AT_ONCE, publish_at_home(AT_ONCE, 1, gps), (1,), gps=gps) for gps in (GOOD_GPS, BAD_GPS))
    assert bad.points.mean() > 1.5 * good.points.mean()
    assert bad.error_m.mean() < 0.85 * good.error_m.mean()


@pytest.mark.statistical
def test_pairs_of_home_and_work_name_people() -> None:
    """Which pair fits both: in a town of 3,000 more than half of commuters in a month, by addresses about 10 %.

    Of 60 people, fewer than 20 at 0.55 and more than 18 at 0.1 have probabilities of 1e-3 and 1e-5.
    """
    rng = np.random.default_rng(4)
    own = CITY_M[:60], WORKS_M[:60]
    starts_s = first_moment(AT_ONCE)
    journeys = commute(*own, CITY_M, Commuter(), starts_s=starts_s, lasts=MONTH, rng=rng)
    published = publish_journeys(AT_ONCE, journeys, gps=GOOD_GPS, keys=KEYS, rng=rng)
    named = []
    for knowledge in (addresses(CITY_M), pairs(CITY_M, WORKS_M)):
        attacker = LongitudinalAttacker(AT_ONCE, knowledge, GOOD_GPS, journeys.time_by_kind())
        scores = score_months(published, attacker, journeys.homes_m, months=(1,), rows=ROWS[:60])
        named.append(scores.named.sum())
    assert named[0] <= 18
    assert named[1] >= 20


@pytest.mark.statistical
def test_the_home_is_told_from_other_places() -> None:
    """Commuters publish eight points a month; an attacker who takes all of them for home is kilometres off."""
    rng = np.random.default_rng(5)
    starts_s = first_moment(AT_ONCE)
    journeys = commute(CITY_M[:40], WORKS_M[:40], CITY_M, Commuter(), starts_s=starts_s, lasts=MONTH, rng=rng)
    published = publish_journeys(AT_ONCE, journeys, gps=GOOD_GPS, keys=KEYS, rng=rng)
    errors = []
    for rhythm in (journeys.time_by_kind(), None):
        attacker = LongitudinalAttacker(AT_ONCE, addresses(CITY_M), GOOD_GPS, rhythm)
        errors.append(score_months(published, attacker, journeys.homes_m, months=(1,)).error_m.mean())
    assert errors[0] < 800.0 < errors[1]


@pytest.mark.evidence
@pytest.mark.statistical
def test_addresses_are_worth_more_than_a_density() -> None:
    """Twelve points: about 55 % against 35 % within 100 m, of 200 people; equal by chance with probability 1e-4."""
    published = publish_at_home(AT_ONCE, 12, forgets=True)
    knows, guesses = (
        score(AT_ONCE, published, (12,), knowledge) for knowledge in (addresses(CITY_M), density(CITY_M[PEOPLE:], TOWN))
    )
    assert knows.found.sum() > guesses.found.sum()
    assert guesses.error_m.mean() < 250.0


@pytest.mark.evidence
@pytest.mark.statistical
def test_hidden_among_people_too() -> None:
    """Three points among 100 people instead of one: the mean error falls. Paired, of 60 people."""
    cells = cells_from_points(CITY, TOWN, CellPlan(hide_among=100))
    among = Protection(region=TOWN, among=HideAmong(100, cells=cells, region=TOWN))
    found = score(among, publish_at_home(among, 3, people=60, forgets=True), (1, 3))
    assert found.error_m[1].mean() < 0.9 * found.error_m[0].mean()
    same = score(among, publish_at_home(among, 2, people=20), (1, 2))
    assert (same.error_m[0] == same.error_m[1]).all()


def test_figures_have_intervals() -> None:
    figures = measure_months(PERMANENT, CITY, targets=ROWS[:20], months=(1, 2), gps=GOOD_GPS)
    assert [(one.months, one.people) for one in figures] == [(1, 20), (2, 20)]
    first = figures[0]
    assert first.named is not None
    assert first.found.low <= first.found.value <= first.found.high
    assert (first.error_m.half_width or 0) > 0
    assert first.points.value == 1.0
    assert "after 1 month: " in str(first)
    assert "found within 100 m" in str(first)


def test_what_cannot_be_measured() -> None:
    with pytest.raises(UsageError, match="at least one person"):
        measure_months(PERMANENT, CITY, targets=ROWS[:0])
    with pytest.raises(UsageError, match="at least one person, and one number of months"):
        measure_months(PERMANENT, CITY, months=())
    journeys = stay_put(CITY_M[:1], starts_s=first_moment(PERMANENT), lasts=timedelta(days=2))
    published = publish_journeys(PERMANENT, journeys)
    attacker = LongitudinalAttacker(PERMANENT, addresses(CITY_M), GOOD_GPS)
    with pytest.raises(UsageError, match="from 1 to the 1 that were simulated"):
        score_months(published, attacker, CITY_M[:1], months=(2,))
