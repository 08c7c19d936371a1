"""Help fits a terminal, and commands load no more than they need."""

import subprocess
import sys
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import nearveil
from nearveil.cli.main import VERBS
from nearveil.cli.main import nearveil as nearveil_command
from tests.cli.conftest import Run

NOT_FOR_PROTECT = ("scipy.spatial", "matplotlib", "fastapi", "plotly", "httpx", "psycopg")
HEAVY = ("numba", "scipy", "pyarrow", "matplotlib", "fastapi", "pyproj", "numpy")


@pytest.mark.parametrize(("arguments", "most"), [(["--help"], 33), (["protect", "--help"], 60)])
def test_help_fits_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str], most: int) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(*arguments).out.splitlines()
    assert len(lines) <= most
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(("verb", "most"), [("protect", 25), ("attack", 30), ("serve", 30)])
def test_no_verb_has_more_options_than_a_reader_can_scan(verb: str, most: int) -> None:
    found = nearveil_command.get_command(click.Context(nearveil_command), verb)
    assert found is not None
    assert sum(isinstance(each, click.Option) for each in found.params) <= most


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_nothing_heavy_is_loaded_for_the_list(arguments: list[str]) -> None:
    script = (
        "import sys\nsys.argv[0] = 'nearveil'\nfrom nearveil.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"loaded = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "print('loaded:', *loaded)"
    )
    shown = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == "loaded:"
    if arguments != ["--version"]:
        assert all(verb in shown.stdout for verb in VERBS)


@pytest.mark.parametrize(
    ("suffix", "release", "neither"),
    [("parquet", ["--mechanism", "planar-laplace"], ["pandas"]), ("csv", [], [])],
)
def test_protect_loads_only_what_it_needs(suffix: str, release: list[str], neither: list[str], tmp_path: Path) -> None:
    """Loading scipy would take longer than protecting a million people; Arrow loads pandas for text."""
    rows = [(row, 37.6 + row / 9000, -122.5 + row % 97 / 900) for row in range(900)]
    table = pa.table(dict(zip(("id", "latitude", "longitude"), zip(*rows, strict=True), strict=True)))
    write = pq.write_table if suffix == "parquet" else pyarrow.csv.write_csv
    write(table, tmp_path / f"in.{suffix}")
    script = (
        "import sys\nfrom nearveil.cli.main import main\n"
        "try:\n    main()\nfinally:\n"
        f"    print('loaded:', *(name for name in {[*NOT_FOR_PROTECT, *neither]!r} if name in sys.modules))"
    )
    command = [sys.executable, "-c", script, "protect", f"in.{suffix}", f"out.{suffix}", *release]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert shown.stdout.splitlines()[-1] == "loaded:"


def test_whoever_sees_no_bar_and_no_help_does_not_wait_for_rich() -> None:
    script = "import sys\nimport nearveil.cli.protect, nearveil.cli.main\nprint('rich' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


def test_a_service_starts_without_what_measures_attacks() -> None:
    """Loading scipy for them would be a third of the time that a service takes to start."""
    script = "import sys\nimport nearveil.server.run\nprint('scipy.special' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


def test_public_names_are_loaded_when_they_are_asked_for() -> None:
    for name in nearveil.__all__:
        # The package nearveil.audit is a public name itself: it can be called.
        assert getattr(nearveil, name).__name__.removeprefix("nearveil.") == name
        assert name in dir(nearveil)
    with pytest.raises(AttributeError, match="Nothing"):
        _ = nearveil.Nothing  # type: ignore[attr-defined]
