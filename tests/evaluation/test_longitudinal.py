"""The attacker who combines months: more with noise that is drawn again, bad fixes and pairs; nothing more without."""

import numpy as np
import pytest

from nearveil.evaluation.longitudinal import Knowledge, addresses, density, pairs, score_months
from nearveil.evaluation.movement import GOOD_GPS, MONTH, Journeys, commute, stay_put
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.nearby.publishing.protection import Protection
from nearveil.region import Region
from nearveil.types import FloatArray

TOWN = Region(37.70, -122.52, 37.82, -122.36)
CITY = synthetic_city(3000, TOWN, rng=5)
CITY_M = TOWN.to_metres(CITY)
WORKS_M = CITY_M[np.random.default_rng(6).permutation(len(CITY_M))]
USUAL = Protection(region=TOWN, noise_m=500.0)


def scores(
    protection: Protection, journeys: Journeys, months: tuple[int, ...], *known: Knowledge, forgets: bool = False
) -> list[dict[str, FloatArray]]:
    rng, rows = np.random.default_rng(1), np.arange(len(journeys.where))
    known = known or (addresses(CITY_M),)
    return score_months(protection, journeys, rows, known, months, gps=GOOD_GPS, rng=rng, forgets=forgets)


def at_home(users: int, months: int) -> Journeys:
    return stay_put(CITY_M[:users], months * MONTH)


@pytest.mark.evidence
@pytest.mark.statistical
def test_noise_that_is_drawn_again_gives_users_away() -> None:
    """12 points instead of one: about 55 % are found and not 15 %, of 200 users; addresses are worth more than density.

    Both are binomial: fewer than 80 of 200 at 0.55, and more than 56 at 0.15 have probabilities of 1e-5 and 1e-6.
    With addresses 55 % are found against 35 %: equal by chance with probability 1e-4.
    """
    known = addresses(CITY_M), density(CITY_M[200:], TOWN)
    by_address, by_density = scores(USUAL, at_home(200, 12), (1, 12), *known, forgets=True)
    first, last = by_address["found"].sum(axis=1)
    assert first <= 56
    assert last >= 80
    assert by_address["error_m"][1].mean() < 0.5 * by_address["error_m"][0].mean()
    assert by_address["named"][1].sum() > by_address["named"][0].sum()
    assert by_address["points"].mean() < 1.05
    assert last > by_density["found"][1].sum()
    assert by_density["error_m"][1].mean() < 250.0
    assert np.isnan(by_density["named"]).all()


@pytest.mark.statistical
def test_noise_that_is_kept_gives_nothing_more_away() -> None:
    """The same points after half a year as after a month, and so the same guesses, user by user; else, smaller errors.

    Errors of 40 users, 480 m with a standard deviation of 300 m, fall by about 350 m: seven standard errors.
    """
    (kept,), (again,) = (scores(USUAL, at_home(40, 6), (1, 6), forgets=forgets) for forgets in (False, True))
    for name in ("found", "named", "error_m"):
        assert (kept[name][0] == kept[name][1]).all()
    assert again["error_m"][1].mean() < 0.6 * again["error_m"][0].mean()


@pytest.mark.statistical
def test_pairs_of_home_and_work_name_users() -> None:
    """Which pair fits both: in a town of 3,000 more than half of commuters in a month, by addresses about 10 %.

    Of 40 users, fewer than 13 at 0.55 and more than 12 at 0.1 have probabilities of 2e-3 and 1e-4. They publish eight
    points a month, most of them kilometers from home. The mean error is about 450 m where the home is distinguished
    from other places, and over 2 km where it is not.
    """
    journeys = commute(CITY_M[:40], WORKS_M[:40], CITY_M, MONTH, np.random.default_rng(4))
    by_address, by_pair = scores(USUAL, journeys, (1,), addresses(CITY_M), pairs(CITY_M, WORKS_M))
    assert by_address["named"].sum() <= 12
    assert by_pair["named"].sum() >= 13
    assert by_address["points"].mean() > 6
    assert by_address["error_m"].mean() < 800.0


@pytest.mark.evidence
@pytest.mark.statistical
def test_hidden_among_users_too() -> None:
    """Three points among 100 users instead of one: the mean error falls. Paired, of 60 users."""
    among = Protection(region=TOWN, among=HideAmong(100, cells=cells_from_points(CITY, TOWN, CellPlan(hide_among=100))))
    (found,) = scores(among, at_home(60, 3), (1, 3), forgets=True)
    assert found["error_m"][1].mean() < 0.9 * found["error_m"][0].mean()
    (same,) = scores(among, at_home(20, 2), (1, 2))
    assert (same["error_m"][0] == same["error_m"][1]).all()
