"""Classes of others: ``file.py:Class``, ``package.module:Class``, or an entry point of their package."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from nearveil.errors import UsageError

_Base = TypeVar("_Base")


def load_class(name: str, base: type[_Base], *, group: str, kind: str) -> type[_Base]:
    """Return a subclass of ``base`` by ``file.py:Class``, ``package.module:Class``, or an entry point of the group.

    ``kind`` is what messages call it, such as "attack".
    """
    found = _from_file_or_module(name, kind) if ":" in name else _from_entry_point(name, group, kind)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise UsageError(
            f"{name} is not {'an' if kind[0] in 'aeiou' else 'a'} {kind}; it must be a class that inherits from "
            f"nearveil.{base.__name__}"
        )
    return found


def code_digest(kind: type) -> str:
    """Return the digest of the file of somebody else's class; empty for Nearveil's own, and where there is no file."""
    if kind.__module__.partition(".")[0] == "nearveil":
        return ""
    try:
        return hashlib.sha256(Path(inspect.getfile(kind)).read_bytes()).hexdigest()
    except (OSError, TypeError):
        return ""


def reference(kind: type) -> str:
    """Return the name by which `load_class` finds a class again: ``module:Class``."""
    return f"{kind.__module__}:{kind.__qualname__}"


def _from_file_or_module(name: str, kind: str) -> object:
    place, _, class_name = name.rpartition(":")
    try:
        module = module_of_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"the {kind} {name} cannot be loaded: {type(error).__name__}: {error}") from None
    if not hasattr(module, class_name):
        raise UsageError(f"there is no class {class_name} in {place}; check the name after the colon")
    return getattr(module, class_name)


def module_of_file(path: Path) -> object:
    """Import a file as a module."""
    if not path.is_file():
        raise UsageError(f"there is no file {path}; check the name")
    if not path.stem.isidentifier():
        raise UsageError(f"{path.name} cannot be loaded, since its name is not a Python identifier; rename it")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        # Processes that share the work get the path as well, and find the class again by its module's name.
        sys.path.append(folder)
    try:
        module = importlib.import_module(path.stem)
    except SystemExit:
        raise UsageError(
            f"{path.name} exits when it is loaded; put what ends a program below if __name__ == '__main__'"
        ) from None
    if Path(str(module.__file__)).resolve() != path.resolve():
        raise UsageError(f"another module is called {path.stem}; rename {path.name}")
    return module


def _from_entry_point(name: str, group: str, kind: str) -> object:
    announced = {entry.name: entry for entry in metadata.entry_points(group=group)}
    if name not in announced:
        others = f" or one of {', '.join(sorted(announced))}" if announced else ""
        raise UsageError(f"there is no {kind} {name!r}; use a name of the list, FILE.py:CLASS{others}")
    try:
        return announced[name].load()
    except Exception as error:
        raise UsageError(f"the {kind} {name} cannot be loaded: {type(error).__name__}: {error}") from None
