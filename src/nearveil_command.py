"""Where the ``nearveil`` command starts: outside the package, so that a package that cannot be loaded is noticed.

Python leaves with 1 when something goes wrong while loading, and 1 is what ``nearveil audit`` says of a claim that is
violated. A failure must never read as a verdict, so an audit that cannot even start leaves with 4.

Modules are there to stay, so nobody need look through them for garbage: not while they are loaded, not afterwards, and
not when the program ends. That takes a third off what a command takes to start and to end.
"""

from __future__ import annotations

import gc
import sys

_FAILED = 4


def main() -> None:
    """Load Nearveil and run it."""
    gc.disable()
    try:
        from nearveil.cli.main import main as run  # noqa: PLC0415

        run(when_loaded=_look_for_garbage)
    except Exception as error:
        if sys.argv[1:2] != ["audit"]:
            raise
        print(f"error: Nearveil failed ({type(error).__name__}); there is no verdict", file=sys.stderr)
        sys.exit(_FAILED)
    finally:
        gc.freeze()


def _look_for_garbage() -> None:
    gc.freeze()
    gc.enable()
