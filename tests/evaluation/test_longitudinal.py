"""Somebody who stays put for a month: noise per place hides them, fresh noise does not."""

from datetime import timedelta

import numpy as np
import pytest

from nearveil.errors import UsageError
from nearveil.evaluation.longitudinal import (
    StayingPut,
    Wobble,
    attack_who_stays_put,
    fresh_noise,
    noise_per_place,
    publish_who_stays_put,
)
from nearveil.io.synthetic import synthetic_city
from nearveil.nearby.publishing.protection import grid_for
from nearveil.region import Region
from nearveil.types import FloatArray

TOWN = Region(37.70, -122.52, 37.82, -122.36)
CITY = synthetic_city(3000, TOWN, rng=5)
HOMES, POPULATION = CITY[:150], CITY[150:]
DAY = timedelta(days=1)


@pytest.mark.statistical
def test_a_month_at_home_is_one_point() -> None:
    """One point with noise of 500 m is within 100 m in 6.2 %, and a good prior makes it 8 % at the most.

    Of 150 more than 24 then have a probability of 4e-4, the false-alarm rate. As long as somebody stays in a cell every
    epoch publishes the same, so a few people are enough to show it for a whole month, and a few epochs for the share.
    """
    month = publish_who_stays_put(noise_per_place(TOWN), HOMES[:4])
    assert [len(points) for points in month] == [1] * 4
    found = attack_who_stays_put(noise_per_place(TOWN), HOMES[:150], POPULATION, lasts=timedelta(hours=2))
    assert found.points == (1,) * 150
    assert found.found <= 24


@pytest.mark.statistical
def test_the_noise_is_as_wide_as_promised() -> None:
    """Mean distance of 2,000 points from home, 505 m with the way to the cell's centre; five standard errors are 40 m.

    False-alarm rate 1e-6; noise 30 % narrower or wider is far outside.
    """
    homes = TOWN.from_metres(np.random.default_rng(2).uniform(-3000, 3000, (2000, 2)))
    points = publish_who_stays_put(noise_per_place(TOWN), homes, lasts=timedelta(hours=1))
    distances = np.hypot(*(np.vstack(points) - TOWN.to_metres(homes)).T)
    assert abs(distances.mean() - 505.0) < 40.0


@pytest.mark.statistical
def test_fresh_noise_averages_out() -> None:
    """A month of hourly draws: the error of the likeliest place is about 13 m on each axis, so all are found.

    Of 4 people fewer than all with probability below 1e-6.
    """
    found = attack_who_stays_put(fresh_noise(TOWN), HOMES[:4], POPULATION)
    assert (found.epochs, min(found.points)) == (720, 720)
    assert found.share_found == 1.0


def _at_borders(protection_side_m: float, count: int) -> FloatArray:
    """Homes right on the border of two cells, and at the corner of four."""
    cells = np.arange(count) - count // 2
    edge = np.column_stack([(cells + 0.5) * protection_side_m, np.zeros(count)])
    corner = np.column_stack([(cells + 0.5) * protection_side_m, np.full(count, 0.5 * protection_side_m)])
    return TOWN.from_metres(np.vstack([edge, corner]))


def test_a_home_on_a_border_is_one_point_all_the_same() -> None:
    """Reports up to 20 m off on either side of the border: whichever cell comes first stays."""
    protection = noise_per_place(TOWN)
    homes = _at_borders(grid_for(500.0).side_m, 6)
    points = publish_who_stays_put(protection, homes, lasts=10 * DAY, wobble=Wobble(radius_m=20.0))
    assert [len(one) for one in points] == [1] * 12


def test_reports_far_off_the_mark_count_as_other_places() -> None:
    """The same homes without a bound on the error: the simulation does see more than one point."""
    protection = noise_per_place(TOWN)
    homes = _at_borders(grid_for(500.0).side_m, 2)
    points = publish_who_stays_put(protection, homes, lasts=2 * DAY, wobble=Wobble(sigma_m=60.0))
    assert max(len(one) for one in points) > 1


def test_a_new_window_is_a_new_point() -> None:
    protection = noise_per_place(TOWN)
    begins = protection.schedule.window - timedelta(hours=2)
    points = publish_who_stays_put(protection, HOMES[:5], lasts=timedelta(hours=2), begins=begins)
    assert [len(one) for one in points] == [1] * 5
    points = publish_who_stays_put(protection, HOMES[:5], lasts=timedelta(hours=3), begins=begins)
    assert [len(one) for one in points] == [2] * 5


def test_what_is_found_is_counted_by_the_stronger_guess() -> None:
    found = StayingPut(10, 100.0, 720, (1,) * 10, found_without_prior=2, found_with_prior=3)
    assert (found.found, found.share_found) == (3, 0.3)
    assert "30.0% of 10 people" in str(found)


def test_nobody_stays() -> None:
    with pytest.raises(UsageError, match="at least one person"):
        attack_who_stays_put(noise_per_place(TOWN), HOMES[:0], POPULATION)
    with pytest.raises(UsageError, match="at least one epoch"):
        attack_who_stays_put(noise_per_place(TOWN), HOMES, POPULATION, lasts=timedelta(minutes=3))
