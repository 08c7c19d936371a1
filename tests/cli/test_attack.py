"""``nearveil attack`` as its user runs it."""

import json
from pathlib import Path

import numpy as np
import pytest

from nearveil.cli.populations import file_population
from nearveil.io.location import ReadOptions
from nearveil.types import FloatArray
from tests.cli.conftest import Run, write_people

FEW = ("--attack", "gi-lia", "--users", 2, "--json")


@pytest.fixture
def people_csv(tmp_path: Path, city: FloatArray) -> Path:
    return write_people(tmp_path / "people.csv", city[:500])


def test_the_first_line_is_the_result(run: Run, people_csv: Path) -> None:
    outcome = run("attack", people_csv, "--users", 2, "--attack", "adaptive", "--attack", "gi-lia")
    assert outcome.code == 0, outcome.err
    first, _, header, *rows = outcome.out.splitlines()
    assert first.startswith("2 of 2 users found within 100 m, ")
    assert first.endswith(" queries each.")
    assert header.split("  ")[0] == "attack"
    assert [row.split(" of ")[0].split("  ")[0] for row in rows] == ["adaptive, 4 accounts", "gi-lia, 1 account"]


def test_what_protection_changes_in_three_sentences(run: Run, people_csv: Path) -> None:
    outcome = run("attack", people_csv, "--users", 2, "--noise", "2km")
    assert outcome.code == 0, outcome.err
    found, best, cost, *_ = outcome.out.splitlines()
    assert found.startswith("0 of 2 users found within 100 m, ")
    assert best.startswith("The best attacker, who knows the noise and every address, finds ")
    assert cost.startswith("The 10 users listed are on average ")
    assert outcome.out.splitlines()[-1].startswith("best guess from one published location")


def test_users_all_over_the_world_are_attacked_in_their_densest_city(
    run: Run, tmp_path: Path, city: FloatArray
) -> None:
    path = write_people(tmp_path / "world.csv", np.vstack([city[:30] + np.array([10.0, 60.0]), city[:300]]))
    outcome = run("attack", path, *FEW)
    assert outcome.code == 0, outcome.err
    assert "of 330 users, within 25 km of 37." in json.loads(outcome.out)["area"]
    # A user elsewhere is attacked there.
    alone = json.loads(run("attack", path, "--user", 7, "--attack", "gi-lia", "--json").out)
    assert alone["users"] < 31


def test_what_has_no_option_here_is_set(run: Run, tmp_path: Path, city: FloatArray) -> None:
    """Epsilon and the files of cells and intervals, which are options of protect."""
    people = write_people(tmp_path / "people.csv", city[:200])
    cells, intervals = tmp_path / "cells.geojson", tmp_path / "intervals.json"
    assert run("fit", people, cells, "--hide-among", 9, "--seed", 1).code == 0
    assert run("fit", people, intervals, "--mechanism", "dprs", "--set", "centres=2", "--seed", 1).code == 0
    for options in ((f"cells={cells}",), (f"intervals={intervals}", "epsilon=1")):
        outcome = run("attack", people, *FEW, *(word for option in options for word in ("--set", option)))
        assert outcome.code == 0, outcome.err
        assert json.loads(outcome.out)["protected"] is True
    outcome = run("attack", people, *FEW, "--set", f"cells={cells}", "--set", f"intervals={intervals}")
    assert (outcome.code, len(outcome.err.splitlines())) == (2, 1)


def test_the_user_named_is_the_one_attacked(people_csv: Path) -> None:
    population = file_population(people_csv, ReadOptions())
    # Ids of this file start at 0.
    assert [population.row_of(user) for user in ("0", "17", "499")] == [0, 17, 499]


def test_the_same_seed_gives_the_same_numbers(run: Run, people_csv: Path) -> None:
    outcomes = [json.loads(run("attack", people_csv, *FEW, "--seed", seed).out)["attacks"] for seed in (3, 3, 4)]
    assert outcomes[0] == outcomes[1] != outcomes[2]


def test_rows_without_ids_are_called_by_their_number(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "places.csv"
    rows = "".join(f"37.7{n:03d},-122.4{n * 7 % 100:02d}\n" for n in range(60))
    path.write_text("latitude,longitude\n" + rows, encoding="utf-8")
    outcome = run("attack", path, "--user", "60", "--attack", "gi-lia")
    assert outcome.code == 0, outcome.err
    outcome = run("attack", path, "--user", "61", "--attack", "gi-lia")
    assert (outcome.code, "1 to 60" in outcome.err) == (2, True)


BAD = [
    (("--k", "ten"), 2, "not a valid integer"),
    (("--k", "501"), 2, "k must lie between 1 and the number of users, 500; give --k 500"),
    (("--tau", "0"), 2, "--tau takes a length greater than 0"),
    (("--tau", "0.5m"), 2, "at least 1 m, such as --tau 100m"),
    (("--accounts", "0", "--attack", "adaptive"), 2, "1 to 32 accounts"),
    (("--users", "-3"), 2, "at least one user to attack, such as --users 5"),
    (("--dataset", "gaussian"), 2, "INPUT cannot be used with --dataset"),
    (("--user", "3", "--users", "2"), 2, "--users cannot be used with --user"),
    (("--truth", "37.7,-122.4"), 2, "--truth needs --url or --adapter"),
    (("--picture", "picture.gif"), 2, "ends in .png or .html"),
    (("--answers", "distance:1km", "--k", "5"), 2, "--k is for ranked lists, not for --answers distance:1km"),
    (("--region", "paris"), 3, "region"),
]


@pytest.mark.parametrize(("options", "code", "says"), BAD, ids=[" ".join(options) for options, _, _ in BAD])
def test_bad_input_is_one_sentence(run: Run, people_csv: Path, options: tuple[str, ...], code: int, says: str) -> None:
    outcome = run("attack", people_csv, *options)
    assert (outcome.code, outcome.out) == (code, "")
    assert outcome.err.startswith("error: ")
    assert says in outcome.err


def test_nothing_to_attack_and_too_few_users(run: Run, tmp_path: Path) -> None:
    outcome = run("attack")
    assert (outcome.code, "nearveil attack people.csv" in outcome.err) == (2, True)
    path = tmp_path / "three.csv"
    path.write_text("latitude,longitude\n52.5,13.4\n52.6,13.4\n52.5,13.5\n", encoding="utf-8")
    outcome = run("attack", path)
    assert (outcome.code, outcome.err.strip().endswith("the number of users, 3; give --k 3")) == (2, True)
    assert run("attack", path, "--k", 3, *FEW).code == 0


def test_intervals_of_another_region(run: Run, people_csv: Path, tmp_path: Path) -> None:
    intervals = tmp_path / "intervals.json"
    edges = "37.4,-122.7,38.0,-122.1"
    assert run("fit", people_csv, intervals, "--mechanism", "dprs", "--region", edges, "--set", "centres=60").code == 0
    outcome = run("attack", "--dataset", "gaussian", "--set", f"intervals={intervals}", *FEW)
    assert (outcome.code, "not the region of the file of intervals" in outcome.err) == (2, True)


def test_everybody_at_one_point(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "one-point.csv"
    path.write_text("latitude,longitude\n" + "37.7,-122.4\n" * 30, encoding="utf-8")
    for options in ((), ("--noise", "500m")):
        outcome = run("attack", path, *FEW, *options)
        assert outcome.code == 0, outcome.err


def test_policies_by_parts_and_by_name(run: Run, people_csv: Path) -> None:
    found = json.loads(run("attack", people_csv, *FEW, "--policy", "snap:100m,cutoff:2km").out)
    assert found["policy"] == "snap:100m,cutoff:2000m"
    found = json.loads(run("attack", people_csv, *FEW, "--policy", "nearest-50-or-30km").out)
    assert (found["policy"], found["k"]) == ("cutoff:30000m,at-least:50", 500)
