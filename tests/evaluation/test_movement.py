"""How people move and how phones err: shares, runs and rhythms are those that were asked for."""

from datetime import timedelta

import numpy as np
import pytest

from nearveil.errors import UsageError
from nearveil.evaluation.movement import (
    BAD_GPS,
    GOOD_GPS,
    HOME,
    HOUR_KINDS,
    KINDS,
    MONTH,
    WORK,
    Commuter,
    GpsError,
    Journeys,
    commute,
    fixes,
    hour_kinds,
    stay_put,
)

MONDAY_S = 4 * 86_400.0  # 1970-01-05
RNG = np.random.default_rng


def commuters(people: int, *, months: int = 6, commuter: Commuter | None = None) -> Journeys:
    city = RNG(1).uniform(-5000, 5000, (1000, 2))
    homes, works = city[:people], city[people : 2 * people]
    return commute(
        homes, works, city, commuter or Commuter(), starts_s=MONDAY_S, lasts=months * MONTH, rng=RNG(2)
    )  # fmt: skip


@pytest.mark.statistical
def test_every_twentieth_fix_is_150_m_off() -> None:
    """Of 100,000 fixes 5 %, in spells of 1.4 on average: the standard error is 0.09 %, six of them 0.55 %.

    False-alarm rate below 1e-6. A good fix is farther than 80 m away with probability 1e-14.
    """
    away = np.hypot(*fixes(np.zeros((100_000, 2)), BAD_GPS, RNG(3)).T)
    bad = away > 80.0
    assert abs(bad.mean() - 0.05) < 0.0055
    assert abs(away[bad].mean() - 150.0) < 3.0
    assert abs(np.sqrt((away[~bad] ** 2).mean() / 2) - 10.0) < 0.2
    starts = np.flatnonzero(np.diff(np.append(0, bad.astype(int))) == 1)
    assert abs(bad.sum() / len(starts) - BAD_GPS.mean_spell / 0.965) < 0.06


def test_a_bad_spell_keeps_its_direction() -> None:
    error = GpsError(sigma_m=0.0, bad_share=0.2, run_share=1.0, longest_run=3)
    found = fixes(np.zeros((2000, 2)), error, RNG(4)).round(6)
    spells = [len(list(one)) for one in _runs(found.tolist()) if one[0] != [0.0, 0.0]]
    assert set(spells[1:-1]) == {2, 3}


def _runs(rows: list[list[float]]) -> list[list[list[float]]]:
    found = [[rows[0]]]
    for row in rows[1:]:
        if row == found[-1][-1]:
            found[-1].append(row)
        else:
            found.append([row])
    return found


def test_without_bad_fixes_all_are_near() -> None:
    assert np.hypot(*fixes(np.zeros((1000, 2)), GOOD_GPS, RNG(5)).T).max() < 80.0
    even = fixes(np.zeros((1000, 2)), GpsError(sigma_m=0.0, radius_m=20.0), RNG(5))
    assert 19.0 < np.hypot(*even.T).max() <= 20.0


def test_kinds_of_hours() -> None:
    kinds = [HOUR_KINDS[kind] for kind in hour_kinds(MONDAY_S, 7 * 24)]
    assert (kinds[3], kinds[10], kinds[19], kinds[23]) == ("night", "working hours", "evening", "night")
    assert (kinds[5 * 24 + 10], kinds[5 * 24 + 3], kinds[6 * 24 + 20]) == ("weekend", "night", "weekend")


def test_who_stays_put_is_at_home() -> None:
    homes = np.array([[1.0, 2.0], [3.0, 4.0]])
    journeys = stay_put(homes, starts_s=0.0, lasts=timedelta(days=2))
    assert (journeys.where == HOME).all()
    assert journeys.where.shape == (2, 48)
    assert journeys.works_m is None


def test_commuters_sleep_at_home_and_work_on_working_days() -> None:
    journeys = commuters(50)
    shares = dict(zip(HOUR_KINDS, journeys.time_by_kind().T.tolist(), strict=True))
    assert shares["night"][KINDS.index("home")] > 0.97
    assert 0.6 < shares["working hours"][KINDS.index("work")] < 0.9
    assert shares["weekend"][KINDS.index("work")] == 0.0
    assert shares["weekend"][KINDS.index("elsewhere")] > 0.1


@pytest.mark.statistical
def test_rare_places_are_visited_once() -> None:
    """4 a month over 6 months for 50 people: 1,200 of them, with a standard error of 35; six are 208.

    Some fall on working hours or on one another. False-alarm rate below 1e-6.
    """
    journeys = commuters(50)
    first_rare = WORK + 1 + Commuter().others
    visited = sum(len(set(row[row >= first_rare].tolist())) for row in journeys.where)
    assert 800 < visited < 1400
    once = np.flatnonzero(journeys.where[0] == first_rare)
    assert (np.diff(once) == 1).all()
    assert commuters(20, commuter=Commuter(rare_per_month=0.0)).where.max() < first_rare


@pytest.mark.parametrize(
    "wrong",
    [{"sigma_m": -1.0}, {"bad_share": 1.0}, {"run_share": 2.0}, {"longest_run": 1}, {"bad_m": float("inf")}],
)
def test_phones_that_cannot_be(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        GpsError(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"others": 0}, {"at_work": 1.5}, {"rare_per_month": -1.0}])
def test_commuters_that_cannot_be(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="commuter"):
        Commuter(**wrong)  # type: ignore[arg-type]
