"""Veil: the specification's vectors, its law, what it does with known answers, and what it refuses."""

import json
import math
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, kstest

import nearveil
from nearveil import veil as module
from nearveil.types import FloatArray
from nearveil.veil import R, Veil
from tests.veil.plane import Plane

VECTORS = json.loads((Path(__file__).parents[2] / "docs/reference/veil-vectors.json").read_text(encoding="utf-8"))
KEY = "9f" * 32
BERLIN = (52.52, 13.405)
H, SIDE = 500.0, 125.0


def apart_m(first: Any, second: Any) -> float:
    return R * math.dist(module._location(first), module._location(second))


def moved(location: tuple[float, float], north_m: float, east_m: float) -> tuple[float, float]:
    degree = math.radians(R)
    return location[0] + north_m / degree, location[1] + east_m / degree / math.cos(math.radians(location[0]))


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: f"{vector['key'][:6]}")
def test_vectors(vector: dict[str, Any]) -> None:
    veil, user = Veil(vector["key"], vector["noise_m"]), vector["user"]
    assert apart_m(veil.blur(user, vector["latitude"], vector["longitude"]), vector["blurred"]) <= 3
    for then in vector["then"]:
        answer = veil.blur(user, then["latitude"], then["longitude"], then["known"], then["accuracy_m"])
        assert apart_m(answer, then["blurred"]) <= 3
        assert -180 <= answer[1] < 180
        assert "-0.0" not in map(str, answer)


def test_veil_js_gives_the_answers_of_the_test_vectors() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node (Debian: nodejs)")
    folder = Path(__file__).parents[2] / "clients" / "js"
    done = subprocess.run([node, "veil.test.js"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_answers_depend_on_nothing_but_the_arguments() -> None:
    veil = Veil(KEY)
    calls = [(f"user-{number % 7}", 52.5 + number * 1e-4, 13.4) for number in range(2000)]
    answers = [veil.blur(*call) for call in calls]
    assert [Veil(bytes.fromhex(KEY), 500).blur(*call) for call in reversed(calls)] == answers[::-1]
    assert pickle.loads(pickle.dumps(veil)).blur(*calls[0]) == answers[0]  # noqa: S301
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda call: veil.blur(*call), calls)) == answers
    for other in (Veil("9e" + KEY[2:]), Veil(KEY, 501)):
        assert not set(answers) & {other.blur(*call) for call in calls}


@pytest.mark.parametrize("turns", [360.0, -720.0, 360 * 2.0**43])
def test_longitudes_go_around(turns: float) -> None:
    veil = Veil(KEY)
    expected = veil.blur("ann", 52.52, 13.5)
    assert veil.blur("ann", 52.52, turns + 13.5) == expected
    known = [(expected[0], expected[1] + min(turns, 3600))]
    assert veil.blur("ann", *moved((52.52, 13.5), 16, 0), known) == expected


def test_numbers_of_all_kinds() -> None:
    veil, expected = Veil(KEY, 500), Veil(KEY, 500).blur("ann", 52.0, 13.0)
    kinds: list[Any] = [int, np.float64, np.float32, np.int64, Decimal, Fraction]
    for kind in kinds:
        assert Veil(KEY, kind(500)).blur("ann", kind(52), kind(13), [tuple(map(kind, (1, 2)))], kind(10)) == expected
    assert veil.blur("ann", 52, 13, np.array([expected]), math.inf) == expected
    assert veil.blur("ann", 52, 13, iter([iter(expected)])) == expected


def test_many_at_once_are_the_same(rng: np.random.Generator) -> None:
    for noise_m in (50, 500, 100_000):
        veil = Veil(KEY, noise_m)
        # One whose first draw is rejected, others anywhere and at the poles.
        users = ["user-39561", *(f"user-{number}" for number in rng.integers(0, 300, 3000))]
        latitudes = np.concatenate([[52.52], rng.uniform(-90, 90, 2990), [90] * 5, [-90] * 5])
        longitudes = np.array([13.405, *rng.uniform(-720, 720, 3000)])
        expected = np.array([veil.blur(*each) for each in zip(users, latitudes, longitudes, strict=True)])
        many = np.column_stack(veil.blur_many(users, latitudes, longitudes))
        # The last bit of a sine may differ, and with it the rounding; and the cell, once in 1e9 rows.
        assert np.abs(many - expected)[:, 0].max() < 1.5e-5
        assert np.abs(np.remainder(many - expected + 180, 360) - 180)[:, 1].max() < 1.5e-5
    assert [len(each) for each in veil.blur_many([], [], [])] == [0, 0]
    with pytest.raises(ValueError, match="row 1: latitude"):
        veil.blur_many(["ann", "ben"], [52.52, 91.0], [0, 0])


def test_the_file_works_alone(tmp_path: Path) -> None:
    """One file and the standard library; and the package gives Veil without NumPy."""
    (tmp_path / "veil.py").write_bytes(Path(module.__file__).read_bytes())
    call = f"print(Veil('{KEY}').blur('ann', 52.52, 13.405, [(1, 2)], 15))"
    alone = f"import sys; sys.path = [{str(tmp_path)!r}, *sys.path]; from veil import Veil; {call}"
    package = f"import sys; from nearveil import Veil; {call}; assert 'numpy' not in sys.modules"
    environment = {**os.environ, "PYTHONPATH": str(Path(nearveil.__file__).parents[1])}
    for options, program in ((["-I", "-S"], alone), ([], package)):
        command = [sys.executable, *options, "-c", program]
        said = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
        assert said.strip() == str(Veil(KEY).blur("ann", *BERLIN))


def displacements_m(noise_m: float, location: tuple[float, float], users: int) -> FloatArray:
    """Return how far the answers of users are east and north of a location."""
    columns = [[value] * users for value in location]
    answers = Veil(KEY, noise_m).blur_many(map(str, range(users)), *columns)
    return Plane(location).meters(np.column_stack(answers))


def distance_law(noise_m: float) -> Callable[[FloatArray], FloatArray]:
    """Return the law of an answer's distance: noise around a center anywhere in a square cell, turned at random."""
    draw = np.random.default_rng(1)
    count = 1_000_000
    centers = draw.uniform(-noise_m / 8, noise_m / 8, (2, count))
    radius, bearing = draw.gamma(2, noise_m / 2, count), draw.uniform(0, 2 * np.pi, count)
    distances = np.sort(np.hypot(centers[0] + radius * np.cos(bearing), centers[1] + radius * np.sin(bearing)))
    return lambda values: np.searchsorted(distances, values) / count


@pytest.mark.statistical
@pytest.mark.parametrize("noise_m", [500.0, 70_000.0])
@pytest.mark.parametrize("location", [BERLIN, (90, 0), (-90, 77), (-17, 180), (0, 0)])
def test_the_law_of_an_answer(noise_m: float, location: tuple[float, float]) -> None:
    """3,000 users: distances and bearings by Kolmogorov and Smirnov. Each fails by chance with probability 1e-6."""
    law = distance_law(noise_m)
    for scale in (0.7, 1.0, 1.3):
        east, north = displacements_m(scale * noise_m, location, 3000).T
        assert (kstest(np.hypot(north, east), law).pvalue > 1e-6) == (scale == 1)
        assert kstest(np.arctan2(east, north), "uniform", args=(-np.pi, 2 * np.pi)).pvalue > 1e-6


@pytest.mark.statistical
def test_noise_of_two_cells_is_independent() -> None:
    """3,000 users at two locations 2 km apart: a correlation beyond 5.3 standard errors is a false alarm in 1e-7."""
    first, second = (displacements_m(500, location, 3000) for location in (BERLIN, moved(BERLIN, 2000, 0)))
    assert np.abs(np.corrcoef(first.T, second.T)[:2, 2:]).max() < 5.3 / math.sqrt(3000)


@pytest.mark.statistical
@pytest.mark.parametrize("probability", [0.5, 0.9, 0.99])
def test_the_radius_contains_the_user(probability: float) -> None:
    """4,000 users: fewer are within the radius with a probability of 1e-6. It is not far too large either."""
    veil, radius_m = Veil(KEY), Veil(KEY).radius_m(probability)
    within = int((np.hypot(*displacements_m(500, BERLIN, 4000).T) <= radius_m).sum())
    assert within >= binom.ppf(1e-6, 4000, probability)
    quantile = (radius_m - SIDE) * 2 / H
    assert 1 - (1 + quantile) * math.exp(-quantile) == pytest.approx(probability, abs=1e-12)
    # An earlier answer that is given again at the end of a longer reach.
    later = moved(BERLIN, 250, 0)
    answers = [veil.blur(user, *later, [veil.blur(user, *BERLIN)], 170) for user in map(str, range(1000))]
    within = sum(apart_m(answer, later) <= veil.radius_m(probability, 170) for answer in answers)
    assert within >= binom.ppf(1e-6, 1000, probability)


def test_centers_are_as_near_as_the_guarantee_says() -> None:
    """Half a cell's diagonal: its share of the side is sqrt(1/2), and 0.87 in the shortest rows."""
    veil = Veil(KEY)
    for row, most in ((0, 0.87), (1, 0.79), (30, 0.714), (1000, 0.7072), (veil._rows // 2, 0.7072)):
        latitude, columns = veil._row(math, row)
        step, halfway = math.pi / veil._rows, math.pi / columns
        center = module._unit(math, latitude, 0)
        corners = [module._unit(math, latitude + side * step / 2, halfway) for side in (-1, 1)]
        assert max(R * math.dist(center, corner) for corner in corners) <= most * SIDE


def test_jitter_gives_the_same_answer_with_known_and_not_without() -> None:
    """A cell's center is at most 0.87 sides away, so that 16 m more are always within reach."""
    draw, veil, without = random.Random(1), Veil(KEY), set()
    for user in map(str, range(300)):
        first = veil.blur(user, *BERLIN)
        near = moved(BERLIN, draw.uniform(-11, 11), draw.uniform(-11, 11))
        assert veil.blur(user, *near, [(0, 0), first], 10) == first
        without.add(veil.blur(user, *near) == first)
    assert without == {True, False}


def test_the_oldest_answer_nearby_counts() -> None:
    veil = Veil(KEY)
    answers = [veil.blur("ann", *moved(BERLIN, north_m, 0)) for north_m in (-SIDE, 0, SIDE)]
    assert len(set(answers)) == 3
    for known in (answers, answers[::-1], answers[1:]):
        assert veil.blur("ann", *BERLIN, [(0, 0), *known], 1e9) == known[0]


def test_an_entry_is_one_of_ours_or_is_ignored() -> None:
    veil = Veil(KEY)
    own, near = veil.blur("ann", *BERLIN), moved(BERLIN, 400, 0)
    assert veil.blur("ann", *near) != own
    # As a store may have rounded it; what is given back is computed.
    assert veil.blur("ann", *near, [moved(own, 2, 2)], 250) == own
    for entry in (moved(own, 3.5, 0), moved(own, 0, 40), BERLIN, near):
        assert veil.blur("ann", *near, [entry], 250) == veil.blur("ann", *near)
    assert veil.blur("ben", *near, [own], 250) == veil.blur("ben", *near)


def test_reach_is_a_side_or_twice_the_accuracy_and_at_most_the_noise() -> None:
    veil = Veil(KEY)
    for accuracy_m in (None, 0, 60, 100, 200, 1e9, math.inf):
        reach = min(max(SIDE, 2 * (accuracy_m or 0)), H)
        farthest = []
        for user in map(str, range(12)):
            own = veil.blur(user, *BERLIN)
            away = [m for m in range(0, 700, 25) if veil.blur(user, *moved(BERLIN, m, 0), [own], accuracy_m) == own]
            farthest.append(max(away))
        # Centers are on all sides, up to 0.87 sides away.
        assert reach - 0.87 * SIDE - 25 <= min(farthest) < reach < max(farthest) <= reach + 0.87 * SIDE


@pytest.mark.parametrize("latitude", [0.7, math.pi / 2, math.pi / 2 - 0.001, -math.pi / 2 + 0.006])
def test_all_cells_within_reach_are_found(latitude: float) -> None:
    """Against a look at all cells, in the user's own frame: at its poles, where rows have few cells, and elsewhere."""
    veil = Veil(KEY, 100_000)
    rows = np.arange(veil._rows)
    of_row, columns = veil._row(np, rows)
    row = np.repeat(rows, columns.astype(int))
    column = np.concatenate([np.arange(count) for count in columns.astype(int)])
    longitudes = 2 * np.pi * (column + 0.5) / columns[row] - np.pi
    centers = np.column_stack(module._unit(np, of_row[row], longitudes))
    for longitude in (math.pi, -math.pi, -2.0, 0.3, 1.0):
        at = module._unit(math, latitude, longitude)
        for reach in (25_000, 60_000.0, 100_000):
            near = np.flatnonzero(R * np.linalg.norm(centers - at, axis=1) <= reach)
            assert veil._cells_near(at, reach) == list(zip(row[near].tolist(), column[near].tolist(), strict=True))


@pytest.mark.parametrize("wrong", VECTORS["errors"], ids=lambda each: f"{each['wrong']}={each[each['wrong']]!a}"[:40])
def test_errors(wrong: dict[str, Any]) -> None:
    # As text, and as the number that it stands for.
    for text in (json.dumps(wrong), re.sub(r'"(NaN|-?Infinity)"', r"\1", json.dumps(wrong))):
        given = json.loads(text)
        veil_of, call = (given["key"], given["noise_m"]), (given["user"], given["latitude"], given["longitude"])
        with pytest.raises((TypeError, ValueError)) as caught:
            Veil(*veil_of).blur(*call, given["known"], given["accuracy_m"])
        said = str(caught.value)
        assert not any(secret in said for secret in ("52.5", "13.4", "9f9f", "ann", "object", "argument"))
        assert ". " not in said
        assert 15 < len(said) < 100
        # What it was raised from would be printed along.
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_more_errors() -> None:
    for wrong in (0, 1, -0.1, math.nan, "0.9", None):
        with pytest.raises((TypeError, ValueError), match="probability must be"):
            Veil(KEY).radius_m(wrong)  # type: ignore[arg-type]
    for user in ("\ud800", "a\udc00b"):  # many JSON parsers refuse them, so the vectors have none
        with pytest.raises(ValueError, match="the user id must be well-formed"):
            Veil(KEY).blur(user, 52.52, 13.405)
    for latitude in (10**400, Decimal("sNaN"), 52 + 0j, np.array([52.0])):
        with pytest.raises((TypeError, ValueError), match="latitude must be a number"):
            Veil(KEY).blur("ann", latitude, 0)  # type: ignore[arg-type]


def test_keys_and_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    key = Veil.new_key()
    assert key != Veil.new_key()
    veil = Veil(key, 321)
    assert repr(veil) == "Veil(noise_m=321.0)"
    with pytest.raises(ValueError, match="set the environment variable VEIL_KEY"):
        Veil.from_env("VEIL_KEY")
    monkeypatch.setenv("VEIL_KEY", key.upper() + "\n")
    assert Veil.from_env("VEIL_KEY", noise_m=321).blur("ann", *BERLIN) == veil.blur("ann", *BERLIN)


def test_a_cell_is_also_found_by_chance() -> None:
    """Where an answer of a cell around is within 3 m of an entry of known: 1.3 % of users; 1e-9 that none of 2,000."""
    veil, later = Veil(KEY, 50), moved(BERLIN, 100, 0)
    found = 0
    for user in map(str, range(2000)):
        first = veil.blur(user, *BERLIN)
        answer = veil.blur(user, *later, [first], 25)
        found += answer not in (first, veil.blur(user, *later))
    assert found > 0


def test_the_guarantee_says_what_holds_and_what_does_not() -> None:
    said = ("without known", "eps k D", "sqrt(2)", "Not protected", "finds every cell", "about 75 calls", "losses add")
    for number, (line, words) in enumerate(zip(Veil.guarantee.splitlines(), said, strict=True), 1):
        assert line.startswith(f"{number}.")
        assert words in line
