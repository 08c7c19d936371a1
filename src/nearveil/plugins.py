"""Classes of others: ``file.py:Class`` or ``package.module:Class``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TypeVar

from nearveil.errors import UsageError

_Base = TypeVar("_Base")


def load_class(name: str, base: type[_Base], kind: str) -> type[_Base]:
    """Return a subclass of ``base`` by its name; ``kind`` is what messages call it, such as "attack"."""
    place, colon, class_name = name.rpartition(":")
    if not colon:
        raise UsageError(f"there is no {kind} {name!r}; use a name of the list, or FILE.py:CLASS")
    try:
        module = module_of_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"the {kind} {name} cannot be loaded: {type(error).__name__}: {error}") from None
    found = getattr(module, class_name, None)
    if found is None:
        raise UsageError(f"there is no class {class_name} in {place}; check the name after the colon")
    if not (isinstance(found, type) and issubclass(found, base)):
        raise UsageError(
            f"{name} is not {'an' if kind[0] in 'aeiou' else 'a'} {kind}; it must be a class that inherits from "
            f"nearveil.{base.__name__}"
        )
    return found


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
