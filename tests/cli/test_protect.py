import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nearveil.io.files import read_people
from tests.cli.conftest import Run

FEW = ("--set", "centres=100")
PLANAR = ("--mechanism", "planar-laplace", "--noise", "500m")


KEYS = {
    "epsilon_holds",
    "rows",
    "mechanism",
    "release",
    "epsilon",
    "delta",
    "seeded",
    "order",
    "guarantee",
}


@pytest.mark.parametrize(
    ("options", "mechanism", "release", "definition"),
    [
        ((), "planar-laplace", None, "metric"),
        (("--noise", "0.5km"), "planar-laplace", None, "metric"),
        (("--set", "epsilon_per_km=4"), "planar-laplace", None, "metric"),
        # What planar Laplace does not have selects DPRS.
        (("--mechanism", "dprs"), "dprs", "metric", "metric"),
        (("--set", "centres=60", "--noise", "500m"), "dprs", "metric", "metric"),
        (("--set", "fit_epsilon=0.5"), "dprs", "metric", "metric"),
        (("--set", "epsilon_per_km=4", "--set", "fit_epsilon=0.5"), "dprs", "metric", "metric"),
        (("--epsilon", 1), "dprs", "interval", "interval"),
        (("--set", "noise=gaussian", "--set", "fit_method=pic", "--set", "rounds=3"), "dprs", "interval", "interval"),
        (("--set", "release=paper"), "dprs", "paper", "interval"),
        (("--set", "release=paper", "--set", "noise=gaussian", "--set", "delta=1e-6"), "dprs", "paper", "interval"),
        (("--set", "fit_method=private-grid", "--set", "population=5000"), "dprs", "metric", "metric"),
        (
            ("--set", "release=paper", "--set", "gamma=0.8", "--set", "rounds=3"),
            "dprs",
            "paper",
            "interval",
        ),
        (("--set", "least_radius_m=200m", "--epsilon", 2), "dprs", "interval", "interval"),
        (("--mechanism", "planar-laplace", "--set", "epsilon_per_km=4"), "planar-laplace", None, "metric"),
        (("--mechanism", "laplace", "--epsilon", 2), "laplace", None, "local"),
        (("--mechanism", "srr"), "srr", None, "local"),
        (("--mechanism", "square", "--epsilon", 0.5), "square", None, "local"),
    ],
)
def test_json_for_machines(
    run: Run,
    people_csv: Path,
    tmp_path: Path,
    options: tuple[object, ...],
    mechanism: str,
    release: str | None,
    definition: str,
) -> None:
    outcome = run("protect", people_csv, tmp_path / "out.csv", *options, "--seed", 3, "--json")
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)
    assert set(document) >= KEYS
    assert (document["rows"], document["mechanism"], document["seeded"]) == (5000, mechanism, True)
    assert document["guarantee"]["definition"] == definition
    assert document["release"] == release
    # Seeded, so it protects nobody, whatever the mechanism.
    assert (document["epsilon_holds"], document["holds_for_these_people"]) == (False, None)
    assert (document["epsilon"] is None) is (definition == "metric")
    assert document["epsilon_per_km"] == (pytest.approx(4.0) if definition == "metric" else None)


@pytest.mark.parametrize(
    ("options", "epsilon", "offset", "own"),
    [
        ((), 0.004, 0.0, True),
        (("--set", "release=metric"), 0.004, 2.0, False),
        (("--epsilon", 1, "--set", "fit_epsilon=0.5"), 2.0, 0.0, False),
        (("--mechanism", "square"), 1.0, 0.0, True),
        (("--mechanism", "planar-laplace"), 0.004, 0.0, True),
    ],
)
def test_json_says_what_holds_for_the_people_of_the_file(
    run: Run, people_csv: Path, tmp_path: Path, options: tuple[object, ...], epsilon: float, offset: float, own: bool
) -> None:
    """Who was fitted on loses what the intervals tell, too: twice the fit's epsilon on top."""
    document = json.loads(run("protect", people_csv, tmp_path / "out.csv", *options, "--json").out)
    holds = document["holds_for_these_people"]
    assert (holds["epsilon"], holds["offset"]) == (pytest.approx(epsilon), pytest.approx(offset))
    assert document["epsilon_holds"] is own


def test_per_row_budgets_are_not_called_per_person(run: Run, people_csv: Path, tmp_path: Path) -> None:
    outcome = run("protect", people_csv, tmp_path / "o.csv", "--epsilon", 1, "--per-row", "--json", *FEW)
    guarantee = json.loads(outcome.out)["guarantee"]
    assert {guarantee["unit"], *(other["unit"] for other in guarantee["also"])} == {"per row"}
    assert all(statement["counted"] == "rows" for statement in (guarantee, *guarantee["also"]))


def test_a_forgotten_person_column_is_noticed(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("user_id,lat,lon\na,37.7,-122.4\na,37.6,-122.3\n")
    outcome = run("protect", source, tmp_path / "o.csv", *PLANAR)
    assert outcome.code == 0
    assert "warning: column 'user_id' looks like a person's id and repeats" in outcome.err
    assert "rows compose" in " ".join(outcome.out.replace("│", " ").split())


def test_a_persons_id_that_is_left_out_is_warned_of(run: Run, people_csv: Path, tmp_path: Path) -> None:
    """Nobody has looked whether a person has several rows."""
    left_out = run("protect", people_csv, tmp_path / "a.csv", *PLANAR, "--drop", "id")
    assert "warning: column 'id' looks like a person's id and was left out unread" in left_out.err
    assert run("protect", people_csv, tmp_path / "b.csv", *PLANAR, "--drop", "id", "--per-row").err == ""


def test_clip_only_when_asked(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("lat,lon\n37.7,-122.4\n38.7,-122.4\n")
    refused = run("protect", source, tmp_path / "o.csv", *PLANAR)
    assert (refused.code, "row 2 lies outside" in refused.err) == (3, True)
    clipped = run("protect", source, tmp_path / "o.csv", *PLANAR, "--clip", "--json")
    # The card says that it may have happened, and not whether and how often it did.
    notes = json.loads(clipped.out)["guarantee"]["notes"]
    source.write_text("lat,lon\n37.7,-122.4\n37.7,-122.4\n")
    inside = run("protect", source, tmp_path / "p.csv", *PLANAR, "--clip", "--json")
    assert any("outside the region are moved to its edge" in note for note in notes)
    assert json.loads(inside.out)["guarantee"]["notes"] == notes


def test_antimeridian(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "fiji.csv"
    source.write_text("lat,lon\n-17,179.999\n-17,-179.999\n")
    for region in ("fiji", "-19.5,176.8,-15.5,-178"):
        outcome = run("protect", source, tmp_path / "o.csv", *PLANAR, "--force", "--region", region)
        assert outcome.code == 0, outcome.err
    assert (np.abs(read_people(tmp_path / "o.csv").points[:, 1]) > 179).all()


def test_without_a_region_planar_laplace_publishes_anywhere_and_others_ask_for_one(run: Run, tmp_path: Path) -> None:
    source, output = tmp_path / "people.csv", tmp_path / "o.csv"
    source.write_text("lat,lon\n52.5,13.4\n35.7,139.7\n-17,179.9999\n90,0\n")
    outcome = run("protect", source, output, "--json", names_region=False)
    assert outcome.code == 0, outcome.err
    released = json.loads(outcome.out)
    assert (released["mechanism"], released["region"], released["rows"]) == ("planar-laplace", "the whole Earth", 4)
    assert (np.abs(read_people(output).points) <= (90, 180)).all()
    for options in (["--mechanism", "square"], ["--epsilon", 1], ["--hide-among", 100]):
        refused = run("protect", source, tmp_path / "other.csv", *options, names_region=False)
        assert (refused.code, "name the public region with --region" in refused.err) == (2, True)
    assert "name the public region with --region" in run("fit", source, tmp_path / "o.json", names_region=False).err
    assert "too far apart for one plan" in run("plan", source, "--noise", "500m", names_region=False).err


def test_as_an_installed_command(people_csv: Path, tmp_path: Path) -> None:
    """Through a real process: JSON alone on standard output, no progress bar where there is no terminal."""
    command = [sys.executable, "-c", "from nearveil.cli.main import main; main()"]
    arguments = ["protect", str(people_csv), str(tmp_path / "out.csv"), "--set", "centres=100", "--json"]
    arguments += ["--region", "san-francisco"]
    result = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["rows"] == 5000
    assert result.stderr == ""
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "out.csv").stat().st_mode & 0o777 == 0o666 & ~umask
