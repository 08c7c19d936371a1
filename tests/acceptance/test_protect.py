"""``nearveil protect``: files in, noisy files out, and nothing true in between."""

from pathlib import Path

import numpy as np
import pytest

from tests.acceptance.helpers import (
    REGION,
    Array,
    check_hidden,
    check_moved,
    check_planar_laplace,
    distances_m,
    done,
    in_order,
    read_csv,
    run,
    run_process,
    write_csv,
)

# -- formats --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "separator"), [("csv", ","), ("tsv", "\t")])
def test_a_text_file_loses_its_locations_and_keeps_the_columns_named(
    users: Array, tmp_path: Path, name: str, separator: str
) -> None:
    source, output = write_csv(tmp_path / f"users.{name}", users, separator), tmp_path / f"out.{name}"
    result = done("protect", source, output, "--user", "id", "--keep", "age")
    assert result.out.startswith(f"300 locations published in {output}, moved 500 m on average")
    rows = read_csv(output, separator)
    assert list(rows[0]) == ["id", "latitude", "longitude", "age"]
    assert {row["id"]: row["age"] for row in rows} == {row["id"]: row["age"] for row in read_csv(source, separator)}
    check_moved(users, in_order(rows))
    check_hidden(users, output.read_text(), result.out, result.err)


def test_standard_input_and_output(users_csv: Path, users: Array, tmp_path: Path) -> None:
    result = run_process("protect", "-", "-", "--user", "id", stdin=users_csv.read_bytes())
    assert result.returncode == 0, result.stderr
    (tmp_path / "out.csv").write_bytes(result.stdout)
    check_moved(users, in_order(read_csv(tmp_path / "out.csv")))


# -- noise ----------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize(("options", "noise_m"), [((), 500), (("--noise", "1.5km"), 1500)])
def test_noise_has_the_mean_that_is_asked_for(
    many_csv: Path, many_users: Array, tmp_path: Path, options: tuple[str, ...], noise_m: float
) -> None:
    """500 m where nothing is said (false alarms: 1.2e-6 each)."""
    result = done("protect", many_csv, tmp_path / "out.csv", "--user", "id", "--json", *options)
    check_planar_laplace(distances_m(many_users, in_order(read_csv(tmp_path / "out.csv"))), noise_m)
    assert result.json["rows"] == len(many_users)
    assert result.json["guarantee"]["epsilon"] == pytest.approx(2 / noise_m, rel=0.01)


def test_noise_is_new_each_time_and_rows_are_shuffled(users_csv: Path, users: Array, tmp_path: Path) -> None:
    for name in ("1.csv", "2.csv"):
        done("protect", users_csv, tmp_path / name, "--user", "id")
    first, second = (read_csv(tmp_path / name) for name in ("1.csv", "2.csv"))
    assert (distances_m(in_order(first), in_order(second)) > 0.1).mean() > 0.99
    # Of a random order about one row is where it was; twenty or more are with probability below 1e-18.
    assert sum(row["id"] == f"u{number}" for number, row in enumerate(first)) < 20
    assert sum(a["id"] == b["id"] for a, b in zip(first, second, strict=True)) < 20


@pytest.mark.parametrize(
    "options", [("--hide-among", 30), *(("--mechanism", name, "--epsilon", 1) for name in ("dprs", "srr", "square"))]
)
def test_mechanisms_by_name(users_csv: Path, users: Array, tmp_path: Path, options: tuple[object, ...]) -> None:
    arguments = ("--region", REGION, "--user", "id", *options)
    assert done("protect", users_csv, tmp_path / "out.csv", *arguments, "--json").json["rows"] == len(users)
    check_moved(users, in_order(read_csv(tmp_path / "out.csv")))


# -- users and columns ----------------------------------------------------------------------------------------------


def test_rows_of_one_place_get_one_location_and_the_guarantee_counts_places(users: Array, tmp_path: Path) -> None:
    """Nine users have five places each, far apart, and visit each of them several times."""
    visits = np.array([(user, place) for user in range(9) for place in range(5) for _ in range(3)])
    source = tmp_path / "visits.csv"
    lines = (f"u{user},{40 + place},{users[user, 1]:.7f}" for user, place in visits)
    source.write_text("id,latitude,longitude\n" + "\n".join(lines) + "\n")
    result = done("protect", source, tmp_path / "out.csv", "--user", "id", "--json").json
    rows = read_csv(tmp_path / "out.csv")
    assert result["rows"] == len(rows) == len(visits)
    assert len({(row["id"], row["latitude"], row["longitude"]) for row in rows}) == 9 * 5
    assert (result["guarantee"]["counted"], result["guarantee"]["most_places"]) == ("places", 5)


# -- budgets --------------------------------------------------------------------------------------------------------


def test_a_ledger_refuses_what_exceeds_the_budget(users_csv: Path, users: Array, tmp_path: Path) -> None:
    """Noise of 500 m costs 0.004 per meter: two releases fit into 0.009, and a third does not."""
    arguments = ("--user", "id", "--ledger", tmp_path / "ledger", "--budget", "metric:0.009/30d")
    for name in ("1.csv", "2.csv"):
        done("protect", users_csv, tmp_path / name, *arguments)
    refused = run("protect", users_csv, tmp_path / "3.csv", *arguments)
    assert (refused.code, (tmp_path / "3.csv").exists()) == (5, False)
    check_hidden(users, refused.out, refused.err)


# -- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "options", "code"),
    [
        ("", (), 3),
        ("id,latitude,longitude\nu1,37.7123,x\n", (), 3),
        ("id,a,b\nu1,37.7123,-122.4\n", (), 3),
        ("id,latitude,longitude\nu1,57.7123,-122.4\n", ("--region", REGION), 3),
        ("id,latitude,longitude\nu1,37.7123,-122.4\n", ("--user", "user"), 3),
    ],
)
def test_bad_input_has_an_exit_code_and_leaves_nothing(
    tmp_path: Path, content: str, options: tuple[str, ...], code: int
) -> None:
    (tmp_path / "users.csv").write_text(content)
    result = run("protect", tmp_path / "users.csv", tmp_path / "out.csv", *options)
    assert (result.code, result.out) == (code, "")
    assert result.err
    assert "7123" not in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["users.csv"]


def test_an_output_that_exists_is_kept_unless_forced(users_csv: Path, tmp_path: Path) -> None:
    (tmp_path / "out.csv").write_text("mine")
    assert run("protect", users_csv, tmp_path / "out.csv").code == 4
    assert (tmp_path / "out.csv").read_text() == "mine"
    done("protect", users_csv, tmp_path / "out.csv", "--force")
    assert len(read_csv(tmp_path / "out.csv")) == 300
