"""Without an extra: a verb that needs it says which to install, and the others work."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from nearveil.cli.main import VERBS
from nearveil.errors import EXTRA_OF

ROOT = Path(__file__).parents[2]
_RUN = """
import sys
for package in {missing!r}:
    sys.modules[package] = None
from nearveil.cli.main import main
for arguments in {commands!r}:
    sys.argv = ["nearveil", *arguments]
    try:
        main()
    except SystemExit as stop:
        if stop.code:
            raise
"""
BASE = ("protect", "attack", "audit", "certify", "guarantee", "fit", "plan", "region", "datasets")


def without(missing: set[str], *commands: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run commands in an installation that lacks some packages, up to the first that fails."""
    code = _RUN.format(missing=sorted(missing), commands=commands)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_a_plain_installation_has_the_verbs() -> None:
    result = without(set(EXTRA_OF), *((verb, "--help") for verb in BASE))
    assert result.returncode == 0, result.stderr
    assert [line.split()[2] for line in result.stdout.splitlines() if "Usage: " in line] == list(BASE)


@pytest.mark.parametrize(("verb", "extra"), [("serve", "serve"), ("serve-demo", "serve"), ("reproduce", "report")])
def test_a_verb_names_the_extra_that_it_needs(verb: str, extra: str) -> None:
    assert verb in VERBS
    result = without(set(EXTRA_OF), (verb, "--quick" if verb == "reproduce" else "--show-config"))
    assert result.returncode == 2, result.stderr
    assert f"run pip install 'nearveil[{extra}]'" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [("attack", "--dataset", "gaussian", "--trace", "a.png"), ("audit", "--picture", "a.png")],
    ids=lambda arguments: arguments[0],
)
def test_a_picture_names_the_extra_before_the_work(arguments: tuple[str, ...]) -> None:
    result = without(set(EXTRA_OF), arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert "run pip install 'nearveil[report]'" in result.stderr


def test_every_package_is_in_the_extra_that_is_named() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    brought_along = {"starlette": "fastapi", "psycopg_pool": "psycopg"}
    for package, extra in EXTRA_OF.items():
        wanted = brought_along.get(package, package).replace("_", "-")
        assert any(line.startswith(wanted) for line in declared[extra]), package
