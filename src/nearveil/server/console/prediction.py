"""What noise in meters or "hide among" costs and gives, as it was measured on the synthetic city."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources
from typing import Any


def predictions() -> dict[str, Any]:
    """Return the figures that are shipped; ``python -m benchmarks.console_prediction`` measures them."""
    return json.loads(_text())  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def _text() -> str:
    return resources.files("nearveil.server.console").joinpath("prediction.json").read_text(encoding="utf-8")
