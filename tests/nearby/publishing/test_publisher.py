"""The publisher: what a person who stays, wanders, returns and spends everything gets published."""

import itertools
import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from nearveil.errors import DataError
from nearveil.nearby.publishing.keys import NoiseKey, SecretKeys, new_keys, place_tag, service_key
from nearveil.nearby.publishing.protection import Policy, Protection, Schedule, grid_for
from nearveil.nearby.publishing.publisher import BUDGET_SETTING, Publisher, Status
from nearveil.nearby.stores.base import STEP_M, NoisyLocation
from nearveil.nearby.stores.sqlite import SqliteStore
from nearveil.region import named_region
from nearveil.types import FloatArray

PARIS = named_region("paris")
SCHEDULE = Schedule(epoch=timedelta(hours=1), window=timedelta(hours=10))
HOME = (0.0, 0.0)
SIDE_M = grid_for(500.0).side_m


class World:
    """A service with one clock, a store in memory and people ann and bob."""

    def __init__(self, policy: Policy = Policy.PLACE, *, new_places: int = 3, keys: SecretKeys | None = None) -> None:
        self.now_s = 0.0
        self.store = SqliteStore.in_memory()
        self.store.add_people(["ann", "bob"])
        self.protection = Protection(region=PARIS, policy=policy, new_places=new_places, schedule=SCHEDULE)
        self.publisher = Publisher(self.protection, keys or new_keys(), self.store, clock=lambda: self.now_s)

    def report(self, person: str, place_m: tuple[float, float]) -> Status:
        latitude, longitude = PARIS.from_metres(np.array([place_m]))[0]
        return self.publisher.report(person, latitude, longitude).status

    def next_epoch(self) -> None:
        self.now_s += 3600.0
        assert self.publisher.publish_due()

    def published(self, person: str) -> NoisyLocation | None:
        with self.store.writing() as writing:
            return writing.held([person], self.window)[person].published

    def point(self, person: str) -> tuple[int, int] | None:
        draw = self.published(person)
        return None if draw is None else (draw.x_steps, draw.y_steps)

    @property
    def window(self) -> int:
        return SCHEDULE.window_of(self.publisher.epoch)

    def charged(self) -> int:
        return sum(self.store.totals().charged_by_window.values())


@pytest.fixture
def world() -> World:
    return World()


def test_nothing_is_published_before_the_border(world: World) -> None:
    assert world.report("ann", HOME) is Status.PENDING
    assert world.published("ann") is None
    assert not world.publisher.publish_due() or world.published("ann") is None
    world.next_epoch()
    assert world.published("ann") is not None
    assert world.published("bob") is None


def test_the_answer_says_when(world: World) -> None:
    world.now_s = 5000.0
    answer = world.publisher.report("ann", *PARIS.from_metres(np.array([HOME]))[0])
    assert answer.publishes_at == 7200.0
    assert len(answer.receipt) == 24


def test_staying_and_coming_back_publish_the_same_point_and_cost_once(world: World) -> None:
    points = []
    for place in [HOME, HOME, (20.0, -30.0), (900.0, 900.0), HOME, (900.0, 900.0)]:
        world.report("ann", place)
        world.next_epoch()
        points.append(world.point("ann"))
    assert points[0] == points[1] == points[2] == points[4]
    assert points[3] == points[5] != points[0]
    assert world.charged() == 2


def test_noise_is_large_and_differs_between_people_keys_and_windows() -> None:
    points = set()
    for person in ("ann", "bob"):
        for _ in range(2):
            world = World()
            for _ in range(2):
                world.report(person, HOME)
                world.next_epoch()
                points.add(world.point(person))
                world.now_s += 36_000.0
    # Two people, two keys, two windows each.
    assert len(points) == 8


def test_a_new_window_is_a_new_draw_and_a_new_charge(world: World) -> None:
    world.report("ann", HOME)
    world.next_epoch()
    first = world.point("ann")
    world.now_s += 36_000.0
    assert world.report("ann", HOME) is Status.PENDING
    world.next_epoch()
    assert world.point("ann") != first
    assert world.store.totals().charged_by_window == {0: 1, 1: 1}


def test_a_later_report_replaces_the_pending_draw_which_costs_nothing(world: World) -> None:
    for distance_m in (0.0, 500.0, 1000.0, 1500.0, 2000.0):
        assert world.report("ann", (distance_m, 0.0)) is Status.PENDING
    assert world.charged() == 0
    world.next_epoch()
    assert world.charged() == 1
    assert world.report("ann", (2000.0, 0.0)) is Status.SAME_PLACE


def test_somebody_at_a_border_does_not_flicker(world: World) -> None:
    points = set()
    for turn in range(8):
        # To and fro across the border between two cells, and across a corner.
        step = 20.0 if turn % 2 else -20.0
        world.report("ann", (SIDE_M / 2 + step, SIDE_M / 2 - step))
        world.next_epoch()
        points.add(world.point("ann"))
    assert len(points) == 1
    assert world.charged() == 1


def test_the_error_of_a_phone_does_not_go_to_and_fro(world: World, rng: np.random.Generator) -> None:
    people = [f"person-{number}" for number in range(40)]
    world.store.add_people(people)
    homes = rng.uniform(-5000.0, 5000.0, (len(people), 2))
    seen: dict[str, list[tuple[int, int] | None]] = {person: [] for person in people}
    for _ in range(8):
        for person, home in zip(people, homes, strict=True):
            world.report(person, tuple(home + rng.normal(0.0, 20.0, 2)))
        world.next_epoch()
        for person in people:
            seen[person].append(world.point(person))
    # A point that was left does not come back, and most people have one.
    for points in seen.values():
        changes = sum(first != second for first, second in itertools.pairwise(points))
        assert changes == len(set(points)) - 1
    assert world.charged() <= 1.1 * len(people)


def test_flicker_within_an_epoch_changes_nothing_either(world: World) -> None:
    latitude, longitude = PARIS.from_metres(np.array([(SIDE_M / 2 - 5.0, 0.0)]))[0]
    first = world.publisher.report("ann", latitude, longitude)
    assert world.report("ann", (SIDE_M / 2 + 5.0, 0.0)) is Status.PENDING
    world.next_epoch()
    draw = world.published("ann")
    assert draw is not None and draw.receipt == first.receipt


def test_a_known_place_within_reach_is_taken_before_a_new_one(world: World) -> None:
    for place in [HOME, (1000.0, 0.0)]:
        world.report("ann", place)
        world.next_epoch()
    # Just beyond the border of home's cell, and within its margin.
    world.report("ann", (SIDE_M / 2 + 10.0, 0.0))
    world.next_epoch()
    assert world.charged() == 2


def test_a_spent_budget_leaves_the_last_published_place(world: World) -> None:
    for number in range(3):
        world.report("ann", (1000.0 * number, 0.0))
        world.next_epoch()
    last = world.point("ann")
    assert world.report("ann", (5000.0, 0.0)) is Status.BUDGET_SPENT
    world.next_epoch()
    assert world.point("ann") == last
    assert world.charged() == 3
    # Places paid for are still free, bob has a budget of his own, and the next window brings a new one.
    assert world.report("ann", (0.0, 0.0)) is Status.PENDING
    assert world.report("bob", (5000.0, 0.0)) is Status.PENDING
    world.now_s += 36_000.0
    assert world.report("ann", (5000.0, 0.0)) is Status.PENDING


def test_a_spent_budget_also_keeps_back_what_waited(world: World) -> None:
    for number in range(3):
        world.report("ann", (1000.0 * number, 0.0))
        world.next_epoch()
    last = world.point("ann")
    assert world.report("ann", (0.0, 0.0)) is Status.PENDING
    assert world.report("ann", (5000.0, 0.0)) is Status.BUDGET_SPENT
    world.next_epoch()
    assert world.point("ann") == last


def test_back_at_the_published_place_nothing_waits(world: World) -> None:
    world.report("ann", HOME)
    world.next_epoch()
    home = world.point("ann")
    assert world.report("ann", (2000.0, 0.0)) is Status.PENDING
    assert world.report("ann", HOME) is Status.SAME_PLACE
    world.next_epoch()
    assert world.point("ann") == home
    assert world.charged() == 1


def test_reports_in_one_batch_the_last_counts(world: World) -> None:
    degrees = PARIS.from_metres(np.array([HOME, (3000.0, 0.0)]))
    reports = [world.publisher.accept("ann", *place) for place in degrees]
    answers = world.publisher.receive([*reports, world.publisher.accept("nobody", *degrees[0])])
    assert [answer.status for answer in answers] == [Status.PENDING, Status.PENDING, Status.UNKNOWN_PERSON]
    assert answers[0] == answers[1]
    world.next_epoch()
    assert world.report("ann", (3000.0, 0.0)) is Status.SAME_PLACE


def test_fresh_noise_differs_at_every_border_and_is_charged_each_time() -> None:
    world = World(Policy.FRESH)
    points = set()
    for _ in range(3):
        world.report("ann", HOME)
        world.next_epoch()
        points.add(world.point("ann"))
    assert len(points) == 3
    assert world.charged() == 3


def test_off_publishes_at_once_and_truly() -> None:
    world = World(Policy.OFF)
    assert world.report("ann", (120.0, -340.0)) is Status.PUBLISHED
    point = world.point("ann")
    assert point is not None
    assert np.allclose(np.array(point) * STEP_M, (120.0, -340.0), atol=STEP_M)


def test_what_is_overdue_is_published_after_a_stop(world: World) -> None:
    world.report("ann", HOME)
    world.now_s += 5 * 3600.0
    assert world.publisher.publish_due()
    assert world.published("ann") is not None
    assert not world.publisher.publish_due()


def test_the_hook_for_tests_goes_on_by_one_epoch(world: World) -> None:
    before = world.publisher.epoch
    world.report("ann", HOME)
    assert world.publisher.advance() == before + 1
    assert world.published("ann") is not None
    assert world.publisher.starts_at(before + 2) == 3600.0


def test_draws_stay_in_the_region(world: World) -> None:
    half = np.array(PARIS.half_extent_m)
    # From a corner three draws of four would leave; each window brings another.
    for _ in range(10):
        world.publisher.report("ann", PARIS.north, PARIS.east)
        world.next_epoch()
        point = world.point("ann")
        assert point is not None
        assert (np.abs(np.array(point)) * STEP_M <= half + STEP_M).all()
        world.now_s += 36_000.0


@pytest.mark.parametrize("place", [(10.0, 10.0), (float("nan"), 2.3), (float("inf"), 2.3), (48.8, 200.0)])
def test_a_place_outside_is_refused_without_saying_where(world: World, place: tuple[float, float]) -> None:
    with pytest.raises(DataError, match="outside the service's region") as caught:
        world.publisher.report("ann", *place)
    assert str(place[0]) not in str(caught.value).replace(str(PARIS), "")


def test_a_report_does_not_print_where(world: World) -> None:
    report = world.publisher.accept("ann", *PARIS.from_metres(np.array([(123.0, 456.0)]))[0])
    assert "123" not in repr(report)
    assert "456" not in repr(report)


def test_a_budget_is_not_raised_in_the_middle_of_a_window() -> None:
    world = World(new_places=1)
    assert world.report("ann", HOME) is Status.PENDING
    world.next_epoch()
    raised = Protection(region=PARIS, new_places=3, schedule=SCHEDULE)
    world.publisher = Publisher(raised, world.publisher._keys, world.store, clock=lambda: world.now_s)
    assert world.report("ann", (900.0, 900.0)) is Status.BUDGET_SPENT
    assert world.publisher.most_charges(0) == 1
    for _ in range(9):
        world.next_epoch()
    # The border that publishes this belongs to the next window.
    assert world.report("ann", (900.0, 900.0)) is Status.PENDING
    assert world.report("ann", HOME) is Status.PENDING
    assert world.publisher.most_charges(1) == 3


def test_everybody_on_a_store_has_the_budget_that_the_window_began_with() -> None:
    world = World(new_places=3)
    assert world.publisher.most_charges(0) == 3
    lowered = Publisher(Protection(region=PARIS, new_places=1, schedule=SCHEDULE), new_keys(), world.store)
    assert (lowered.most_charges(0), lowered.most_charges(1)) == (3, 1)
    assert world.publisher.most_charges(1) == 1


def test_what_is_promised_is_the_budget_of_the_window() -> None:
    world = World(new_places=3)
    assert world.report("ann", HOME) is Status.PENDING
    raised = Protection(region=PARIS, new_places=7, schedule=SCHEDULE)
    publisher = Publisher(raised, new_keys(), world.store, clock=lambda: world.now_s)
    assert publisher.promised.new_places == 3
    world.now_s = 10 * 3600.0
    assert publisher.promised.new_places == 7


def test_the_window_that_is_drawn_for_is_checked_before() -> None:
    world = World()
    asked: list[int] = []
    publisher = Publisher(
        world.protection, new_keys(), world.store, clock=lambda: world.now_s, check_window=asked.append
    )
    world.now_s = 9.5 * 3600.0
    publisher.report("ann", *PARIS.from_metres(np.array([HOME]))[0])
    assert asked == [1]


SHARED = SecretKeys(noise=(NoiseKey(0, bytes(range(32))),), tokens=bytes(32))
PEOPLE = [f"person-{number}" for number in range(300)]


def noise_at_the_centre(protection: Protection) -> FloatArray:
    """Everybody's displacement, as multiples of the distance to hide within; all in the cell of column 0 and row 0."""
    store = SqliteStore.in_memory()
    store.add_people(PEOPLE)
    publisher = Publisher(protection, SHARED, store, clock=lambda: 0.0)
    latitude, longitude = protection.region.centre
    publisher.receive([publisher.accept(person, latitude, longitude) for person in PEOPLE])
    with store.writing() as writing:
        held = writing.held(PEOPLE, 0)
    drawn = [held[person].pending for person in PEOPLE]
    return (
        np.array([(one.x_steps, one.y_steps) for one in drawn if one is not None])
        * STEP_M
        / (protection.hide_within_m or math.nan)
    )


@pytest.mark.statistical
@pytest.mark.parametrize(
    "other",
    [
        {"region": named_region("london")},
        {"region": replace(PARIS, north=PARIS.north + 0.01)},
        {"hide_within_m": 600.0},
        {"schedule": Schedule(epoch=timedelta(minutes=30), window=timedelta(hours=10))},
        {"schedule": Schedule(epoch=timedelta(hours=1), window=timedelta(hours=5))},
    ],
    ids=["region", "edge of the region", "hide within", "epoch", "window"],
)
def test_one_key_on_two_services_draws_nothing_twice(other: dict[str, Any]) -> None:
    """Angles between the noise of both are uniform: their mean direction exceeds 0.25 by chance in 7e-9 of cases."""
    first = Protection(region=PARIS, schedule=SCHEDULE)
    one, two = (np.dot(noise_at_the_centre(each), [1, 1j]) for each in (first, replace(first, **other)))
    turned = one / two
    assert abs((turned / abs(turned)).mean()) < 0.25
    assert abs(np.corrcoef(abs(one), abs(two))[0, 1]) < 0.35  # exceeded by chance in 1e-9 of cases


def test_a_window_that_began_with_a_shared_key_ends_with_it() -> None:
    """A store from before services had keys of their own: nobody's noise is drawn a second time."""
    world = World(keys=SHARED)
    world.store.settle(f"{BUDGET_SETTING} 0", "3")
    before = place_tag(SHARED.noise_key(0), "ann", (0, 0), 0, SIDE_M)
    assert world.report("ann", HOME) is Status.PENDING
    world.next_epoch()
    assert (draw := world.published("ann")) is not None
    assert draw.tag == before
    # Another process, and another start, agree.
    again = Publisher(world.protection, SHARED, world.store, clock=lambda: world.now_s)
    assert again.report("ann", *PARIS.from_metres(np.array([HOME]))[0]).status is Status.SAME_PLACE
    world.now_s = 36_000.0
    assert world.report("ann", HOME) is Status.PENDING
    world.next_epoch()
    own = service_key(SHARED.noise_key(1), world.protection)
    assert (draw := world.published("ann")) is not None
    assert draw.tag == place_tag(own, "ann", (0, 0), 1, SIDE_M)
