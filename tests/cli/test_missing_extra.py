"""Without an extra: a verb that needs it says which to install, and the others work."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

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
RESEARCH = ("plan", "attack", "audit", "certify", "reproduce", "demo", "datasets")
SERVE = ("serve", "import", "serve-demo", "keys", "store")
FILES = tuple(verb for verb in VERBS if verb not in RESEARCH + SERVE)


def asked(commands: list[tuple[str, ...]], *extras: str, missing: tuple[str, ...] = ()) -> list[tuple[int, str, str]]:
    """Return what commands leave with and say in an installation without some extras, and without some packages."""
    hidden = [*missing, *(package for package, extra in EXTRA_OF.items() if extra in extras)]
    code = _RUN.format(missing=hidden, commands=commands)
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found: list[tuple[int, str, str]] = json.loads(shown.stdout)
    return found


def test_a_small_installation_names_the_extra_that_a_verb_needs() -> None:
    found = asked([(verb, "--help") for verb in VERBS], "files", "research", "serve", "spark", "geo")
    for verb, (code, out, err) in zip(VERBS, found, strict=True):
        extra = "research" if verb in RESEARCH else "serve" if verb in SERVE else "files"
        assert (code, out) == (2, "")
        assert re.fullmatch(
            rf"error: 'nearveil {verb}' needs \w+, which is not installed; run pip install 'nearveil\[{extra}\]'\n", err
        )


@pytest.mark.parametrize(
    ("verbs", "others"),
    [(FILES, ("research", "serve")), (RESEARCH, ("serve",)), (SERVE, ())],
    ids=["files", "research", "serve"],
)
def test_an_extra_is_all_that_its_verbs_need(verbs: tuple[str, ...], others: tuple[str, ...]) -> None:
    for verb, (code, out, err) in zip(
        verbs, asked([(verb, "--help") for verb in verbs], *others, "spark", "geo"), strict=True
    ):
        assert code == 0, err
        assert [line.split()[2] for line in out.splitlines() if "Usage: " in line] == [verb]


def test_a_picture_names_the_extra_before_the_work() -> None:
    commands: list[tuple[str, ...]] = [("audit", "--picture", "a.png"), ("attack", "--trace", "a.png")]
    for code, out, err in asked(commands, missing=("matplotlib",)):
        assert (code, out) == (2, "")
        assert "run pip install 'nearveil[research]'" in err


def test_every_package_is_in_the_extra_that_is_named() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    brought_along = {"starlette": "fastapi"}
    for package, extra in EXTRA_OF.items():
        wanted = brought_along.get(package, package).replace("_", "-")
        assert any(line.startswith(wanted) for line in declared[extra]), package
