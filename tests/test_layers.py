"""Imports go down the layers only, so that a reader can follow the story from top to bottom."""

import ast
from pathlib import Path

import pytest

import nearveil

ROOT = Path(nearveil.__file__).parent

# From top to bottom; modules of one layer may import each other and anything below.
LAYERS = (
    {"cli"},
    {"server", "client"},
    {"report"},
    {"release"},
    {"evaluation"},
    {"attacks", "audit"},
    {"nearby"},
    {"mechanisms"},
    {"privacy"},
    {"region", "geodesy", "randomness", "hashing", "io"},
    {"errors", "types", "kernels", "plugins"},
)
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}


def _room(module: str) -> str:
    return module.split(".")[1]


def _imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return {name for name in found if name.startswith("nearveil.")}


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down(path: Path) -> None:
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts == ("__init__",):
        return
    own = LEVEL[parts[0]]
    for module in _imports(path):
        assert LEVEL[_room(module)] >= own, f"{path.name} imports {module}, which is above it"


def test_public_names_are_sorted_and_there() -> None:
    assert nearveil.__all__ == sorted(nearveil.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name))
    for name in nearveil.__all__:
        assert hasattr(nearveil, name)
