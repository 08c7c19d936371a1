"""Without an extra: a verb that needs it says which to install, and the others work."""

import json
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

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
COMMANDS: dict[tuple[str, ...], str | None] = {
    ("protect", "--help"): None,
    ("guarantee", "--noise", "500m"): None,
    ("protect", "people.csv", "out.csv"): "files",
    ("fit", "people.csv", "out.json", "--mechanism", "dprs", "--region", "berlin"): "files",
    ("plan", "people.csv"): "research",
    ("reproduce", "--quick"): "research",
    ("attack", "--dataset", "gaussian", "--picture", "a.png"): "research",
    ("audit", "--picture", "a.png"): "research",
    ("serve", "--show-config"): "serve",
    ("serve-demo", "--show-config"): "serve",
}
"""Commands, and the extra that each lacks."""


@cache
def without_extras() -> dict[tuple[str, ...], tuple[int, str, str]]:
    """Run all commands of this file in an installation that lacks the packages of every extra."""
    code = _RUN.format(missing=sorted(EXTRA_OF), commands=list(COMMANDS))
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return dict(zip(COMMANDS, json.loads(shown.stdout), strict=True))


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: " ".join(arguments[:2]))
def test_a_command_works_or_names_the_extra_that_it_needs(arguments: tuple[str, ...]) -> None:
    code, out, err = without_extras()[arguments]
    if COMMANDS[arguments] is None:
        assert (code, err) == (0, "")
    else:
        # As an audit exits with 1 for a verdict, this one exits with 4 or 2.
        assert (code, out) in ((2, ""), (4, ""))
        assert f"run pip install 'nearveil[{COMMANDS[arguments]}]'" in err
        assert len(err.splitlines()) == 1


def test_every_package_is_in_the_extra_that_is_named() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    brought_along = {"starlette": "fastapi", "opentelemetry": "opentelemetry-sdk"}
    for package, extra in EXTRA_OF.items():
        wanted = brought_along.get(package, package).replace("_", "-")
        assert any(line.replace("_", "-").startswith(wanted) for line in declared[extra]), package
