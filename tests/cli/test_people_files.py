"""Commands on files as people have them: pipes, metres, text columns, bad rows, and slips."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from nearveil.cli.populations import file_population
from nearveil.geodesy import degrees_from, degrees_to
from nearveil.io.location import ReadOptions
from nearveil.region import Region
from tests.cli.conftest import Run
from tests.cli.test_bad_input import check

PEOPLE = "id,latitude,longitude\n" + "".join(f"{row},{37.6 + row / 1e3:.4f},-122.4{row:03d}\n" for row in range(200))


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PEOPLE.encode())))


@pytest.mark.usefixtures("piped")
def test_a_failure_writes_nothing_to_standard_output(run: Run) -> None:
    check(run("protect", "-", "-", "--region", "berlin"), 3, "outside the region", "--region san-francisco")


def test_json_and_the_file_do_not_mix(run: Run) -> None:
    check(run("protect", "people.csv", "-", "--json"), 2, "--json and OUTPUT - both go to standard output")


@pytest.mark.usefixtures("piped")
def test_other_commands_read_standard_input(san_francisco: Region) -> None:
    people = file_population(Path("-"), san_francisco, ReadOptions())
    assert people.dataset.name == "standard input"
    assert people.number_of("7") == 7


def test_metres_in_and_metres_out(run: Run, tmp_path: Path) -> None:
    true = np.array([[37.7, -122.4], [37.8, -122.5]])
    rows = "".join(f"{number};{x};{y}\n" for number, (y, x) in enumerate(degrees_to("EPSG:32610", true).tolist()))
    (tmp_path / "in.csv").write_text(f"id;x;y\n{rows}")
    check(run("protect", tmp_path / "in.csv", tmp_path / "o.csv"), 3, "no coordinate columns")
    named = ("--latitude", "y", "--longitude", "x")
    check(run("protect", tmp_path / "in.csv", tmp_path / "o.csv", *named), 3, "look like metres", "--crs, such as EPSG")
    outcome = run("protect", tmp_path / "in.csv", tmp_path / "out.csv", "--crs", "EPSG:32610", "--keep-order")
    assert outcome.code == 0, outcome.err
    out = np.genfromtxt(tmp_path / "out.csv", delimiter=",", names=True)
    published = degrees_from("EPSG:32610", np.column_stack([out["y"], out["x"]]))
    # Noise of 500 m: five kilometres are passed once in 10^7.
    assert 0 < np.abs(published - true).max() < 0.06


def test_bad_rows_are_left_out_and_the_card_says_so(run: Run, tmp_path: Path) -> None:
    source, public, bad = tmp_path / "in.csv", tmp_path / "public", tmp_path / "bad.csv"
    source.write_text(PEOPLE + "200,north,-122.4123\n201,52.5,13.4\n")
    public.mkdir()
    check(run("protect", source, public / "out.csv", "--skip-bad", public / "bad.csv"), 2, "beside the OUTPUT")
    check(run("protect", source, public / "out.csv", "--skip-bad", source), 2, "names the INPUT or the OUTPUT")
    outcome = run("protect", source, public / "out.csv", "--skip-bad", bad, "--json")
    assert outcome.code == 0, outcome.err
    assert "2 of 202 rows were left out" in outcome.err
    assert any("are left out" in note for note in json.loads(outcome.out)["guarantee"]["notes"])
    assert "52.5" not in outcome.err + outcome.out
    assert len((public / "out.csv").read_text().splitlines()) == 201
    assert [line.split(",")[0] for line in bad.read_text().splitlines()] == ["bad_row", "201", "202"]
    # Beside the input, there are true locations already.
    assert run("protect", source, tmp_path / "out.csv", "--skip-bad", tmp_path / "worse.csv").code == 0
    # The same rows may be written again, as after `nearveil plan`; others replace nothing.
    assert run("protect", source, tmp_path / "again.csv", "--skip-bad", bad).code == 0
    source.write_text(source.read_text() + "202,52.5,13.4\n")
    check(run("protect", source, tmp_path / "more.csv", "--skip-bad", bad), 4, "bad.csv exists already")
    assert not (tmp_path / "more.csv").exists()


def test_people_who_are_left_out_are_not_charged(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text(PEOPLE + "left-out,52.5,13.4\n")
    ledger = tmp_path / "ledger.db"
    outcome = run(
        "protect", source, tmp_path / "out.csv", "--skip-bad", tmp_path / "bad.csv", "--person", "id",
        "--ledger", ledger, "--budget", "metric:0.02/30d",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert b"left-out" not in ledger.read_bytes()


def test_lengths_beyond_the_region_are_questioned(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(PEOPLE)
    outcome = run("protect", tmp_path / "in.csv", tmp_path / "out.csv", "--noise", "80km")
    check(outcome, 2, "more than the region is wide (44 km)")
    assert run("protect", tmp_path / "in.csv", tmp_path / "out.csv", "--set", "epsilon_per_km=0.03").code == 0
