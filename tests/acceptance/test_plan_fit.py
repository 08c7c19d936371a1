"""``nearveil plan`` and ``nearveil fit``: settings for one's own users, and files that mechanisms use."""

import json
from pathlib import Path

import pytest

from tests.acceptance.helpers import REGION, Array, check_hidden, check_moved, done, in_order, is_picture, read_csv


def test_a_plan_for_a_goal_recommends_settings_that_meet_it(users_csv: Path, tmp_path: Path) -> None:
    goal = ("--found", 0.3, "--seed", 1, "--picture", tmp_path / "plan.png")
    planned = done("plan", users_csv, *goal, "--json")
    best = planned.json["recommended"]
    assert planned.json["met"] is True
    assert 200 < best["noise_m"] < 2000
    assert best["found"]["value"] <= 0.3
    assert best["listed_m"]["value"] > best["nearest_m"]["value"]
    assert "--users-in-total" in planned.err
    assert is_picture(tmp_path / "plan.png")
    # What is recommended is a command, and it works.
    assert best["command"].startswith("nearveil protect ")


def test_intervals_are_fitted_once_and_used(users_csv: Path, users: Array, tmp_path: Path) -> None:
    path = tmp_path / "intervals.json"
    fitted = done("fit", users_csv, path, "--mechanism", "dprs", "--region", REGION, "--epsilon", 1, "--json")
    assert fitted.json["epsilon"] == pytest.approx(1, rel=1e-6)
    check_hidden(users, path.read_text(), fitted.out, fitted.err)
    released = done("protect", users_csv, tmp_path / "out.csv", "--user", "id", "--intervals", path, "--json").json
    assert released["mechanism"] == "dprs"
    check_moved(users, in_order(read_csv(tmp_path / "out.csv")))


def test_cells_are_fitted_once_and_used(users_csv: Path, users: Array, tmp_path: Path) -> None:
    path = tmp_path / "cells.geojson"
    done("fit", users_csv, path, "--region", REGION, "--hide-among", 30)
    assert len(json.loads(path.read_text())["features"]) > 1
    released = done("protect", users_csv, tmp_path / "out.csv", "--user", "id", "--cells", path, "--json").json
    assert released["mechanism"] == "hide-among"
    check_moved(users, in_order(read_csv(tmp_path / "out.csv")))
