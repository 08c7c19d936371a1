"""What is no attack is refused in a sentence."""

import sys
from pathlib import Path

import pytest

from nearveil.attacks.registry import ATTACKS, attack_class
from nearveil.errors import UsageError

OWN = "class NoAttack:\n    pass\n"


@pytest.fixture
def own_file(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Modules are there once in a process, so each test has its own.
    path = tmp_path / f"own_attack_{abs(hash(request.node.name))}.py"
    path.write_text(OWN)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return path


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
