"""Nearveil: audit and protect "people nearby" services. Public names stand in ``__init__.pyi``."""

from typing import Any

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Load a public name on first use; of an unknown one, name the nearest, and of a missing package its extra."""
    if name not in __all__:
        from difflib import get_close_matches  # noqa: PLC0415 - for errors only

        nearest = get_close_matches(name, __all__, n=1)
        raise AttributeError(f"nearveil has no {name!r}" + (f"; did you mean {nearest[0]!r}?" if nearest else ""))
    from nearveil.errors import without_context  # noqa: PLC0415 - the command's help does without

    with without_context():
        return _load(name)
