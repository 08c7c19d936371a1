"""What a service publishes of people who move: points, for how long, and how right they are."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from nearveil.errors import UsageError
from nearveil.evaluation.movement import (
    BAD_GPS,
    GOOD_GPS,
    HOUR,
    MONTH,
    Commuter,
    GpsError,
    Journeys,
    commute,
    stay_put,
)
from nearveil.evaluation.published_history import (
    PublishedJourneys,
    first_moment,
    publish_journeys,
)
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.nearby.publishing.keys import new_keys
from nearveil.nearby.publishing.protection import Protection, Schedule, grid_for
from nearveil.region import Region
from nearveil.types import FloatArray
from tests.evidence import for_evidence

TOWN = Region(37.70, -122.52, 37.82, -122.36)
CITY = synthetic_city(3000, TOWN, rng=5)
CITY_M = TOWN.to_metres(CITY)
DAY = timedelta(days=1)
PERMANENT = Protection(region=TOWN, noise_m=500.0, schedule=Schedule(epoch=HOUR, window=MONTH))
# A bad practice: the noise is drawn again every hour, as if each hour were on its own.
AT_ONCE = replace(PERMANENT, dwell_epochs=1)


def at_home(
    protection: Protection,
    homes_m: FloatArray,
    lasts: timedelta,
    *,
    gps: GpsError | None = None,
    begins: timedelta = timedelta(0),
    forgets: bool = False,
) -> PublishedJourneys:
    starts_s = first_moment(protection) + begins.total_seconds()
    return publish_journeys(protection, stay_put(homes_m, starts_s=starts_s, lasts=lasts), gps=gps, forgets=forgets)


def commuters(people: int, protection: Protection, lasts: timedelta) -> Journeys:
    starts_s, rng = first_moment(protection), np.random.default_rng(8)
    own = CITY_M[:people], CITY_M[people : 2 * people]
    return commute(*own, CITY_M, Commuter(), starts_s=starts_s, lasts=lasts, rng=rng)


def numbers_of_points(published: PublishedJourneys) -> list[int]:
    return [len(history.points_m) for history in published.histories]


@pytest.mark.statistical
def test_the_noise_is_as_wide_as_promised() -> None:
    """Mean distance of 2,000 points from home, 505 m with the way to the cell's centre; five standard errors are 40 m.

    False-alarm rate 1e-6; noise 30 % narrower or wider is far outside.
    """
    homes_m = np.random.default_rng(2).uniform(-3000, 3000, (2000, 2))
    published = at_home(PERMANENT, homes_m, timedelta(hours=2))
    points = np.vstack([history.points_m for history in published.histories])
    assert abs(np.hypot(*(points - homes_m).T).mean() - 505.0) < 40.0


def _at_borders(side_m: float, count: int) -> FloatArray:
    """Homes right on the border of two cells, and at the corner of four."""
    cells = np.arange(count) - count // 2
    edge = np.column_stack([(cells + 0.5) * side_m, np.zeros(count)])
    corner = np.column_stack([(cells + 0.5) * side_m, np.full(count, 0.5 * side_m)])
    return np.vstack([edge, corner])


def test_a_home_on_a_border_is_one_point_all_the_same() -> None:
    """Reports up to 20 m off on either side of the border: whichever cell comes first stays."""
    homes_m = _at_borders(grid_for(500.0).side_m, 6)
    published = at_home(PERMANENT, homes_m, 10 * DAY, gps=GpsError(sigma_m=0.0, radius_m=20.0))
    assert numbers_of_points(published) == [1] * 12


def test_reports_far_off_the_mark_count_as_other_places() -> None:
    """Keys are secret, so what is replaced by the first point varies: 40 homes, of which one is enough.

    False-alarm rate under 1e-9: half of the homes have another point within two days.
    """
    homes_m = _at_borders(grid_for(500.0).side_m, 20)
    assert max(numbers_of_points(at_home(PERMANENT, homes_m, 2 * DAY, gps=GpsError(sigma_m=60.0)))) > 1


def test_noise_that_is_drawn_anew_is_a_new_point() -> None:
    begins = MONTH - 3 * HOUR
    assert numbers_of_points(at_home(PERMANENT, CITY_M[:5], 3 * HOUR, begins=begins, forgets=True)) == [1] * 5
    assert numbers_of_points(at_home(PERMANENT, CITY_M[:5], 5 * HOUR, begins=begins, forgets=True)) == [2] * 5
    assert numbers_of_points(at_home(PERMANENT, CITY_M[:5], 5 * HOUR, begins=begins)) == [1] * 5


def test_permanent_noise_is_one_point() -> None:
    assert numbers_of_points(at_home(PERMANENT, CITY_M[:20], 6 * MONTH, gps=GOOD_GPS)) == [1] * 20


def test_bad_fixes_publish_more_points_where_a_place_counts_at_once() -> None:
    """Two a month, of which many are replaced by the first one; fewer after two epochs, where only runs count."""
    good, bad, dwell = (
        sum(numbers_of_points(at_home(protection, CITY_M[:60], MONTH, gps=gps)))
        for protection, gps in ((AT_ONCE, GOOD_GPS), (AT_ONCE, BAD_GPS), (PERMANENT, BAD_GPS))
    )
    assert good == 60
    assert bad > 90
    assert good <= dwell < bad


def test_how_long_points_are_shown() -> None:
    """A home only: one point for all hours but the first, which is over when it is published."""
    published = at_home(PERMANENT, CITY_M[:1], 40 * DAY, forgets=True)
    held = published.histories[0].held
    assert held.shape == (2, 2, 4)
    assert held.sum(axis=(1, 2)).tolist() == [719, 240]
    assert published.histories[0].points_by_month().tolist()[0] == 1
    assert published.right.tolist() == [719 / 720, 1.0]
    assert published.unpublished.tolist() == [0.0, 0.0]


def _among() -> Protection:
    cells = cells_from_points(CITY, TOWN, CellPlan(hide_among=100))
    return Protection(region=TOWN, among=HideAmong(100, cells=cells, region=TOWN))


_LEFT_OUT = {
    "at once": AT_ONCE,
    "people": None,
    "few places": replace(PERMANENT, new_places=2),
    "three epochs": replace(PERMANENT, dwell_epochs=3),
    "permanent": PERMANENT,
    "at home": PERMANENT,
    "forgets": PERMANENT,
    "now and then": PERMANENT,
}


@pytest.mark.parametrize(
    "name", ["at once", "at home", *for_evidence(*(name for name in _LEFT_OUT if name not in ("at once", "at home")))]
)
def test_reports_that_change_nothing_are_left_out(name: str) -> None:
    """The same points at the same times as in a service with a store that gets every report, and far fewer reports."""
    protection = _LEFT_OUT[name] or _among()
    # Cells of people are searched for one report at a time.
    journeys = commuters(4, protection, (8 if name == "people" else 35) * DAY)
    if name == "at home":
        journeys = stay_put(CITY_M[:4], starts_s=first_moment(protection), lasts=65 * DAY)
    keys, reports, sent = new_keys(), 0.4 if name == "now and then" else 1.0, {True: 0, False: 0}

    def publish(*, leave_out: bool) -> PublishedJourneys:
        def count(number: int) -> None:
            sent[leave_out] += number

        return publish_journeys(
            protection, journeys, gps=BAD_GPS, keys=keys, forgets=name == "forgets", reports=reports, rng=3,
            leave_out_repeats=leave_out, progress=count,
        )  # fmt: skip

    few, every = publish(leave_out=True), publish(leave_out=False)
    for one, other in zip(few.histories, every.histories, strict=True):
        assert np.array_equal(one.points_m, other.points_m)
        assert np.array_equal(one.held, other.held)
    assert (few.right == every.right).all()
    assert sent[True] < 0.8 * sent[False]


def test_a_budget_of_places_leaves_people_where_they_were() -> None:
    """With 2 places a window most of a commuter's are not published, and what is shown is wrong more often."""
    journeys = commuters(20, PERMANENT, MONTH)
    few, many = (
        publish_journeys(replace(PERMANENT, new_places=places), journeys, gps=GOOD_GPS, rng=1) for places in (2, 50)
    )
    assert max(numbers_of_points(few)) <= 2
    assert few.unpublished[0] > 0.5
    assert many.unpublished[0] < 0.2
    assert few.right[0] < many.right[0] - 0.02
    # 0.80 to 0.83 in eight runs: keys are drawn anew.
    assert many.right[0] > 0.75


def test_what_cannot_be_simulated() -> None:
    with pytest.raises(UsageError, match="at least one person"):
        at_home(PERMANENT, CITY_M[:0], MONTH)
    with pytest.raises(UsageError, match="two epochs"):
        at_home(PERMANENT, CITY_M[:1], HOUR)
    with pytest.raises(UsageError, match="whole hours"):
        at_home(Protection(region=TOWN, schedule=Schedule(epoch=HOUR / 2, window=MONTH)), CITY_M[:1], DAY)
    journeys = stay_put(CITY_M[:1], starts_s=first_moment(PERMANENT), lasts=DAY)
    with pytest.raises(UsageError, match="share of epochs"):
        publish_journeys(PERMANENT, journeys, reports=0.0)
