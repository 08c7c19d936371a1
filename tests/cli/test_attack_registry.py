"""Somebody else's attack joins ours, from a file or from a package, everywhere that ours are."""

import json
import sys
from importlib import metadata
from pathlib import Path

import pytest

from nearveil.attacks.registry import ATTACKS, ENTRY_POINTS, attack_class
from nearveil.errors import UsageError
from tests.cli.conftest import Run

OWN = '''
from dataclasses import dataclass
from typing import ClassVar

from nearveil import Attack
from nearveil.attacks.base import Finding, Outcome


@dataclass(frozen=True)
class StartIsIt(Attack):
    """Says that the target is where the attack starts."""

    name: ClassVar[str] = "start-is-it"
    colluders_needed: ClassVar[int] = 0

    def _run(self, inquiry, start):
        inquiry.ask(start)
        return Finding(Outcome.FOUND, start)


class NoAttack:
    pass
'''


@pytest.fixture
def own_file(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Modules are there once in a process, so each test has its own.
    path = tmp_path / f"own_attack_{abs(hash(request.node.name))}.py"
    path.write_text(OWN)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return path


def test_an_attack_of_a_file_is_in_the_table(run: Run, own_file: Path, people_csv: Path) -> None:
    outcome = run(
        "attack", "--input", people_csv, "--attack", f"{own_file}:StartIsIt", "--attack", "gi-lia", "--runs", 1,
        "--instances", 3, "--cores", 1, "--json",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    rows = json.loads(outcome.out)
    assert [row["attack"] for row in rows if row["attack"] in ("start-is-it", "gi-lia")] == ["start-is-it", "gi-lia"]


def test_an_attack_of_another_package_is_found_by_its_name(own_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(own_file.parent))
    entry = metadata.EntryPoint("start-is-it", f"{own_file.stem}:StartIsIt", ENTRY_POINTS)
    monkeypatch.setattr(metadata, "entry_points", lambda *, group: [entry] if group == ENTRY_POINTS else [])
    assert attack_class("start-is-it").name == "start-is-it"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nobodys", "there is no attack 'nobodys'.*gi-lia"),
        ("missing.py:Attack", "there is no file missing.py"),
        ("{file}:Missing", "there is no class Missing"),
        ("{file}:NoAttack", "is not an attack; it must be a class that inherits from nearveil.Attack"),
        ("no_such_module:Attack", "cannot be loaded"),
    ],
)
def test_what_is_no_attack_is_refused_in_a_sentence(name: str, sentence: str, own_file: Path) -> None:
    with pytest.raises(UsageError, match=sentence):
        attack_class(name.format(file=own_file))


def test_every_attack_of_ours_has_its_name() -> None:
    assert all(kind.name == name for name, kind in ATTACKS.items())
