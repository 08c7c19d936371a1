"""Files of JSON that commands are given."""

from __future__ import annotations

from pathlib import Path

from nearveil.errors import DataError


def read_text(path: Path, kind: str) -> str:
    """Return what a small text file holds, or say why it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"the {kind} file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is no {kind} file: it is not text") from None
