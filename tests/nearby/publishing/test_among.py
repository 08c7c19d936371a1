"""Noise per place among people: a place is a cell, and what is published of it is a keyed draw of the step channel."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from nearveil.errors import DataError, UsageError
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.cell_steps import graph_of, steps_from
from nearveil.mechanisms.cells import Cells, cells_from_json
from nearveil.mechanisms.fit_cells import cells_from_points
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.mechanisms.step_channel import StepChannel
from nearveil.nearby.published_cells import cells_from_store
from nearveil.nearby.publishing.keys import SecretKeys
from nearveil.nearby.publishing.noise import _InSteps, _law_of
from nearveil.nearby.publishing.protection import LEAST_MARGIN_M, PlaceCells, Protection, Schedule
from nearveil.nearby.publishing.publisher import Publisher, with_settled_channel
from nearveil.nearby.stores.base import STEP_M
from nearveil.nearby.stores.sqlite import SqliteStore
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.region import Region, named_region
from nearveil.types import FloatArray

TOWN = Region(47.9, 11.0, 48.1, 11.3)
SCHEDULE = Schedule(epoch=timedelta(hours=1), window=timedelta(hours=10))
KEYS = SecretKeys(noise=bytes(range(32)), tokens=bytes(32))
PEOPLE = [f"person-{number}" for number in range(2_000)]


@pytest.fixture(scope="module")
def cells() -> Cells:
    return cells_from_points(synthetic_city(900, TOWN, rng=1), TOWN)


@pytest.fixture(scope="module")
def protection(cells: Cells) -> Protection:
    return Protection(region=TOWN, among=HideAmong(60, cells=cells), new_places=3, schedule=SCHEDULE)


@pytest.fixture(scope="module")
def grid(protection: Protection) -> PlaceCells:
    assert isinstance(protection.grid, PlaceCells)
    return protection.grid


def opened(protection: Protection, keys: SecretKeys = KEYS, now_s: float = 0.0) -> tuple[Publisher, SqliteStore]:
    store = SqliteStore.in_memory()
    store.add_people(PEOPLE)
    return Publisher(protection, keys, store, clock=lambda: now_s, always_chained=False), store


def drawn(publisher: Publisher, store: SqliteStore, place_m: FloatArray, people: list[str] = PEOPLE) -> FloatArray:
    """Let people report one place, or each their own, and return what waits for the next epoch, in metres."""
    places = TOWN.from_metres(np.broadcast_to(place_m, (len(people), 2)))
    publisher.receive([publisher.accept(one, *place) for one, place in zip(people, places, strict=True)])
    with store.writing() as writing:
        held = writing.held(people, 0)
    waiting = [held[person].pending for person in people]
    return np.array([(one.x_steps, one.y_steps) for one in waiting if one is not None], dtype=np.float64) * STEP_M


def centre_m(grid: PlaceCells, cell: int) -> FloatArray:
    return np.array(grid.centre_of((cell,)))


def usual_cell(cells: Cells) -> int:
    """A cell of middling size with people in it."""
    return int(np.argsort(cells.sides_m, kind="stable")[len(cells) // 2])


def test_everywhere_in_a_cell_the_same_point_is_published_and_in_another_cell_another(
    protection: Protection, grid: PlaceCells, rng: np.random.Generator
) -> None:
    cell = usual_cell(grid.cells)
    west, south, east, north = grid.cells.boxes()[cell] * TOWN.metres_per_unit
    inside = rng.uniform((west, south), (east, north), (len(PEOPLE[:50]), 2))
    here = drawn(*opened(protection), centre_m(grid, cell), PEOPLE[:50])
    np.testing.assert_array_equal(drawn(*opened(protection), inside, PEOPLE[:50]), here)
    beside = int(graph_of(grid.cells).neighbors[graph_of(grid.cells).starts[cell]])
    assert (drawn(*opened(protection), centre_m(grid, beside), PEOPLE[:50]) != here).all()


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "fits"), [(1.0, True), (1.3, False), (0.7, False)])
def test_points_follow_the_step_channel_and_are_uniform_in_their_cells(
    protection: Protection, grid: PlaceCells, factor: float, fits: bool
) -> None:
    """Steps from the true cell, in at most eight classes; the statistic exceeds 40 by chance in 1.2e-6 of cases."""
    cell, cells = usual_cell(grid.cells), grid.cells
    assert protection.among is not None
    channel: StepChannel = protection.among.channel
    points = drawn(*opened(protection), centre_m(grid, cell)) / TOWN.metres_per_unit
    found = cells.find(points)
    every = np.arange(len(cells))
    probability = np.exp(replace(channel, rate=channel.rate / factor).log_probability(np.full_like(every, cell), every))
    steps = steps_from(cells, cell)
    eighths = np.quantile(np.repeat(steps, np.rint(1e4 * probability).astype(int)), np.linspace(0, 1, 9)[1:-1])
    classes = np.searchsorted(np.unique(eighths), steps)
    expected = np.bincount(classes, probability) * len(points)
    seen = np.bincount(classes[found], minlength=len(expected))
    assert (((seen - expected) ** 2 / expected).sum() < 40) == fits
    # Within their cells: the mean of uniform numbers is off by 0.03 by chance in 1e-5 of cases.
    box = cells.boxes()[found]
    within = (points - box[:, :2]) / (box[:, 2:] - box[:, :2])
    assert np.abs(within.mean(axis=0) - 0.5).max() < 0.03


@pytest.mark.statistical
def test_other_cells_people_and_keys_draw_anew(protection: Protection, grid: PlaceCells) -> None:
    """The word that places a point in its cell says nothing of another: correlations over 0.12 have 8e-8 by chance."""
    cell = usual_cell(grid.cells)
    place = centre_m(grid, cell)
    assert protection.among is not None
    other = cells_from_json(replace(grid.cells, people=grid.cells.people + 1).to_json())
    others = [
        opened(replace(protection, among=HideAmong(60, cells=other))),
        opened(replace(protection, among=HideAmong(70, cells=grid.cells))),
        opened(protection, replace(KEYS, noise=bytes(32))),
    ]
    first = _within(drawn(*opened(protection), place), grid)
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 0.12
    for publisher, store in others:
        assert abs(np.corrcoef(first, _within(drawn(publisher, store, place), grid))[0, 1]) < 0.12


def _within(points_m: FloatArray, grid: PlaceCells) -> FloatArray:
    points = points_m / TOWN.metres_per_unit
    box = grid.cells.boxes()[grid.cells.find(points)]
    return (points[:, 0] - box[:, 0]) / (box[:, 2] - box[:, 0])


def test_staying_and_returning_repeat_a_point_and_cost_nothing(protection: Protection, grid: PlaceCells) -> None:
    now_s = 0.0
    store = SqliteStore.in_memory()
    store.add_people(["ann"])
    publisher = Publisher(protection, KEYS, store, clock=lambda: now_s, always_chained=False)
    far = np.argsort(steps_from(grid.cells, usual_cell(grid.cells)))[[0, -1]]
    points = []
    # One window: a first place counts at once, and the others after two epochs.
    for epochs, cell in (
        (1, far[0]),
        (1, far[0]),
        (2, far[1]),
        (1, far[0]),
        (1, far[0]),
        (2, far[0] // 2),
        (1, far[0]),
    ):
        for _ in range(epochs):
            publisher.report("ann", *TOWN.from_metres(centre_m(grid, int(cell))[None])[0])
            now_s += 3600.0
            publisher.publish_due()
        with store.writing() as writing:
            published = writing.held(["ann"], 0)["ann"].published
        assert published is not None
        points.append((published.x_steps, published.y_steps))
    assert points[0] == points[1] == points[4] != points[2] == points[3]
    assert points[-1] == points[-2]
    assert store.totals().charged_by_window == {0: 3}


def test_a_new_point_few_steps_from_an_earlier_one_is_replaced_by_it(protection: Protection, grid: PlaceCells) -> None:
    """All pairs of one person's points are farther apart than that; so many draws from one place have few points."""
    channel = _law_of(protection)
    assert isinstance(channel, _InSteps)
    points: list[tuple[int, int]] = []
    not_nearest = 0
    rng = np.random.default_rng(1)
    half_m = np.array(TOWN.half_extent_m)
    for x_m, y_m in rng.uniform(-half_m, half_m, (300, 2)):
        point = (round(x_m / STEP_M), round(y_m / STEP_M))
        found = channel.replaced(point, points)
        cells = grid.cells.find(np.array([point, *points]) * STEP_M / TOWN.metres_per_unit)
        steps = steps_from(grid.cells, int(cells[0]))[cells[1:]]
        if found == point:
            assert not points or steps.min() > channel.most_steps
            points.append(point)
        else:
            # The oldest of those that are near, whichever is the nearest.
            assert points.index(found) == np.flatnonzero(steps <= channel.most_steps)[0]
            not_nearest += bool(steps[points.index(found)] > steps.min())
    assert 1 < len(points) < 300
    assert not_nearest > 0


def test_somebody_at_a_border_does_not_flicker(protection: Protection, grid: PlaceCells) -> None:
    publisher, store = opened(protection)
    cell = usual_cell(grid.cells)
    _, south, east, north = grid.cells.boxes()[cell] * TOWN.metres_per_unit
    points = {
        tuple(drawn(publisher, store, np.array([east + off_m, (south + north) / 2]), ["person-0"])[0])
        for off_m in (-5.0, 15.0, -15.0, 40.0, LEAST_MARGIN_M - 1)
    }
    assert len(points) == 1


def test_nobody_counts_as_farther_away_than_a_cell_that_touches(grid: PlaceCells, rng: np.random.Generator) -> None:
    graph = graph_of(grid.cells)
    half_extent = np.array(TOWN.half_extent_m)
    counted = 0
    for x_m, y_m in rng.uniform(-half_extent, half_extent, (300, 2)).tolist():
        (own,), *others = grid.cells_near(x_m, y_m)
        assert own == grid.cells.find(np.array([[x_m, y_m]]) / TOWN.metres_per_unit)[0]
        touching = graph.neighbors[graph.starts[own] : graph.starts[own + 1]].tolist()
        assert {cell for (cell,) in others} <= set(touching)
        counted += len(others)
    assert 100 < counted < 1500


def test_the_loss_between_two_new_places_is_at_most_what_the_card_says(
    protection: Protection, grid: PlaceCells, rng: np.random.Generator
) -> None:
    assert protection.among is not None
    card, channel = protection.guarantee, protection.among.channel
    assert (card.definition, card.offset) == (PrivacyDefinition.ELASTIC, 0.0)
    every, graph = np.arange(len(grid.cells)), graph_of(grid.cells)
    largest = 0.0
    for one in rng.choice(every, 40, replace=False):
        for other in graph.neighbors[graph.starts[one] : graph.starts[one + 1]][:4]:
            logs = [channel.log_probability(np.full_like(every, cell), every) for cell in (one, other)]
            loss, steps = float(np.abs(logs[0] - logs[1]).max()), steps_from(grid.cells, int(one))[other]
            assert loss <= card.epsilon * steps
            largest = max(largest, loss / steps)
    assert largest > 0.7 * card.epsilon


def test_the_channel_is_settled_once_for_a_store(protection: Protection, cells: Cells) -> None:
    """Another version, or machine, might calibrate otherwise in the last digits, and draw somebody a second time."""
    store = SqliteStore.in_memory()
    first = with_settled_channel(protection, store)
    assert first.among is not None
    otherwise = replace(first.among.channel.calibration, rate=9.0)
    again = with_settled_channel(
        replace(protection, among=HideAmong(60, cells=cells, calibration=otherwise)), store
    ).among
    assert again is not None
    assert again.channel.calibration == first.among.channel.calibration


def test_cells_are_made_from_what_a_store_has_published(protection: Protection) -> None:
    city = TOWN.to_metres(synthetic_city(len(PEOPLE), TOWN, rng=1))
    for one in (protection, Protection(region=TOWN, schedule=SCHEDULE)):
        now_s = 0.0
        store = SqliteStore.in_memory()
        store.add_people(PEOPLE)
        publisher = Publisher(one, KEYS, store, clock=lambda: now_s, always_chained=False)  # noqa: B023 - called within the turn
        with pytest.raises(DataError, match="two published people"):
            cells_from_store(store, one)
        drawn(publisher, store, city)
        now_s = 3600.0
        publisher.publish_due()
        found = cells_from_store(store, one)
        assert (found.source, found.is_free) == ("published", True)
        assert found.people.sum() == pytest.approx(len(PEOPLE), rel=0.01)
        # Small where people are dense.
        sides_m = found.sides_m[found.find(city / TOWN.metres_per_unit)]
        assert sides_m.mean() < 0.7 * (found.sides_m @ found.areas) / found.areas.sum()


def test_what_does_not_fit_is_refused(cells: Cells) -> None:
    among = HideAmong(60, cells=cells)
    with pytest.raises(UsageError, match="not both"):
        Protection(region=TOWN, among=among, noise_m=500.0)
    with pytest.raises(UsageError, match="not for the service's region"):
        Protection(region=named_region("paris"), among=among)
    with pytest.raises(UsageError, match="fit the cells first"):
        Protection(region=TOWN, among=HideAmong(60, region=TOWN))


def test_another_number_of_people_is_another_place() -> None:
    region = named_region("san-francisco")
    cells = cells_from_points(synthetic_city(2000, region, rng=1), region)
    strengths = [HideAmong(40, cells=cells), HideAmong(50, cells=cells), HideAmong(40, epsilon=1.0, cells=cells)]
    places = [Protection(region=region, among=among).grid for among in strengths]
    assert len({place.identity for place in places}) == 3
