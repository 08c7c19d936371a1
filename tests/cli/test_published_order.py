"""What travels with a protected file: rows in random order, and no figure that was computed from true locations."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.isotonic import IsotonicRegression

from nearveil.io.files import read_people, write_people
from nearveil.io.people import Layout, LocationColumn, People
from nearveil.types import FloatArray
from tests.cli.conftest import Run
from tests.release.conftest import table_of

METRES_PER_DEGREE = 111_195.0
FORMATS = ["csv", "csv.gz", "geojson", "parquet", "geoparquet"]
PLANAR = ("--mechanism", "planar-laplace", "--noise", "500m")


@pytest.fixture
def northward(city: FloatArray) -> FloatArray:
    """People in a file sorted by place, from south to north."""
    return city[np.argsort(city[:, 0])].round(7)


@pytest.fixture
def source(northward: FloatArray, tmp_path: Path) -> Path:
    path = tmp_path / "in.parquet"
    pq.write_table(table_of(northward), path, row_group_size=500)
    return path


def north_south_error_m(published: FloatArray, true: FloatArray) -> float:
    """Median error of an attacker who takes row numbers for places in the order from south to north."""
    rows = np.arange(len(published))
    guess = IsotonicRegression().fit_transform(rows, published[:, 0])
    return float(np.median(np.abs(guess - true)) * METRES_PER_DEGREE)


@pytest.mark.parametrize("extension", FORMATS)
def test_the_order_of_rows_says_nothing(
    run: Run, source: Path, northward: FloatArray, tmp_path: Path, extension: str
) -> None:
    """The same attack finds people within some 60 m if the order is kept, and nothing if it is not.

    Row numbers and latitudes are as good as unrelated: a correlation of 5 standard deviations comes once in 10⁶ runs.
    """
    output = tmp_path / f"out.{extension}"
    assert run("protect", source, output, *PLANAR).code == 0
    people = read_people(output)
    ids = np.array([int(value) for value in people.carried["id"].to_pylist()])
    assert sorted(ids) == list(range(5000))
    # Everybody kept their own columns.
    moved_m = np.linalg.norm((people.points - northward[ids]) * [METRES_PER_DEGREE, 88_000], axis=1)
    assert 450 < moved_m.mean() < 550
    assert abs(np.corrcoef(np.arange(5000), ids)[0, 1]) < 5 / np.sqrt(5000)
    assert north_south_error_m(people.points, northward[ids, 0]) > 1000
    kept = tmp_path / f"kept.{extension}"
    assert run("protect", source, kept, *PLANAR, "--keep-order").code == 0
    people = read_people(kept)
    assert [int(value) for value in people.carried["id"].to_pylist()] == list(range(5000))
    assert north_south_error_m(people.points, northward[:, 0]) < 100


def test_row_groups_and_their_statistics_say_nothing(run: Run, source: Path, tmp_path: Path) -> None:
    """Row groups of the input are streets; those of the output all span the city, however they are cut."""
    run("protect", source, tmp_path / "out.parquet", *PLANAR)
    metadata = pq.ParquetFile(tmp_path / "out.parquet").metadata
    assert metadata.num_row_groups == 1
    column = metadata.row_group(0).column(0)
    assert (column.statistics.min, column.statistics.max) == (0, 4999)
    assert metadata.num_rows == 5000


def test_a_dictionary_does_not_list_categories_in_the_old_order(
    run: Run, northward: FloatArray, tmp_path: Path
) -> None:
    """Nor those of people who are not in the file. Parquet keeps the dictionary of a column of categories."""
    names = pa.array([f"p{row}" for row in range(5001)])
    ids = pa.DictionaryArray.from_arrays(pa.array(np.arange(5000)), names)
    within = pa.ListArray.from_arrays(np.arange(5001), ids)
    pq.write_table(table_of(northward).append_column("name", ids).append_column("all", within), tmp_path / "in.parquet")
    run("protect", tmp_path / "in.parquet", tmp_path / "out.parquet", *PLANAR)
    table = pq.read_table(tmp_path / "out.parquet", read_dictionary=["name"])
    listed = table["name"].combine_chunks().dictionary.to_pylist()
    assert listed == [f"p{row}" for row in table["id"].to_pylist()]
    assert table["all"].to_pylist() == [[name] for name in listed]
    assert b"p5000" not in (tmp_path / "out.parquet").read_bytes()


def test_the_card_says_what_a_kept_order_can_give_away(run: Run, source: Path, tmp_path: Path) -> None:
    for option, order in ((("--keep-order",), "kept"), ((), "random")):
        document = json.loads(run("protect", source, tmp_path / f"{order}.csv", *PLANAR, *option, "--json").out)
        assert document["order"] == order
        # Scripts read these two.
        assert document["epsilon_holds"] is (order == "random")
        assert (document["holds_for_these_people"] is None) is (order == "kept")
        said = any("order of the rows is kept" in note for note in document["guarantee"]["notes"])
        assert said is (order == "kept")


def test_intervals_of_unknown_people_may_be_of_these(run: Run, source: Path, tmp_path: Path) -> None:
    """What their fit cost counts, since nobody has said that these people were not in it."""
    assert run("fit", source, tmp_path / "i.json", "--epsilon", "0.5", "--person", "id").code == 0
    outcome = run("protect", source, tmp_path / "o.csv", "--intervals", tmp_path / "i.json", "--json")
    document = json.loads(outcome.out)
    assert (document["epsilon_holds"], document["fitted_on_these_people"]) == (False, None)
    holds = document["holds_for_these_people"]
    assert (holds["definition"], holds["offset"]) == ("metric", pytest.approx(1.0))


def test_a_column_that_has_the_order_is_warned_of(run: Run, source: Path, tmp_path: Path) -> None:
    outcome = run("protect", source, tmp_path / "out.csv", *PLANAR)
    assert "warning: the values of column 'id' follow people's places" in outcome.err
    assert not any(letter.isdigit() for letter in outcome.err)
    dropped = run("protect", source, tmp_path / "o.csv", *PLANAR, "--drop", "id", "--per-row")
    assert dropped.err == ""


@pytest.mark.parametrize("name", ["csv", "geojson", "parquet"])
@pytest.mark.parametrize("options", [PLANAR, ("--mechanism", "square", "--epsilon", 3)], ids=["planar", "square"])
def test_whatever_the_places_are_the_same_is_said(
    run: Run, city: FloatArray, tmp_path: Path, name: str, options: tuple[object, ...]
) -> None:
    """Two files with other places, one with rows that are clipped: one document, one card, one kind of metadata."""
    elsewhere = np.random.default_rng(3).uniform([37.70, -122.45], [37.71, -122.44], city.shape)
    elsewhere[:7] = (38.5, -121.0)
    said = []
    for places in (city, elsewhere):
        people = People(
            places.round(7),
            pa.table({"id": np.random.default_rng(4).permutation(len(places))}),
            Layout(latitude=LocationColumn("latitude", 1), longitude=LocationColumn("longitude", 2)),
        )
        write_people(people, tmp_path / f"in.{name}", force=True)
        outcome = run(
            *("protect", tmp_path / f"in.{name}", tmp_path / f"out.{name}", *options),
            *("--clip", "--person", "id", "--json", "--force"),
        )
        assert outcome.code == 0, outcome.err
        metadata = pq.read_schema(tmp_path / "out.parquet").metadata if name == "parquet" else None
        said.append((outcome.out, outcome.err, metadata))
    assert said[0] == said[1]


@pytest.mark.parametrize("what", ["ledger", "intervals", "region"])
def test_no_output_replaces_a_file_that_the_run_uses(
    run: Run, source: Path, people_csv: Path, tmp_path: Path, what: str
) -> None:
    """Not even with --force, and whatever way its name is written."""
    used = tmp_path / f"{what}.json"
    options: tuple[object, ...] = ("--intervals", used)
    if what == "intervals":
        assert run("fit", people_csv, used, "--set", "centres=50").code == 0
    elif what == "ledger":
        options = (*PLANAR, "--person", "id", "--ledger", used, "--budget", "metric:1/1d")
        assert run("protect", source, tmp_path / "before.csv", *options).code == 0
    else:
        used.write_text(json.dumps({"type": "Feature", "bbox": [-123, 37, -122, 38]}))
        options = (*PLANAR, "--region", used)
    before = used.read_bytes()
    other_name = tmp_path / "." / ".." / tmp_path.name / used.name
    over_it = run("protect", source, other_name, *options, "--force")
    assert (over_it.code, f"OUTPUT is the same file as the --{what}" in over_it.err) == (2, True)
    assert used.read_bytes() == before
    assert not (tmp_path / "out.csv").exists()
