"""The child process of `ModuleSubject`: loads a function and calls it on request.

A request is a line of JSON. An answer is a line of JSON, followed by the published numbers as bytes if there are any.
What the function prints goes to standard error, not between the answers. Run as a script, and without the rest of
Nearveil, which takes a second to load.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

USAGE, FAILURE, NO_NUMBERS, NUMBERS = "usage", "failure", "no numbers", "numbers"


class NoSuchFunctionError(Exception):
    """There is no function of that name; says why."""


def main(target: str) -> None:
    """Load the function, say how that went, then answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    function = _load_or_say_why_not(target, answers)
    if function is None:
        return
    _answer(answers, {"kind": NUMBERS, "shape": [0, 2]})
    for line in sys.stdin.buffer:
        _call(function, json.loads(line), answers)


def load(target: str) -> Any:
    """Return what ``package.module:name`` or ``path/to/file.py:name`` names.

    Raises
    ------
    NoSuchFunctionError
        If there is no such module, file or name.
    """
    source, _, name = target.rpartition(":")
    module = _module_of_file(Path(source)) if source.endswith(".py") else _module_named(source)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise NoSuchFunctionError(f"there is no {name!r} in {source}")
        found = getattr(found, part)
    if not callable(found):
        raise NoSuchFunctionError(f"{name!r} in {source} is not a function")
    return found


def _module_of_file(path: Path) -> Any:
    if not path.is_file():
        raise NoSuchFunctionError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise NoSuchFunctionError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    # A script finds the modules beside it.
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    return module


def _module_named(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # A module that it imports may be the one that is missing.
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise NoSuchFunctionError(f"there is no module {name}") from None
        raise


def _load_or_say_why_not(target: str, answers: BinaryIO) -> Callable[..., object] | None:
    try:
        function: Callable[..., object] = load(target)
    except NoSuchFunctionError as error:
        _answer(answers, {"kind": USAGE, "what": str(error)})
    except BaseException as error:  # whatever it is, the parent must hear of it
        _answer(answers, _failure(error))
    else:
        return function
    return None


def _call(function: Callable[..., object], request: dict[str, Any], answers: BinaryIO) -> None:
    points = np.repeat(np.array(request["places"]), request["rows"], axis=0)
    try:
        published = function(points, np.random.default_rng(request["seed"]))
    except BaseException as error:  # sys.exit is not an answer either
        _answer(answers, _failure(error))
        return
    try:
        numbers = np.ascontiguousarray(published, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        _answer(answers, {"kind": NO_NUMBERS})
        return
    _answer(answers, {"kind": NUMBERS, "shape": list(np.shape(numbers))}, numbers.tobytes())


def _failure(error: BaseException) -> dict[str, Any]:
    # Its type alone: the error message may hold a coordinate.
    return {"kind": FAILURE, "what": type(error).__name__}


def _answer(answers: BinaryIO, document: dict[str, Any], content: bytes = b"") -> None:
    answers.write(json.dumps(document).encode() + b"\n" + content)
    answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
