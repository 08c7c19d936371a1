"""Where the ``nearveil`` command starts: outside the package, so that a package that cannot be loaded is noticed.

Python leaves with 1 when something goes wrong while loading, and 1 is what ``nearveil audit`` says of a claim that is
violated. A failure must never read as a verdict, so an audit that cannot even start leaves with 4.
"""

from __future__ import annotations

import sys

_FAILED = 4


def main() -> None:
    """Load Nearveil and run it."""
    try:
        from nearveil.cli.main import main as run  # noqa: PLC0415

        run()
    except Exception as error:
        if sys.argv[1:2] != ["audit"]:
            raise
        print(f"error: Nearveil failed ({type(error).__name__}); there is no verdict", file=sys.stderr)
        sys.exit(_FAILED)
