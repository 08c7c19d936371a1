"""What a service publishes of users who move: points, for how long, and how right they are."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from nearveil.errors import UsageError
from nearveil.evaluation import published_history
from nearveil.evaluation.movement import BAD_GPS, GOOD_GPS, HOUR, MONTH, Journeys, commute, stay_put
from nearveil.evaluation.published_history import History, publish_journeys
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.nearby.publishing.protection import Protection, Schedule, grid_for
from nearveil.nearby.publishing.publisher import Publisher, Report
from nearveil.region import Region
from tests.evidence import for_evidence

TOWN = Region(37.70, -122.52, 37.82, -122.36)
CITY = synthetic_city(3000, TOWN, rng=5)
CITY_M = TOWN.to_metres(CITY)
DAY = timedelta(days=1)
USUAL = Protection(region=TOWN, noise_m=500.0)
AT_ONCE = replace(USUAL, dwell_epochs=1)


def publish(protection: Protection, journeys: Journeys, gps: float = GOOD_GPS, **options: bool) -> list[History]:
    return publish_journeys(protection, journeys, gps=gps, rng=np.random.default_rng(3), **options)


def numbers_of_points(histories: list[History]) -> list[int]:
    return [len(history.points_m) for history in histories]


def commuters(users: int, lasts: timedelta) -> Journeys:
    return commute(CITY_M[:users], CITY_M[users : 2 * users], CITY_M, lasts, np.random.default_rng(8))


@pytest.mark.statistical
def test_the_noise_is_as_wide_as_promised() -> None:
    """Mean distance of 800 points from home, 505 m with the way to the cell's center; five standard errors are 63 m.

    False-alarm rate 1e-6; noise 0.7 or 1.3 times as wide fails.
    """
    homes_m = np.random.default_rng(2).uniform(-3000, 3000, (800, 2))

    def mean_m(noise_m: float) -> float:
        histories = publish(replace(USUAL, noise_m=noise_m), stay_put(homes_m, 2 * HOUR))
        return float(np.hypot(*(np.vstack([history.points_m for history in histories]) - homes_m).T).mean())

    assert abs(mean_m(500.0) - 505.0) < 63.0
    assert abs(mean_m(350.0) - 505.0) > 63.0
    assert abs(mean_m(650.0) - 505.0) > 63.0


def test_a_home_on_a_border_is_one_point_all_the_same() -> None:
    """Reports are about 10 m off on either side of borders and corners: the cell that comes first stays."""
    border_m = (np.arange(12) - 5.5) * grid_for(500.0).side_m
    for other_m in (np.zeros(12), border_m):
        assert numbers_of_points(publish(USUAL, stay_put(np.column_stack([border_m, other_m]), 10 * DAY))) == [1] * 12


def test_noise_that_is_drawn_again_is_a_new_point() -> None:
    at_home = stay_put(CITY_M[:5], MONTH + 2 * HOUR)
    assert numbers_of_points(publish(USUAL, stay_put(CITY_M[:5], MONTH), forgets=True)) == [1] * 5
    assert numbers_of_points(publish(USUAL, at_home, forgets=True)) == [2] * 5
    assert numbers_of_points(publish(USUAL, at_home)) == [1] * 5
    assert numbers_of_points(publish(USUAL, stay_put(CITY_M[:20], 6 * MONTH))) == [1] * 20


def test_bad_fixes_publish_more_points_where_a_place_counts_at_once() -> None:
    """Two a month, of which many are replaced by the first one; fewer after two epochs, where only runs count."""
    at_home = stay_put(CITY_M[:30], MONTH)
    cases = (AT_ONCE, GOOD_GPS), (AT_ONCE, BAD_GPS), (USUAL, BAD_GPS)
    good, bad, dwell = (sum(numbers_of_points(publish(protection, at_home, gps))) for protection, gps in cases)
    assert good == 30
    assert bad > 45
    assert good <= dwell < bad


def _among() -> Protection:
    return Protection(region=TOWN, among=HideAmong(100, cells=cells_from_points(CITY, TOWN, CellPlan(hide_among=100))))


_CASES = {
    "at home": USUAL, "at once": AT_ONCE, "few places": replace(USUAL, new_places=2), "forgets": AT_ONCE,
    "three epochs": replace(USUAL, dwell_epochs=3), "usual": USUAL, "among users": None,
}  # fmt: skip


@pytest.mark.parametrize("name", [*list(_CASES)[:3], *for_evidence(*list(_CASES)[3:])])
def test_reports_that_are_left_out_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same points at the same times as with all reports; most are left out at home."""
    sent: list[int] = []
    receive = Publisher.receive

    def counting(self: Publisher, reports: list[Report]) -> object:
        sent.append(len(reports))
        return receive(self, reports)

    monkeypatch.setattr(Publisher, "receive", counting)
    protection, journeys = _CASES[name] or _among(), commuters(3, (8 if name == "among users" else 32) * DAY)
    if name == "at home":
        journeys = stay_put(CITY_M[:4], 40 * DAY)
    forgets = name == "forgets"
    few = publish(protection, journeys, BAD_GPS, forgets=forgets)
    few_sent = sum(sent)
    monkeypatch.setattr(published_history._Service, "_next_to_send", lambda service, *_: service._epoch)
    for one, other in zip(few, publish(protection, journeys, BAD_GPS, forgets=forgets), strict=True):
        assert np.array_equal(one.points_m, other.points_m)
        assert np.array_equal(one.shown, other.shown)
    assert few_sent < (0.4 if name == "at home" else 1.0) * journeys.where.size
    assert sum(sent) - few_sent == journeys.where.size


def test_a_budget_of_places_leaves_users_where_they_were() -> None:
    """With 2 places a window most places of users are not published, and what is shown is wrong more often."""
    few, many = (publish(replace(USUAL, new_places=places), commuters(10, MONTH)) for places in (2, 50))
    assert max(numbers_of_points(few)) <= 2
    right_few, right_many = (np.mean([history.right for history in each]) for each in (few, many))
    assert right_few < right_many - 0.02
    assert right_many > 0.75


def test_users_report_by_the_hour() -> None:
    half_hours = replace(USUAL, schedule=Schedule(epoch=HOUR / 2, window=MONTH))
    with pytest.raises(UsageError, match="epochs of one hour"):
        publish(half_hours, stay_put(CITY_M[:1], DAY))
