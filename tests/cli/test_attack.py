"""``nearveil attack`` as a person runs it."""

import json
from pathlib import Path

import pytest

from nearveil.attacks.registry import ATTACKS
from nearveil.cli.populations import file_population
from nearveil.io.location import ReadOptions
from nearveil.region import Region
from nearveil.types import FloatArray
from tests.cli.conftest import Run, write_people

SMALL = ("--runs", 1, "--instances", 2, "--cores", 1)


@pytest.fixture
def people_csv(tmp_path: Path, city: FloatArray) -> Path:
    """A thousand people: the best attacker weighs each published location against everybody."""
    return write_people(tmp_path / "people.csv", city[:1000])


def test_all_attacks_on_a_population_of_the_paper(run: Run) -> None:
    outcome = run("attack", "--dataset", "gaussian", "--accounts", "1,4", *SMALL)
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    # Those that can use more accounts are there with one and with four.
    expected = [name for name, attack in ATTACKS.items() for _ in range(1 + attack.takes_more_accounts)]
    assert [line.split()[0] for line in lines[1 : 1 + len(expected)]] == expected
    # The paper's GI-LIA on gaussian, k = 10.
    assert lines[1].split()[-3:] == ["26.31", "0.940", "44.42"]
    assert "surely where certified" in outcome.out


def test_what_has_no_option_here_is_set(run: Run, tmp_path: Path, city: FloatArray) -> None:
    """Epsilon and the files of cells and intervals, which are options of protect."""
    people = write_people(tmp_path / "people.csv", city[:200])
    few = ("attack", "--input", people, "--attack", "gi-lia", "--json", *SMALL)
    cells, intervals = tmp_path / "cells.geojson", tmp_path / "intervals.json"
    assert run("fit", people, cells, "--hide-among", 9, "--seed", 1).code == 0
    assert run("fit", people, intervals, "--mechanism", "dprs", "--set", "centres=2", "--seed", 1).code == 0
    for options in ((f"cells={cells}",), (f"intervals={intervals}", "epsilon=1")):
        outcome = run(*few, *(word for option in options for word in ("--set", option)))
        assert outcome.code == 0, outcome.err
        assert json.loads(outcome.out)[0]["protected"] is True
    outcome = run(*few, "--set", f"cells={cells}", "--set", f"intervals={intervals}")
    assert (outcome.code, len(outcome.err.splitlines())) == (2, 1)


def test_the_person_named_is_the_one_attacked(people_csv: Path, san_francisco: Region) -> None:
    population = file_population(people_csv, san_francisco, ReadOptions())
    # Ids of this file start at 0.
    assert [population.number_of(person) for person in ("0", "17", "999")] == [0, 17, 999]


def test_the_same_seed_gives_the_same_rows(run: Run, people_csv: Path) -> None:
    def rows(seed: int) -> list[tuple[float, float]]:
        outcome = run("attack", "--input", people_csv, "--attack", "gi-lia", "--json", "--seed", seed, *SMALL)
        return [(row["dist_m"], row["queries"]) for row in json.loads(outcome.out)]

    assert rows(3) == rows(3)
    assert rows(3) != rows(4)


def test_rows_without_ids_are_called_by_their_number(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "places.csv"
    rows = "".join(f"37.7{n:03d},-122.4{n * 7 % 100:02d}\n" for n in range(60))
    path.write_text("latitude,longitude\n" + rows, encoding="utf-8")
    outcome = run("attack", "--input", path, "--person", "60", "--attack", "gi-lia")
    assert outcome.code == 0, outcome.err
    outcome = run("attack", "--input", path, "--person", "61", "--attack", "gi-lia")
    assert (outcome.code, "1 to 60" in outcome.err) == (2, True)


BAD = [
    (("--k", "ten"), 2, "--k takes whole numbers"),
    (("--tau", "0"), 2, "--tau takes a length greater than 0"),
    (("--tau", "0.5m"), 2, "at least 1 m"),
    (("--accounts", "0", "--attack", "adaptive"), 2, "1 to 32 accounts"),
    (("--instances", "-3"), 2, "at least one run and one instance"),
    (("--dataset", "gaussian"), 2, "--input cannot be used with --dataset"),
    (("--truth", "37.7,-122.4"), 2, "--truth needs --url or --adapter"),
    (("--trace", "picture.jpg"), 2, "ends in .png"),
    (("--region", "paris"), 3, "region"),
]


@pytest.mark.parametrize(("options", "code", "says"), BAD, ids=[" ".join(options) for options, _, _ in BAD])
def test_bad_input_is_one_sentence(run: Run, people_csv: Path, options: tuple[str, ...], code: int, says: str) -> None:
    outcome = run("attack", "--input", people_csv, *options)
    assert (outcome.code, outcome.out) == (code, "")
    assert outcome.err.startswith("error: ")
    assert says in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_intervals_of_another_region(run: Run, people_csv: Path, tmp_path: Path) -> None:
    intervals = tmp_path / "intervals.json"
    edges = "37.4,-122.7,38.0,-122.1"
    assert run("fit", people_csv, intervals, "--mechanism", "dprs", "--region", edges, "--set", "centres=60").code == 0
    outcome = run("attack", "--dataset", "gaussian", "--set", f"intervals={intervals}", *SMALL)
    assert (outcome.code, "another region" in outcome.err) == (2, True)


def test_everybody_at_one_point(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "one-point.csv"
    path.write_text("latitude,longitude\n" + "37.7,-122.4\n" * 30, encoding="utf-8")
    outcome = run("attack", "--input", path, "--k", 10, *SMALL)
    assert outcome.code == 0, outcome.err


def test_policies_by_parts_and_by_name(run: Run, people_csv: Path) -> None:
    few = ("attack", "--input", people_csv, "--attack", "gi-lia", "--json", *SMALL)
    (row,) = json.loads(run(*few, "--policy", "snap:100m,cutoff:2km").out)
    assert row["policy"] == "snap:100m,cutoff:2000m"
    (row,) = json.loads(run(*few, "--policy", "nearest-50-or-30km").out)
    assert row["policy"] == "cutoff:30000m,at-least:50"
    assert row["k"] == len(people_csv.read_text().splitlines()) - 1
