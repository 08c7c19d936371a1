"""``--hide-among``: cells from true, public and published places, in files and on the command line."""

import json
from pathlib import Path

import numpy as np
import pytest

from nearveil.mechanisms.cells import Cells, load_cells
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.region import Region
from nearveil.types import FloatArray
from tests.cli.conftest import Run
from tests.cli.test_bad_input import check

pytestmark = pytest.mark.usefixtures("one_core")


@pytest.fixture(scope="module")
def cells(city: FloatArray, san_francisco: Region) -> Cells:
    return cells_from_points(city, san_francisco, CellPlan(hide_among=500))


@pytest.fixture
def cells_file(cells: Cells, tmp_path: Path) -> Path:
    path = tmp_path / "cells.geojson"
    cells.save(path)
    return path


def test_private_cells_cost_the_people_of_the_file(run: Run, people_csv: Path, tmp_path: Path) -> None:
    outcome = run(
        "protect", people_csv, tmp_path / "out.csv", "--hide-among", 500, "--set", "fit_epsilon=0.5", "--json"
    )
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["mechanism"] == "hide-among"
    assert document["epsilon"] is document["epsilon_per_km"] is None
    assert document["epsilon_per_step"] == document["guarantee"]["epsilon"] > 0
    assert document["epsilon_holds"] is False
    assert document["fitted_on_these_people"] is True
    assert document["holds_for_these_people"]["offset"] == 1.0
    assert document["guarantee"]["also"][0]["epsilon"] == 0.5


def test_free_cells_hold_for_everybody(run: Run, people_csv: Path, cells_file: Path, tmp_path: Path) -> None:
    """Loss per step is what was asked for, and nothing is lost to the cells."""
    outcome = run("protect", people_csv, tmp_path / "out.csv", "--cells", cells_file, "--epsilon", 2, "--json")
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["epsilon_holds"] is True
    assert document["fitted_on_these_people"] is False
    held = {"definition": "elastic", "epsilon": 2.0, "offset": 0.0, "unit": "per step", "delta": 0.0}
    assert document["holds_for_these_people"] == held


@pytest.mark.parametrize("extension", ["geojson", "json"])
def test_fit_writes_cells_that_maps_show_and_protect_reads(
    run: Run, people_csv: Path, tmp_path: Path, extension: str
) -> None:
    path = tmp_path / f"cells.{extension}"
    outcome = run("fit", people_csv, path, "--hide-among", 500, "--epsilon", 2, "--json")
    assert outcome.code == 0, outcome.err
    document, cells = json.loads(outcome.out), load_cells(path)
    assert (document["cells"], document["source"], document["epsilon"]) == (len(cells), "privtree", 2.0)
    assert (cells.fit_epsilon, cells.hide_among) == (2.0, 500)
    geopandas = pytest.importorskip("geopandas")
    shown = geopandas.read_file(path)
    assert len(shown) == len(cells)
    assert {"people", "side_m"} <= set(shown.columns)
    south_west = shown.geometry.bounds.iloc[0][["miny", "minx"]]
    assert np.allclose(south_west, cells.outlines()[0].min(axis=0), atol=1e-6)


def test_cells_from_public_data_and_published_places_cost_nothing(
    run: Run, people_csv: Path, city: FloatArray, tmp_path: Path
) -> None:
    """The same command form for both; the file takes the place of the input."""
    census = tmp_path / "census.csv"
    rows = np.column_stack([city, np.ones(len(city))])
    np.savetxt(census, rows, delimiter=",", header="latitude,longitude,n", comments="", fmt="%.6f")
    sources = {
        "public": ("--density", census, "--density-column", "n", "--set", "population=10000", "--least-cell", "300m"),
        "published": ("--published", census, "--published-within", "500m", "--least-cell", "300m"),
    }
    for source, options in sources.items():
        path = tmp_path / f"{source}.geojson"
        assert run("fit", "--hide-among", 500, *options, path).code == 0
        cells = load_cells(path)
        assert (cells.source, cells.is_free) == (source, True)
        assert cells.sides_m.min() >= 300
        assert np.isclose(cells.people.sum(), 10_000 if source == "public" else len(city), rtol=1e-3)
        outcome = run("protect", people_csv, tmp_path / f"{source}.csv", "--cells", path, "--json")
        assert outcome.code == 0, outcome.err
        assert json.loads(outcome.out)["epsilon_holds"] is True


OPTIONS_THAT_DO_NOT_GO_TOGETHER = [
    (("--hide-among", 1), 2, "from 2 to"),
    (("--hide-among", 100, "--noise", "500m"), 2, "no mechanism takes"),
    (("--mechanism", "hide-among", "--noise", "500m"), 2, "--noise cannot be used with hide-among"),
    (("--mechanism", "planar-laplace", "--hide-among", 100), 2, "--hide-among cannot be used with planar-laplace"),
    (("--cells", "cells.geojson", "--set", "fit_epsilon=1"), 2, "was made already"),
    (("--cells", "cells.geojson", "--region", "paris"), 2, "--region differs from that of the cells file"),
    (("--set", "least_cell_m=9km"), 2, "must not be greater than the largest"),
    (("--hide-among", 6_000, "--cells", "cells.geojson"), 2, "about 5,000 people, fewer than the 6,000"),
    (("--hide-among", 100_000), 2, "fewer than the 100,000 to hide among"),
    (("--cells", "d.csv"), 2, "a file of cells is GeoJSON"),
    (("--cells", "torn.geojson"), 3, "the cells do not cover the region"),
]


@pytest.mark.usefixtures("cells_file")
@pytest.mark.parametrize(("options", "code", "words"), OPTIONS_THAT_DO_NOT_GO_TOGETHER)
def test_bad_input(
    run: Run, people_csv: Path, cells: Cells, monkeypatch: pytest.MonkeyPatch, options: tuple[object, ...], code: int,
    words: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(people_csv.parent)
    Path("d.csv").write_text("lat,lon,count\n37.7,-122.4,0\n")
    torn = json.loads(cells.to_json())
    torn["nearveil"]["depths"].pop()
    torn["nearveil"]["people"].pop()
    Path("torn.geojson").write_text(json.dumps(torn))
    check(run("protect", "people.csv", "out.csv", *options), code, words)
    assert not Path("out.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("people.csv",), 2, "name INPUT"),
        (("--density", "d.csv", "d.csv", "out.geojson"), 2, "--density takes the place of INPUT"),
        (("--density", "d.csv", "out.geojson", "--epsilon", 1), 2, "such cells cost nobody anything"),
        (("--density", "d.csv", "--published", "d.csv", "out.geojson"), 2, "give one of them"),
        (("--published", "d.csv", "out.geojson"), 2, "go together"),
        (("people.csv", "out.geojson", "--density-column", "n"), 2, "is for --density"),
        (("--density", "d.csv", "out.geojson"), 3, "all counts of the density are 0"),
        (("--density", "elsewhere.csv", "out.geojson"), 3, "nobody inside the region"),
        (("people.csv", "out.csv", "--hide-among", 100), 2, "a file of cells is GeoJSON"),
        (("people.csv", "out.geojson", "--hide-among", 100_000), 2, "fewer than the 100,000"),
    ],
)
def test_fits_that_are_refused(
    run: Run, people_csv: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...], code: int, words: str
) -> None:
    monkeypatch.chdir(people_csv.parent)
    Path("d.csv").write_text("lat,lon,count\n37.7,-122.4,0\n")
    Path("elsewhere.csv").write_text("lat,lon,count\n48.8,2.3,5\n")
    check(run("fit", *arguments), code, words)
    assert not list(Path().glob("out*"))


def test_a_ledger_charges_steps_and_the_fit(run: Run, people_csv: Path, cells_file: Path, tmp_path: Path) -> None:
    """2 per step fit into 5 twice and not thrice; private cells are charged when they are fitted."""
    charged = ("--person", "id", "--ledger", tmp_path / "ledger")
    release = ("--cells", cells_file, "--epsilon", 2, *charged, "--budget", "elastic:5/30d")
    for number in (1, 2):
        assert run("protect", people_csv, tmp_path / f"{number}.csv", *release).code == 0
    refused = run("protect", people_csv, tmp_path / "3.csv", *release)
    assert refused.code == 5
    assert f"the {PrivacyDefinition.ELASTIC} budget" in refused.err
    fit = ("--hide-among", 500, *charged, "--budget", "central:1.5/30d")
    assert run("fit", people_csv, tmp_path / "a.geojson", *fit).code == 0
    assert run("fit", people_csv, tmp_path / "b.geojson", *fit).code == 5
    assert not (tmp_path / "b.geojson").exists()


def test_an_elastic_claim_about_a_function_is_audited_and_checked_with_its_cells(
    run: Run, cells_file: Path, city: FloatArray, san_francisco: Region, tmp_path: Path
) -> None:
    """Noise of 300 m hides nobody among 500 people: a violation, whose witness is checked with the same cells."""
    (tmp_path / "noise.py").write_text(
        "import nearveil as nv\nmechanism = nv.PlanarLaplace(300, 'san-francisco')\n"
        "def publish(points, rng):\n    return mechanism.perturb(points, rng)\n"
    )
    function, witness = f"{tmp_path / 'noise.py'}:publish", tmp_path / "witness.json"
    found = run(
        "audit", "--callable", function, "--claim", "elastic:1", "--cells", cells_file, "--samples", 60_000,
        "--seed", 1, "--witness", witness,
    )  # fmt: skip
    assert found.code == 1, found.out + found.err
    assert "per step" in found.out
    again = run("audit", "--check", witness, "--callable", function, "--cells", cells_file, "--samples", 60_000)
    assert again.code == 1, again.out + again.err
    check(run("audit", "--check", witness, "--callable", function), 2, "give the cells")
    other_cells = cells_from_points(city[:1000], san_francisco, CellPlan(hide_among=500))
    other_cells.save(tmp_path / "other.geojson")
    other = ("--cells", tmp_path / "other.geojson")
    check(run("audit", "--check", witness, "--callable", function, *other), 2, "between other cells than these")
