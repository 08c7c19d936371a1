"""Imports go down the layers only, so that a reader can follow the story from top to bottom."""

import ast
import re
from pathlib import Path
from types import ModuleType

import pytest

import nearveil
import nearveil.attacks
import nearveil.auditing
import nearveil.client
from nearveil.mechanisms import registry

ROOT = Path(nearveil.__file__).parent

# From top to bottom; modules of one layer may import each other and anything below.
LAYERS = (
    {"cli"},
    {"server", "client"},
    {"report"},
    {"release", "spark"},
    {"evaluation"},
    {"attacks", "auditing"},
    {"nearby"},
    {"mechanisms"},
    {"privacy"},
    {"region", "points", "projection", "sphere", "geodesy", "randomness", "io"},
    {"errors", "types", "lengths", "kernels", "plugins", "html_card", "veil"},
)
# Results that can draw themselves: they load the pictures, which lie above them, in the method that draws.
DRAW_THEMSELVES = {"evaluation/attack.py", "evaluation/campaign.py"}
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}


def _imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set()
    draws_itself = path.relative_to(ROOT).as_posix() in DRAW_THEMSELVES
    for node in tree.body if draws_itself else ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return {name for name in found if name.startswith("nearveil.")}


def test_imports_go_down() -> None:
    upwards = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in ROOT.rglob("*.py")
        if path != ROOT / "__init__.py"
        for module in _imports(path)
        if LEVEL[module.split(".")[1]] < LEVEL[path.relative_to(ROOT).with_suffix("").parts[0]]
    ]
    assert upwards == []


@pytest.mark.parametrize(
    "package", [nearveil, nearveil.attacks, nearveil.auditing, nearveil.client], ids=lambda package: package.__name__
)
def test_public_names_are_there(package: ModuleType) -> None:
    for name in package.__all__:
        assert hasattr(package, name)
        assert name in dir(package)


def test_nobody_but_mechanisms_tells_mechanisms_apart() -> None:
    """By isinstance, by a comparison, or in a match."""
    names = "|".join(["Mechanism", *(entry.mechanism.__name__ for entry in registry.MECHANISMS.values())])
    told = re.compile(rf"(isinstance|issubclass)\([^)]*\b({names})\b|(==|!=|\bis|\bnot|\bin|\bcase) ({names})\b")
    found = {path.relative_to(ROOT): told.search(path.read_text(encoding="utf-8")) for path in ROOT.rglob("*.py")}
    assert [str(path) for path, hit in found.items() if hit and path.parts[0] != "mechanisms"] == []
    assert found[Path("mechanisms/base.py")]
