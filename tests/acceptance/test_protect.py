"""``nearveil protect``: files in, noisy files out, and nothing true in between."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
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
    assert result.out.startswith(f"300 locations published in {output}, moved 500 m on average.\n")
    rows = read_csv(output, separator)
    assert list(rows[0]) == ["id", "latitude", "longitude", "age"]
    assert {row["id"]: row["age"] for row in rows} == {row["id"]: row["age"] for row in read_csv(source, separator)}
    check_moved(users, in_order(rows))
    check_hidden(users, output.read_text(), result.out, result.err)


def test_columns_are_left_out_unless_they_are_named(users_csv: Path, tmp_path: Path) -> None:
    result = done("protect", users_csv, tmp_path / "out.csv")
    assert list(read_csv(tmp_path / "out.csv")[0]) == ["latitude", "longitude"]
    assert "Left out: id, age." in result.out
    assert "The guarantee counts rows" in result.out
    done("protect", users_csv, tmp_path / "all.csv", "--keep-all")
    assert list(read_csv(tmp_path / "all.csv")[0]) == ["id", "latitude", "longitude", "age"]


def test_a_geojson_file_stays_one(users: Array, tmp_path: Path) -> None:
    features = [
        {
            "type": "Feature",
            "properties": {"id": f"u{number}"},
            "geometry": {"type": "Point", "coordinates": [longitude, latitude]},
        }
        for number, (latitude, longitude) in enumerate(users)
    ]
    source = tmp_path / "users.geojson"
    source.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    done("protect", source, tmp_path / "out.geojson", "--user", "id")
    published = json.loads((tmp_path / "out.geojson").read_text())
    assert published["type"] == "FeatureCollection"
    rows = [
        {
            "id": each["properties"]["id"],
            "latitude": each["geometry"]["coordinates"][1],
            "longitude": each["geometry"]["coordinates"][0],
        }
        for each in published["features"]
    ]
    check_moved(users, in_order(rows))


def test_a_parquet_file_keeps_its_types(users: Array, tmp_path: Path) -> None:
    ids = [f"u{number}" for number in range(len(users))]
    table = pa.table({"id": ids, "latitude": users[:, 0], "longitude": users[:, 1], "score": np.arange(len(users))})
    pq.write_table(table, tmp_path / "users.parquet")
    done("protect", tmp_path / "users.parquet", tmp_path / "out.parquet", "--user", "id", "--keep", "score")
    published = pq.read_table(tmp_path / "out.parquet")
    assert published.schema.types == table.schema.types
    check_moved(users, in_order(published.to_pylist()))
    footer = (tmp_path / "out.parquet").read_bytes()
    # A footer of true locations would have the least and the greatest of them.
    assert users[:, 0].min().tobytes() not in footer
    assert users[:, 1].max().tobytes() not in footer


def test_standard_input_and_output(users_csv: Path, users: Array, tmp_path: Path) -> None:
    result = run_process("protect", "-", "-", "--user", "id", stdin=users_csv.read_bytes())
    assert result.returncode == 0, result.stderr
    (tmp_path / "out.csv").write_bytes(result.stdout)
    check_moved(users, in_order(read_csv(tmp_path / "out.csv")))


def test_one_column_with_both_coordinates(users: Array, tmp_path: Path) -> None:
    source = tmp_path / "users.csv"
    source.write_text("id,spot\n" + "".join(f"u{i},POINT ({lon} {lat})\n" for i, (lat, lon) in enumerate(users)))
    done("protect", source, tmp_path / "out.csv", "--location", "spot", "--user", "id")
    rows = read_csv(tmp_path / "out.csv")
    published = {row["id"]: [float(x) for x in row["spot"].removeprefix("POINT (").strip(")").split()] for row in rows}
    check_moved(users, np.array([published[f"u{number}"][::-1] for number in range(len(users))]))


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
    orders, locations = [], []
    for name in ("1.csv", "2.csv"):
        done("protect", users_csv, tmp_path / name, "--user", "id")
        rows = read_csv(tmp_path / name)
        orders.append([row["id"] for row in rows])
        locations.append(in_order(rows))
    assert (distances_m(*locations) > 0.1).mean() > 0.99
    original = [f"u{number}" for number in range(len(users))]
    assert orders[0] != orders[1]
    for order in orders:
        # Of a random order about one row is where it was; twenty or more are with probability below 1e-18.
        assert sum(a == b for a, b in zip(order, original, strict=True)) < 20


def test_a_seed_repeats_and_says_that_it_protects_nobody(users_csv: Path, tmp_path: Path) -> None:
    notes = [
        done("protect", users_csv, tmp_path / f"{n}.csv", "--seed", 5, "--json").json["guarantee"]["notes"]
        for n in (1, 2)
    ]
    assert (tmp_path / "1.csv").read_bytes() == (tmp_path / "2.csv").read_bytes()
    done("protect", users_csv, tmp_path / "3.csv", "--seed", 6)
    assert (tmp_path / "1.csv").read_bytes() != (tmp_path / "3.csv").read_bytes()
    assert any("protects nobody" in note for note in notes[0])


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
    refused = run("protect", source, tmp_path / "o.csv", "--user", "id", "--mechanism", "square", "--region", "berlin")
    assert refused.code in (2, 3)


def test_a_column_that_repeats_the_location_is_not_published(tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("latitude,longitude,lat2,lon2\n37.71,-122.41,37.71,-122.41\n")
    result = run("protect", tmp_path / "users.csv", tmp_path / "out.csv", "--keep", "lat2", "--keep", "lon2")
    assert result.code == 3
    assert not (tmp_path / "out.csv").exists()


def test_rows_that_cannot_be_used_are_left_out_and_nothing_of_them_gets_out(users: Array, tmp_path: Path) -> None:
    source = write_csv(tmp_path / "users.csv", users)
    with source.open("a") as file:
        file.write("u998,37.7654321,none,20\nu999,,-122.4321987,20\n")
    assert run("protect", source, tmp_path / "out.csv").code == 3
    assert not (tmp_path / "out.csv").exists()
    result = done("protect", source, tmp_path / "out.csv", "--skip-bad")
    assert len(read_csv(tmp_path / "out.csv")) == len(users)
    assert "301" in result.err
    for text in ((tmp_path / "out.csv").read_text(), result.out, result.err):
        assert "37.7654321" not in text
        assert "122.4321987" not in text


# -- budgets --------------------------------------------------------------------------------------------------------


def test_a_ledger_refuses_what_exceeds_the_budget(users_csv: Path, users: Array, tmp_path: Path) -> None:
    """Noise of 500 m costs 0.004 per meter: two releases fit into 0.009, and a third does not."""
    arguments = ("--user", "id", "--ledger", tmp_path / "ledger", "--budget", "metric:0.009/30d")
    for name in ("1.csv", "2.csv"):
        done("protect", users_csv, tmp_path / name, *arguments)
    before = (tmp_path / "2.csv").read_bytes()
    refused = run("protect", users_csv, tmp_path / "3.csv", *arguments)
    assert refused.code == 5
    assert not (tmp_path / "3.csv").exists()
    assert run("protect", users_csv, tmp_path / "2.csv", "--force", *arguments).code == 5
    assert (tmp_path / "2.csv").read_bytes() == before
    check_hidden(users, refused.out, refused.err)
    # Other users have a budget of their own.
    (tmp_path / "new.csv").write_text("id,latitude,longitude\nnewcomer,37.7,-122.4\n")
    done("protect", tmp_path / "new.csv", tmp_path / "4.csv", *arguments)


# -- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "options", "code"),
    [
        ("", (), 3),
        ("id,latitude,longitude\nu1,37.7123,x\n", (), 3),
        ("id,latitude,longitude\nu1,137.7123,-122.4\n", (), 3),
        ("id,a,b\nu1,37.7123,-122.4\n", (), 3),
        ("id,latitude,longitude\nu1,57.7123,-122.4\n", ("--region", REGION), 3),
        ("id,latitude,longitude\nu1,37.7123,-122.4\n", ("--user", "user"), 3),
        ("id,latitude,longitude\nu1,37.7123,-122.4\n", ("--noise", "-5m"), 2),
        ("id,latitude,longitude\nu1,37.7123,-122.4\n", ("--no-such-option",), 2),
        ("id,latitude,longitude\nu1,37.7123,-122.4\n", ("--mechanism", "magic"), 2),
        ("id,latitude,longitude\nu1,37.7123,-122.4\n", ("--region", "atlantis"), 2),
        ("id,latitude,longitude\nu1,37.7123,-122.4\n", ("--ledger", "ledger"), 2),
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


def test_files_that_cannot_be_read_or_written(users_csv: Path, tmp_path: Path) -> None:
    assert run("protect", tmp_path / "nothing.csv", tmp_path / "out.csv").code == 3
    assert run("protect", users_csv, tmp_path / "out.xyz").code == 2
    assert run("protect", users_csv, tmp_path / "no" / "folder" / "out.csv").code == 4
    assert [path.name for path in tmp_path.iterdir()] == ["users.csv"]


def test_an_output_that_exists_is_kept_unless_forced(users_csv: Path, tmp_path: Path) -> None:
    (tmp_path / "out.csv").write_text("mine")
    assert run("protect", users_csv, tmp_path / "out.csv").code == 4
    assert (tmp_path / "out.csv").read_text() == "mine"
    done("protect", users_csv, tmp_path / "out.csv", "--force")
    assert len(read_csv(tmp_path / "out.csv")) == 300
