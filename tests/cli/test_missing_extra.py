"""Without an extra: a verb that needs it says which to install, and the others work."""

import json
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from nearveil.cli.main import VERBS
from nearveil.errors import EXTRA_OF

ROOT = Path(__file__).parents[2]
# One process runs them all: what each says and leaves with.
_RUN = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
for package in {missing!r}:
    sys.modules[package] = None
from nearveil.cli.main import main
found = []
for arguments in {commands!r}:
    sys.argv = ["nearveil", *arguments]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
    found.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(found))
"""
BASE = ("protect", "attack", "audit", "certify", "guarantee", "fit", "plan", "datasets")
NEEDY: dict[tuple[str, ...], str] = {
    ("serve", "--show-config"): "serve",
    ("serve-demo", "--show-config"): "serve",
    ("reproduce", "--quick"): "report",
    ("plan", "people.csv"): "report",
}
PICTURES = (("attack", "--dataset", "gaussian", "--trace", "a.png"), ("audit", "--picture", "a.png"))


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


@cache
def without_extras() -> dict[tuple[str, ...], Ended]:
    """Run all commands of this file in an installation that lacks the packages of every extra."""
    commands = [*((verb, "--help") for verb in BASE), *NEEDY, *PICTURES]
    code = _RUN.format(missing=sorted(EXTRA_OF), commands=commands)
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {command: Ended(*ended) for command, ended in zip(commands, json.loads(shown.stdout), strict=True)}


@pytest.mark.parametrize("verb", BASE)
def test_a_plain_installation_has_the_verbs(verb: str) -> None:
    result = without_extras()[verb, "--help"]
    assert result.code == 0, result.err
    assert [line.split()[2] for line in result.out.splitlines() if "Usage: " in line] == [verb]


@pytest.mark.parametrize("arguments", NEEDY, ids=lambda arguments: arguments[0])
def test_a_verb_names_the_extra_that_it_needs(arguments: tuple[str, ...]) -> None:
    assert arguments[0] in VERBS
    result = without_extras()[arguments]
    assert result.code == 2, result.err
    assert f"run pip install 'nearveil[{NEEDY[arguments]}]'" in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("arguments", PICTURES, ids=lambda arguments: arguments[0])
def test_a_picture_names_the_extra_before_the_work(arguments: tuple[str, ...]) -> None:
    result = without_extras()[arguments]
    assert (result.code, result.out) == (2, "")
    assert "run pip install 'nearveil[report]'" in result.err


def test_every_package_is_in_the_extra_that_is_named() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    brought_along = {"starlette": "fastapi"}
    for package, extra in EXTRA_OF.items():
        wanted = brought_along.get(package, package).replace("_", "-")
        assert any(line.startswith(wanted) for line in declared[extra]), package
