"""``nearveil plan`` and ``nearveil fit``: settings for one's own users, and files that mechanisms use."""

import json
from pathlib import Path

import pytest

from tests.acceptance.helpers import REGION, Array, check_hidden, check_moved, done, in_order, is_picture, read_csv, run


def test_a_plan_for_a_goal_recommends_settings_that_meet_it(users_csv: Path, tmp_path: Path) -> None:
    goal = ("--noise", "500m", "--months", "none", "--quick", "--seed", 1)
    options = ("--region", REGION, "--picture", tmp_path / "plan.png")
    plan = done("plan", users_csv, *goal, *options, "--json").json
    best = plan["recommended"]
    assert plan["met"] is True
    assert best["noise_m"] == 500
    assert 300 < best["error_m"]["value"] < 700
    assert 0.3 < best["recall"]["value"] < 0.9
    assert is_picture(tmp_path / "plan.png")
    # What is recommended is a command, and it works.
    assert best["command"].startswith("nearveil protect ")


def test_a_plan_needs_one_goal(users_csv: Path) -> None:
    assert run("plan", users_csv, "--region", REGION).code == 2
    assert run("plan", users_csv, "--region", REGION, "--noise", "500m", "--recall", 0.5).code == 2


def test_intervals_are_fitted_once_and_used(users_csv: Path, users: Array, tmp_path: Path) -> None:
    path = tmp_path / "intervals.json"
    fitted = done("fit", users_csv, path, "--region", REGION, "--epsilon", 1, "--json")
    assert fitted.json["epsilon"] == pytest.approx(1, rel=1e-6)
    assert 2 <= fitted.json["intervals"] <= 60
    check_hidden(users, path.read_text(), fitted.out, fitted.err)
    released = done("protect", users_csv, tmp_path / "out.csv", "--intervals", path, "--epsilon", 1, "--json").json
    assert released["mechanism"] == "dprs"
    check_moved(users, in_order(read_csv(tmp_path / "out.csv")))


def test_cells_are_fitted_once_and_used(users_csv: Path, users: Array, tmp_path: Path) -> None:
    path = tmp_path / "cells.geojson"
    fitted = done("fit", users_csv, path, "--region", REGION, "--hide-among", 30, "--json").json
    cells = json.loads(path.read_text())["features"]
    assert (fitted["cells"], fitted["hide_among"]) == (len(cells), 30)
    released = done("protect", users_csv, tmp_path / "out.csv", "--cells", path, "--json").json
    assert released["mechanism"] == "hide-among"
    check_moved(users, in_order(read_csv(tmp_path / "out.csv")))


def test_cells_from_public_data_cost_nothing(users_csv: Path, tmp_path: Path) -> None:
    """A census counts users by the thousand: a grid of counts, and none of our own users is in it."""
    cells = [(0.01 + 0.02 * row, 0.01 + 0.02 * column, 100 + row * column) for row in range(20) for column in range(20)]
    lines = [f"{37.5 + north:.2f},{-122.6 + east:.2f},{count}" for north, east, count in cells]
    (tmp_path / "census.csv").write_text("\n".join(["latitude,longitude,count", *lines, ""]))
    options = ("--region", REGION, "--hide-among", 1000, "--density", tmp_path / "census.csv")
    fitted = done("fit", *options, tmp_path / "cells.json", "--json").json
    assert fitted["guarantee"] is None or fitted["guarantee"]["epsilon"] == 0
    released = done("protect", users_csv, tmp_path / "out.csv", "--cells", tmp_path / "cells.json", "--json").json
    assert released["fitted_on_these_people"] is False


def test_too_few_users_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("latitude,longitude\n37.7123,-122.4123\n")
    result = run("fit", tmp_path / "one.csv", tmp_path / "intervals.json", "--region", REGION)
    assert result.code in {2, 3}
    assert "7123" not in result.err
    assert not (tmp_path / "intervals.json").exists()
