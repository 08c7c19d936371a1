"""Files of JSON that commands are given, and that they write for their user alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nearveil.errors import DataError
from nearveil.io.atomic import replacing


def read_text(path: Path, kind: str) -> str:
    """Return what a small text file holds, or say why it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"the {kind} file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is no {kind} file: it is not text") from None


def write_private_json(path: Path, document: dict[str, Any], *, force: bool) -> None:
    """Write a document that only the owner of the file can read."""
    with replacing(path, force=force, private=True) as partial:
        partial.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
