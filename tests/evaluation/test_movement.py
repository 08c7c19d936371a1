"""How users move and how phones err: shares, runs and rhythms are those that were asked for."""

import numpy as np
import pytest

from nearveil.evaluation import movement
from nearveil.evaluation.movement import ELSEWHERE, HOME, HOUR_KINDS, MONTH, WORK, Journeys

RNG = np.random.default_rng


@pytest.fixture(scope="module")
def commuters() -> Journeys:
    city = RNG(1).uniform(-5000, 5000, (1000, 2))
    return movement.commute(city[:50], city[50:100], city, 6 * MONTH, RNG(2))


@pytest.mark.statistical
def test_every_twentieth_fix_is_150_m_off() -> None:
    """Of 100,000 fixes 5 %, in spells of 1.4 on average: the standard error is 0.09 %, six of them 0.55 %.

    False-alarm rate below 1e-6. A good fix is farther than 80 m away with probability 1e-14. Shares of 3.5 or 6.5 %,
    and distances of 105 or 195 m, fail.
    """
    found = movement.fixes(np.zeros((100_000, 2)), movement.BAD_GPS, RNG(3))
    away = np.hypot(*found.T)
    bad = away > 80.0
    assert abs(bad.mean() - 0.05) < 0.0055
    assert abs(away[bad].mean() - 150.0) < 3.0
    assert abs(np.sqrt((away[~bad] ** 2).mean() / 2) - 10.0) < 0.2
    starts = np.flatnonzero(np.diff(np.append(0, bad.astype(int))) == 1)
    # Two spells may follow one another without a good fix in between.
    assert abs(bad.sum() / len(starts) - movement.MEAN_SPELL / 0.965) < 0.06
    # Fixes of a spell have one direction: of two bad ones in a row, most are nearer to each other than their noise.
    follows = np.flatnonzero(bad[1:] & bad[:-1])
    assert np.median(np.hypot(*(found[follows + 1] - found[follows]).T)) < 20.0


def test_commuters_sleep_at_home_and_work_on_working_days(commuters: Journeys) -> None:
    shares = dict(zip(HOUR_KINDS, commuters.time_by_kind().T.tolist(), strict=True))
    assert shares["night"][HOME] > 0.97
    assert 0.6 < shares["working hours"][WORK] < 0.9
    assert shares["weekend"][WORK] == 0.0
    assert shares["weekend"][ELSEWHERE] > 0.1
    assert all(sum(share) == pytest.approx(1.0) for share in shares.values())


@pytest.mark.statistical
def test_rare_places_are_visited_once(commuters: Journeys) -> None:
    """4 a month over 6 months for 50 users: 1,200 of them, with a standard error of 35; six are 208.

    Some fall on working hours or on one another. False-alarm rate below 1e-6; 0.5 or 1.5 times as many fail.
    """
    first_rare = ELSEWHERE + movement.REGULAR_PLACES
    visited = sum(len(set(row[row >= first_rare].tolist())) for row in commuters.where)
    assert 800 < visited < 1400
    once = np.flatnonzero(commuters.where[0] == first_rare)
    assert (np.diff(once) == 1).all()
