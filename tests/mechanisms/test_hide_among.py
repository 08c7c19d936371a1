"""Hide among people: the bound holds for every pair and every output, is nearly attained, and draws follow the law."""

import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree
from scipy.stats import chisquare

from nearveil.auditing.spec import mechanism_from_spec, mechanism_to_spec
from nearveil.errors import UsageError
from nearveil.io.readers import read_points
from nearveil.mechanisms import step_channel
from nearveil.mechanisms.cell_steps import STEP, graph_of
from nearveil.mechanisms.cells import Calibration, Cells
from nearveil.mechanisms.fit_cells import CellPlan, build_private_cells, cells_from_points
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.mechanisms.step_channel import StepChannel, calibrated
from nearveil.privacy.guarantee import Basis, PrivacyDefinition, guarantee_from_dict
from nearveil.randomness import numbered_rows
from nearveil.region import Region
from nearveil.types import FloatArray


@pytest.fixture(scope="module")
def cells(city: FloatArray, san_francisco: Region) -> Cells:
    return cells_from_points(city, san_francisco, CellPlan(hide_among=200))


@pytest.fixture(scope="module")
def mechanism(cells: Cells) -> HideAmong:
    return HideAmong(200, cells=cells)


def whole_table(channel: StepChannel) -> tuple[FloatArray, FloatArray]:
    """Probabilities of all answers for all cells, and all steps, the slow way."""
    cells = channel.cells
    graph = graph_of(cells)
    matrix = csr_array((graph.lengths.astype(float), graph.neighbors, graph.starts), shape=(len(cells),) * 2)
    steps = dijkstra(matrix).astype(np.int64)
    weights = channel.falls[np.minimum(steps, channel.reach.most)] * channel.weights[None, :]
    assert (weights.sum(axis=1) == channel.sums).all()
    return weights / channel.sums[:, None], steps / STEP


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_no_pair_loses_more_than_the_bound_and_some_pair_nearly_as_much(cells: Cells, epsilon: float) -> None:
    channel = HideAmong(200, epsilon=epsilon, cells=cells).channel
    assert 0 <= epsilon - channel.bound < 1e-6
    probabilities, steps = whole_table(channel)
    logs = np.log(probabilities)
    worst = 0.0
    for cell in range(len(cells)):
        losses = (logs[cell] - logs).max(axis=1)
        worst = max(worst, float((losses[steps[cell] > 0] / steps[cell][steps[cell] > 0]).max()))
    assert worst <= channel.bound
    assert worst >= 0.9 * epsilon
    assert math.isclose(worst, channel.certificate.attained, rel_tol=1e-6)


def test_a_tenth_more_rate_breaks_the_bound_and_plain_weights_do(cells: Cells) -> None:
    """The bound is not so loose that a wrong rate would go unseen, and the weights allow a faster fall."""
    channel = HideAmong(200, epsilon=2.0, cells=cells).channel
    assert replace(channel, rate=1.1 * channel.rate).certificate.attained > 2.0
    assert replace(channel, weights=np.full(len(cells), 1024)).bound > 1.05 * 2.0


def test_probabilities_are_those_of_the_slow_table(mechanism: HideAmong, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a few cells at a time, as where there are many."""
    channel = mechanism.channel
    monkeypatch.setattr(step_channel, "_TABLE_ENTRIES", 7 * len(channel.cells))
    probabilities, _ = whole_table(channel)
    everywhere = np.arange(len(channel.cells))
    logs = channel.log_probability(everywhere[:, None], everywhere[None])
    assert np.allclose(logs, np.log(probabilities), atol=1e-12)
    x, t = channel.cells.centres[[3, 9]], channel.cells.centres[[4, 70, 200]]
    density = np.exp(mechanism.log_density(x[:, None], t[None])) * channel.cells.areas[[4, 70, 200]]
    assert np.allclose(density, probabilities[[3, 9]][:, [4, 70, 200]])
    assert mechanism.log_density(x[0], np.array([5.0, 5.0])) == -math.inf


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "holds"), [(1.0, True), (0.7, False), (1.3, False)])
def test_draws_follow_the_probabilities(mechanism: HideAmong, factor: float, holds: bool) -> None:
    """100,000 draws from one cell: a chi-square test over cells with a false-alarm rate of 1e-6."""
    cells, source, count = mechanism.current_cells, len(mechanism.current_cells) // 2, 100_000
    x = np.repeat(cells.centres[source : source + 1], count, axis=0)
    drawn = mechanism.rescaled(factor).draw(x, numbered_rows(count, rng=4))
    seen = np.bincount(cells.find(drawn), minlength=len(cells))
    expected = count * np.exp(mechanism.channel.log_probability(source, np.arange(len(cells))))
    often = expected >= 10
    pooled = [np.append(part[often], part[~often].sum()) for part in (seen, expected)]
    assert (chisquare(*pooled).pvalue > 1e-6) == holds


def test_a_point_is_uniform_in_its_cell(mechanism: HideAmong) -> None:
    """Thousands of draws fall into the quarters of their cells alike; false-alarm rate 1e-6."""
    cells, count = mechanism.current_cells, 20_000
    drawn = mechanism.draw(np.repeat(cells.centres[50:51], count, axis=0), numbered_rows(count, rng=2))
    east, north = (drawn > cells.centres[cells.find(drawn)]).T
    assert chisquare(np.bincount(2 * east + north, minlength=4)).pvalue > 1e-6


@pytest.mark.parametrize("people", [50, 200, 800])
def test_the_number_of_people_is_kept_on_average(cells: Cells, city: FloatArray, people: int) -> None:
    """Counted one by one, without those who are published just anywhere: about as many as asked for are nearer.

    Half of all users have fewer than about half as many.
    """
    place_m = cells.region.to_metres(city)
    published_m = cells.region.to_metres(HideAmong(people, cells=cells, seed=1).perturb(city))
    moved_m = np.hypot(*(published_m - place_m).T)
    nearer = np.sort(cKDTree(place_m).query_ball_point(place_m, moved_m, return_length=True) - 1)
    assert np.mean(nearer[: int(0.98 * len(nearer))]) == pytest.approx(people, rel=0.4)
    assert np.median(nearer) == pytest.approx(people / 2, rel=0.4)


def test_a_crowd_at_one_place_takes_no_noise_from_others(city: FloatArray, san_francisco: Region) -> None:
    """As at an airport: the crowd alone is more people than asked for, however little its noise is."""
    cells = cells_from_points(np.vstack([city, np.tile(city[:1], (5000, 1))]), san_francisco)
    mechanism = HideAmong(100, cells=cells, seed=1)
    place_m = san_francisco.to_metres(city)
    moved_m = np.hypot(*(san_francisco.to_metres(mechanism.perturb(city)) - place_m).T)
    assert mechanism.guarantee.epsilon < 2
    assert np.median(cKDTree(place_m).query_ball_point(place_m, moved_m, return_length=True) - 1) > 25


@pytest.mark.evidence
@pytest.mark.realdata
@pytest.mark.parametrize("people", [100, 500])
def test_half_of_all_users_have_fewer_than_half_as_many_nearer(
    real_data_folder: Path, san_francisco: Region, people: int, figure: Callable[..., None]
) -> None:
    """The distinct places of Brightkite, with cells from exact counts."""
    check_ins = read_points(real_data_folder / "brightkite_sf.csv.gz")
    places = np.unique(check_ins[san_francisco.contains(check_ins)], axis=0)
    cells = cells_from_points(places, san_francisco, CellPlan(hide_among=people))
    place_m = san_francisco.to_metres(places)
    moved_m = np.hypot(*(san_francisco.to_metres(HideAmong(people, cells=cells, seed=1).perturb(places)) - place_m).T)
    nearer = cKDTree(place_m).query_ball_point(place_m, moved_m, return_length=True) - 1
    figure(f"median number of users nearer than what is published, hide among {people}", float(np.median(nearer)))
    assert 0.25 * people < np.median(nearer) < 0.5 * people


def drawn_ranges(channel: StepChannel, source: int) -> list[list[tuple[int, int]]]:
    """For each cell, the ranges of whole numbers below Z for which it is drawn: as one in reach, and as any cell."""
    ranges: list[list[tuple[int, int]]] = [[] for _ in range(len(channel.cells))]
    least, passed = int(channel.falls[-1]), 0
    for cell, steps in zip(*(part.tolist() for part in channel.reach.of(source)), strict=True):
        width = (int(channel.falls[steps]) - least) * int(channel.weights[cell])
        ranges[cell].append((passed, passed + width))
        passed += width
    for cell, weight in enumerate(channel.weights.tolist()):
        ranges[cell].append((passed, passed + least * weight))
        passed += least * weight
    assert passed == channel.sums[source]
    return ranges


def first_word(number: int, total: int) -> int:
    """The first 64-bit number whose product with Z has upper bits of at least this."""
    return -(-(number << 64) // total)


def test_choosing_by_64_bits_adds_no_more_than_is_counted() -> None:
    """In whole numbers: how many of the 2^64 words draw each cell, against what the probabilities say.

    Draws change from cell to cell at the words that were counted: at the first and the last of every range. The cells
    are so few that all can be looked at, and the fall is so steep that some are drawn next to never.
    """
    region = Region(37.70, -122.46, 37.74, -122.40)
    crowd = np.tile(region.centre, (50, 1))
    cells = cells_from_points(crowd, region, CellPlan(hide_among=20, largest_cell_m=1500, least_cell_m=200))
    assert 10 < len(cells) < 100
    weights = np.where(np.arange(len(cells)) % 2 == 0, np.random.default_rng(1).integers(20_000, 32767, len(cells)), 8)
    channel = StepChannel(cells, 30.0, 3, weights)
    share = math.expm1(channel._draw_error) / (2 + math.expm1(channel._draw_error))
    worst, logs = 0.0, np.empty((len(channel.cells),) * 2)
    for source in range(len(channel.cells)):
        total, ends, expected = int(channel.sums[source]), list[int](), list[int]()
        for cell, ranges in enumerate(drawn_ranges(channel, source)):
            of_cell = [(first_word(start, total), first_word(end, total)) for start, end in ranges]
            words = sum(end - start for start, end in of_cell)
            exact = Fraction(sum(end - start for start, end in ranges), total)
            worst = max(worst, abs(float(Fraction(words, 2**64) / exact - 1)))
            logs[source, cell] = math.log(words) - 64 * math.log(2)
            found = [word for start, end in of_cell if start < end for word in (start, end - 1)]
            ends, expected = ends + found, expected + [cell] * len(found)
        x, anywhere = np.tile(cells.centres[source], (len(ends), 1)), np.full(len(ends), 1 << 63, dtype=np.uint64)
        drawn = channel.draw(x, np.column_stack([np.array(ends, dtype=np.uint64), anywhere]))
        assert cells.find(drawn).tolist() == expected
    # Not more than is counted, and more than a quarter of it: the rarest cells have few words.
    assert share / 4 < worst <= share
    assert share > 1e-4
    first, second, length = graph_of(channel.cells).edges
    losses = np.abs(logs[first] - logs[second]).max(axis=1)
    assert (losses <= channel.edge_bounds * length / STEP).all()


def test_the_guarantee(mechanism: HideAmong) -> None:
    guarantee = mechanism.guarantee
    assert guarantee.definition is PrivacyDefinition.ELASTIC
    assert guarantee.unit == "per step"
    assert guarantee.basis is Basis.CERTIFICATE
    assert guarantee.holds
    assert guarantee.delta == 0
    assert guarantee_from_dict(guarantee.to_dict()) == guarantee
    assert len(str(guarantee).splitlines()) <= 12
    assert "users or more when" in guarantee.promise
    assert "half of all users have fewer than about 100 others nearer" in "".join(guarantee.notes)


def test_a_crowd_does_not_count_for_those_far_from_it(city: FloatArray, san_francisco: Region) -> None:
    """Three users of ten in one building: the card speaks of the others."""
    crowd = np.tile(san_francisco.centre, (3 * len(city) // 7, 1))
    cells = cells_from_points(np.vstack([city, crowd]), san_francisco, CellPlan(hide_among=200))
    mechanism = HideAmong(200, cells=cells)
    assert mechanism.channel.people_within(2 / mechanism.guarantee.epsilon) < 300 < 0.3 * len(crowd)


def test_those_the_cells_were_made_from_pay_for_them(city: FloatArray, san_francisco: Region) -> None:
    cells = build_private_cells(city, san_francisco, epsilon=0.5, rng=1)
    guarantee = HideAmong(100, cells=cells).guarantee
    alone, together = guarantee.also
    assert alone.epsilon == 0.5
    assert together.offset == 1.0
    assert together.epsilon == guarantee.epsilon


def test_fitting_learns_cells_and_keeps_nothing_else(city: FloatArray, san_francisco: Region) -> None:
    unfitted = HideAmong(100, fit_epsilon=2.0, region=san_francisco, seed=3)
    assert unfitted.is_to_be_fitted
    with pytest.raises(UsageError, match="fit the cells first"):
        _ = unfitted.guarantee
    fitted = unfitted.fit(city)
    assert fitted.cells_.fit_epsilon == 2.0
    assert "cells_" in vars(fitted)
    assert not any(np.size(value) >= len(city) for value in vars(fitted).values())
    assert fitted.perturb(city[:10]).shape == (10, 2)


def test_it_is_rebuilt_from_plain_values(mechanism: HideAmong, city: FloatArray) -> None:
    again = mechanism_from_spec(mechanism_to_spec(mechanism))
    assert isinstance(again, HideAmong)
    assert again.channel.bound == mechanism.channel.bound
    assert (again.perturb(city[:100], rng=1) == mechanism.perturb(city[:100], rng=1)).all()
    assert again.guarantee.epsilon == mechanism.guarantee.epsilon


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"hide_among": 1}, "from 2 to"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"fit_epsilon": -1.0}, "fit_epsilon"),
        ({"calibration": Calibration(rate=1.0, farthest=9, weights=(9,))}, "goes with the cells"),
        ({"least_cell_m": 0.0}, "least side"),
    ],
)
def test_parameters_that_cannot_be(given: dict[str, Any], says: str, city: FloatArray) -> None:
    with pytest.raises(UsageError, match=says):
        HideAmong(**given, region="san-francisco").fit(city)


def test_weights_of_other_cells_and_more_people_than_they_hold_are_refused(cells: Cells) -> None:
    with pytest.raises(UsageError, match="about 5,000 people, fewer than the 6,000"):
        _ = HideAmong(6000, cells=cells).channel
    with pytest.raises(UsageError, match="one weight for each cell"):
        _ = HideAmong(100, cells=cells, calibration=Calibration(rate=1.0, farthest=9, weights=(1024,))).channel
    for change in ({"weights": (0,)}, {"weights": ()}, {"rate": 0.0}, {"farthest": 1000}):
        with pytest.raises(UsageError):
            Calibration(**{"rate": 1.0, "farthest": 9, "weights": (1024,), **change})  # type: ignore[arg-type]


def test_what_was_calibrated_before_is_used_for_its_own_number_alone(cells: Cells) -> None:
    kept = replace(calibrated(cells).calibration or Calibration(rate=1.0, farthest=3, weights=()), rate=0.77)
    known = replace(cells, calibration=kept)
    assert HideAmong(cells.hide_among, cells=known).channel.rate == 0.77
    assert HideAmong(cells.hide_among + 1, cells=known).channel.rate != 0.77
    assert HideAmong(cells.hide_among, epsilon=2.0, cells=known).channel.rate != 0.77
    # The promise is worked out from the numbers in use, not taken from a file.
    assert (
        HideAmong(cells.hide_among, cells=known).guarantee.epsilon
        == StepChannel(cells, 0.77, kept.farthest, np.array(kept.weights)).bound
    )


def test_settled_it_draws_by_its_own_numbers_anywhere(city: FloatArray, san_francisco: Region) -> None:
    """Fitted cells and the calibration travel along; what a test rescaled stays rescaled, once."""
    fitted = HideAmong(500, region=san_francisco, seed=1).fit(city)
    for mechanism in (fitted, fitted.rescaled(1.3)):
        settled = pickle.loads(pickle.dumps(mechanism.settled()))  # noqa: S301
        assert settled.cells.to_document() == fitted.cells_.to_document()
        assert settled.calibration == fitted.channel.calibration
        assert settled.guarantee.epsilon == fitted.guarantee.epsilon
        assert (settled.perturb(city) == mechanism.perturb(city)).all()
