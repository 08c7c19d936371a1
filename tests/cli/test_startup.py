"""Help fits a terminal, and commands load no more than they need."""

import subprocess
import sys
from pathlib import Path

import click
import pytest

from nearveil.cli.main import VERBS
from nearveil.cli.main import nearveil as nearveil_command
from tests.cli.conftest import Run

HEAVY = ("numba", "scipy", "pyarrow", "matplotlib", "fastapi", "pyproj", "numpy", "rich")
NOT_FOR_PROTECT = ("scipy.spatial", "matplotlib", "fastapi", "plotly", "httpx", "psycopg", "rich")
# Runs a command, and prints which modules it has loaded.
LOADED = """
import sys
from nearveil.cli.main import main
try:
    main()
finally:
    print("loaded:", *sys.modules)
"""


@pytest.mark.parametrize(("arguments", "most"), [(["--help"], 33), (["protect", "--help"], 55)])
def test_help_fits_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str], most: int) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(*arguments).out.splitlines()
    assert len(lines) <= most
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(("verb", "most"), [("protect", 25), ("fit", 25), ("attack", 28), ("serve", 30)])
def test_no_verb_has_more_options_than_a_reader_can_scan(verb: str, most: int) -> None:
    found = nearveil_command.get_command(click.Context(nearveil_command), verb)
    assert found is not None
    assert sum(isinstance(each, click.Option) for each in found.params) <= most


def loaded_by(*arguments: str, folder: Path) -> tuple[str, set[str]]:
    """Return what a command prints, and the modules that it loads."""
    command = [sys.executable, "-c", LOADED, *arguments]
    shown = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder).stdout
    text, _, modules = shown.rpartition("loaded:")
    return text, set(modules.split())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_nothing_heavy_is_loaded_for_the_list(arguments: list[str], tmp_path: Path) -> None:
    text, modules = loaded_by(*arguments, folder=tmp_path)
    assert modules.isdisjoint(HEAVY)
    if arguments != ["--version"]:
        assert all(verb in text for verb in VERBS)


def test_protect_loads_only_what_it_needs(people_csv: Path, tmp_path: Path) -> None:
    """Loading scipy would take longer than protecting a million people, and rich draws bars that nobody sees."""
    text, modules = loaded_by("protect", str(people_csv), "out.csv", folder=tmp_path)
    assert text.startswith("5,000 locations published")
    assert modules.isdisjoint(NOT_FOR_PROTECT)
    assert not [name for name in modules if name.startswith(("nearveil.attacks", "nearveil.evaluation"))]
    assert not [
        name for name in modules if name.startswith(("nearveil.report", "nearveil.auditing", "nearveil.nearby"))
    ]
    ours = sorted(name for name in modules if name.partition(".")[0] == "nearveil")
    assert len(ours) <= 35, ours
