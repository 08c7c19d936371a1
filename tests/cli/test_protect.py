"""``nearveil protect``: what it prints, which mechanism it takes, and which files it leaves alone."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nearveil.errors import DataError
from nearveil.types import FloatArray
from tests.cli.conftest import Run, check

COMMAND = [sys.executable, "-c", "from nearveil.cli.main import main; main()"]
# Ends its own process right after the first locations are written.
CUT_SHORT = """
import os, sys
from nearveil.cli.main import main
from nearveil.io.writers import Writer
number = int(sys.argv.pop(1))
for kind in (Writer, *Writer.__subclasses__()):
    if "write" in vars(kind):
        def stopping(self, batch, write=kind.write):
            write(self, batch)
            os.kill(os.getpid(), number)
        kind.write = stopping
main()
"""
REGION = ("--region", "san-francisco")


@pytest.fixture
def visits_csv(tmp_path: Path) -> Path:
    """Two users, one of them with two rows, and columns besides."""
    path = tmp_path / "visits.csv"
    path.write_text(
        "user,lat,age,lon,city\nann,37.7123,30,-122.4123,Here\nann,37.6123,30,-122.3123,There\nben,37.8,41,-122.4,Here\n"
    )
    return path


def published(path: Path) -> FloatArray:
    table = np.genfromtxt(path, delimiter=",", names=True)
    return np.column_stack([table["lat"], table["lon"]])


def test_the_first_lines_say_what_is_published_and_what_is_not(run: Run, visits_csv: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.csv"
    shown = run("protect", visits_csv, output)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines()[:3] == [
        f"3 locations published in {output}, moved 500 m on average. The guarantee counts rows: name the users with "
        "--user if a user may have several.",
        "Left out: user, age, city. --keep NAME publishes a column.",
        "┌─ GUARANTEE ──────────────────────────────────────────────────────────────────────────┐",
    ]
    assert output.read_text().splitlines()[0] == "lat,lon"
    kept = run("protect", visits_csv, output, "--force", "--user", "user", "--keep", "age")
    counts = "The guarantee counts places, and losses add up: epsilon = 0.008 per meter for the user with the most, 2."
    assert kept.out.splitlines()[1:3] == [counts, "Left out: city. --keep NAME publishes a column."]
    assert output.read_text().splitlines()[0] == "user,lat,age,lon"
    everything = run("protect", visits_csv, output, "--force", "--keep-all")
    assert "Left out" not in everything.out
    assert output.read_text().splitlines()[0] == "user,lat,age,lon,city"
    check(run("protect", visits_csv, tmp_path / "o.csv", "--keep", "zip"), 3, "there is no column", "'zip'", "--keep")
    check(run("protect", "people.csv", "-", "--json"), 2, "--json and OUTPUT - both go to standard output")


@pytest.mark.parametrize(
    ("options", "mechanism", "definition", "epsilon"),
    [
        (("--noise", "1km"), "planar-laplace", "metric", 0.002),
        (("--noise", "0.5mi"), "planar-laplace", "metric", 2 / 804.672),
        (("--hide-among", 100, *REGION), "hide-among", "elastic", None),
        (("--mechanism", "dprs", "--epsilon", 1, "--set", "centres=50", *REGION), "dprs", "interval", 1),
        (("--mechanism", "dprs", "--set", "release=metric", "--set", "centres=50", *REGION), "dprs", "metric", 0.004),
        (("--mechanism", "square", "--epsilon", 0.5, *REGION), "square", "local", 0.5),
    ],
)
def test_options_describe_a_mechanism(
    run: Run, people_csv: Path, tmp_path: Path, options: tuple[object, ...], mechanism: str, definition: str,
    epsilon: float | None,
) -> None:  # fmt: skip
    document = json.loads(run("protect", people_csv, tmp_path / "out.csv", *options, "--json").out)
    assert (document["mechanism"], document["guarantee"]["definition"]) == (mechanism, definition)
    assert epsilon is None or document["guarantee"]["epsilon"] == pytest.approx(epsilon, rel=1e-6)


def test_noise_works_everywhere_and_others_ask_for_a_region(run: Run, tmp_path: Path) -> None:
    source, output = tmp_path / "people.csv", tmp_path / "out.csv"
    source.write_text("lat,lon\n-33.9,151.2\n35.7,139.7\n-17,179.9999\n90,0\n")
    outcome = run("protect", source, output)
    assert outcome.code == 0, outcome.err
    assert len(published(output)) == 4
    for options in (["--mechanism", "square"], ["--mechanism", "dprs", "--epsilon", 1], ["--hide-among", 100]):
        check(run("protect", source, tmp_path / "no.csv", *options), 2, "name the public region with --region")
    assert not (tmp_path / "no.csv").exists()


def test_no_output_replaces_a_file_that_the_run_uses(run: Run, people_csv: Path, tmp_path: Path) -> None:
    """Not even with --force, and whatever way its name is written."""
    used = tmp_path / "used.json"
    used.write_text(json.dumps({"type": "Feature", "bbox": [-123, 37, -122, 38]}))
    other_name = tmp_path / "." / ".." / tmp_path.name / used.name
    for what, options in (("region", ("--region", used)), ("ledger", ("--user", "id", "--ledger", used))):
        refused = run("protect", people_csv, other_name, *options, "--force")
        check(refused, 2, f"OUTPUT is the same file as the --{what}")
    assert "bbox" in used.read_text()


def test_skipped_rows_are_named_by_number_alone(run: Run, visits_csv: Path, tmp_path: Path) -> None:
    with visits_csv.open("a") as file:
        file.write("cid,none,20,-122.4123,Here\n")
    assert run("protect", visits_csv, tmp_path / "out.csv").code == 3
    shown = run("protect", visits_csv, tmp_path / "out.csv", "--skip-bad")
    assert shown.code == 0, shown.err
    assert len(published(tmp_path / "out.csv")) == 3
    assert "row 4" in shown.err
    assert "cid" not in shown.err + shown.out
    assert "4123" not in shown.err + shown.out


@pytest.mark.parametrize(
    ("raised", "shown"),
    [
        ("leave it out with skip_bad=True, or give region=", "leave it out with --skip-bad, or give --region"),
        ("name it with keep= or user='id'", "name it with --keep or --user id"),
        ("noise_m=500, or noise_m=, is missing", "--noise 500m, or --noise, is missing"),
        ("try gamma=0.3 and gamma=", "try --set gamma=0.3 and --set gamma=VALUE"),
        ("names are columns=id,lat,lon; crs=EPSG:25833.", "names are --columns id,lat,lon; --crs EPSG:25833."),
        ("the file says strange=3 and --set gamma=2", "the file says strange=3 and --set gamma=2"),
    ],
)
def test_parameters_in_errors_of_the_library_are_named_as_options(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: str, shown: str
) -> None:
    def fail(*_args: object, **_kwargs: object) -> None:
        raise DataError(raised)

    monkeypatch.setattr("nearveil.release.protect.protect", fail)
    outcome = run("protect", "in.csv", tmp_path / "out.csv", "--mechanism", "dprs", *REGION)
    assert (outcome.code, outcome.err) == (3, f"error: {shown}\n")


def test_as_an_installed_command(people_csv: Path, tmp_path: Path) -> None:
    """Through a real process and pipes: locations alone on standard output, text and no bar on standard error."""
    piped = subprocess.run(
        [*COMMAND, "protect", "-", "-"], input=people_csv.read_bytes(), capture_output=True, check=True
    )
    assert len(piped.stdout.splitlines()) == 5001
    first = b"5,000 locations published on standard output, moved 500 m on average. The guarantee counts rows"
    assert piped.stderr.startswith(first)
    quiet = subprocess.run([*COMMAND, "protect", people_csv, tmp_path / "out.csv"], capture_output=True, check=True)
    assert quiet.stderr == b""
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "out.csv").stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("name", ["out.csv", "out.geojson", "out.parquet"])
def test_a_run_that_is_cut_short_leaves_no_result(
    people_csv: Path, tmp_path: Path, number: signal.Signals, name: str
) -> None:
    folder = tmp_path / "public"
    folder.mkdir()
    command = [sys.executable, "-c", CUT_SHORT, str(int(number)), "protect", str(people_csv), str(folder / name)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    left = [path.name for path in folder.iterdir()]
    if number == signal.SIGTERM:
        assert (ended.returncode, ended.stderr) == (130, "error: stopped; no file was left half written\n")
        assert left == []
    else:
        # What is left is hidden, and holds published locations only.
        assert ended.returncode == -number
        assert all(each.startswith(".") for each in left)
