"""``nearveil fit``: intervals and cells from true, public and published locations, and how other commands use them."""

import json
from pathlib import Path

import numpy as np
import pytest

from nearveil.mechanisms.cells import Cells, load_cells
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points
from nearveil.mechanisms.intervals import intervals_from_json
from nearveil.region import Region
from nearveil.types import FloatArray
from tests.cli.conftest import Run, check

pytestmark = pytest.mark.usefixtures("one_core")


@pytest.fixture(scope="module")
def cells(city: FloatArray, san_francisco: Region) -> Cells:
    return cells_from_points(city, san_francisco, CellPlan(hide_among=500))


@pytest.fixture
def cells_file(cells: Cells, tmp_path: Path) -> Path:
    path = tmp_path / "cells.geojson"
    cells.save(path)
    return path


@pytest.mark.parametrize("method", ["pic", "private-grid"])
def test_intervals(run: Run, people_csv: Path, tmp_path: Path, method: str) -> None:
    output = tmp_path / "intervals.json"
    fit = ("fit", people_csv, output, "--mechanism", "dprs", "--set", f"fit_method={method}", "--set", "centres=60")
    outcome = run(*fit, "--epsilon", 0.7, "--user", "id", "--json")
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["epsilon"] == pytest.approx(0.7, rel=1e-6)
    assert len(intervals_from_json(output.read_text())) == 60
    check(run(*fit), 4, "exists")
    shown = run(*fit, "--force").out
    assert shown.splitlines()[0].endswith(f"written to {output}.")
    assert "The guarantee counts rows" in shown
    used = run("protect", people_csv, tmp_path / "out.csv", "--intervals", output, "--epsilon", 1, "--json")
    assert json.loads(used.out)["mechanism"] == "dprs"


def test_cells(run: Run, people_csv: Path, tmp_path: Path) -> None:
    path = tmp_path / "cells.geojson"
    outcome = run("fit", people_csv, path, "--hide-among", 500, "--epsilon", 2, "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["epsilon"] == 2.0
    cells = load_cells(path)
    assert (cells.source, cells.fit_epsilon, cells.hide_among) == ("privtree", 2.0, 500)
    used = json.loads(run("protect", people_csv, tmp_path / "out.csv", "--cells", path, "--json").out)
    assert used["mechanism"] == "hide-among"


def test_cells_from_public_data_and_published_locations_cost_nothing(
    run: Run, city: FloatArray, tmp_path: Path
) -> None:
    census = tmp_path / "census.csv"
    rows = np.column_stack([city, np.ones(len(city))])
    np.savetxt(census, rows, delimiter=",", header="latitude,longitude,n", comments="", fmt="%.6f")
    sources = {
        "public": ("--public", "--counts", "n", "--population", 10_000),
        "published": ("--published", "500m"),
    }
    for source, options in sources.items():
        path = tmp_path / f"{source}.geojson"
        outcome = run("fit", census, path, "--hide-among", 500, *options, "--set", "least_cell_m=300m")
        assert outcome.code == 0, outcome.err
        assert "counts rows" not in outcome.out
        cells = load_cells(path)
        assert (cells.source, cells.is_free) == (source, True)
        assert cells.sides_m.min() >= 300
        assert np.isclose(cells.people.sum(), 10_000 if source == "public" else len(city), rtol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("people.csv", "out.json"), 2, "--mechanism dprs for intervals, or --hide-among 100"),
        (("people.csv", "out.csv", "--mechanism", "dprs"), 2, ".json"),
        (("people.csv", "out.csv", "--hide-among", 100), 2, "a file of cells is GeoJSON"),
        (("people.csv", "out.json", "--mechanism", "dprs", "--set", "centers=9"), 2, "did you mean centres?"),
        (("people.csv", "out.json", "--mechanism", "dprs", "--hide-among", 9), 2, "--hide-among cannot be used with"),
        (("people.csv", "out.geojson", "--hide-among", 100, "--counts", "n"), 2, "are for --public"),
        (("d.csv", "out.json", "--mechanism", "dprs", "--public"), 2, "add --hide-among 100"),
        (("d.csv", "out.geojson", "--hide-among", 100, "--public", "--epsilon", 1), 2, "--epsilon is not for public"),
        (("d.csv", "d.csv", "--hide-among", 100, "--public"), 2, "OUTPUT is the same file as INPUT"),
        (("d.csv", "out.geojson", "--hide-among", 100, "--public"), 3, "all counts of the density are 0"),
    ],
)
def test_fits_that_are_refused(
    run: Run, people_csv: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...], code: int, words: str
) -> None:
    monkeypatch.chdir(people_csv.parent)
    Path("d.csv").write_text("lat,lon,count\n37.7,-122.4,0\n")
    refused = run("fit", *arguments)
    assert (refused.code, refused.out, words in refused.err) == (code, "", True), refused.err
    assert not list(Path().glob("out*"))


@pytest.mark.usefixtures("cells_file")
@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--hide-among", 100, "--noise", "500m"), 2, "--noise cannot be used with hide-among"),
        (("--mechanism", "planar-laplace", "--hide-among", 100), 2, "--hide-among cannot be used with planar-laplace"),
        (("--mechanism", "srr", "--cells", "cells.geojson"), 2, "--cells cannot be used with srr"),
        (("--cells", "cells.geojson", "--region", "paris"), 2, "--region is not the region of the file"),
        (("--intervals", "d.csv"), 3, "not an intervals file"),
    ],
)
def test_files_and_options_that_do_not_go_together(
    run: Run, people_csv: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[object, ...], code: int, words: str
) -> None:
    monkeypatch.chdir(people_csv.parent)
    Path("d.csv").write_text("lat,lon,count\n37.7,-122.4,0\n")
    check(run("protect", "people.csv", "out.csv", *options), code, words)
    assert not Path("out.csv").exists()
