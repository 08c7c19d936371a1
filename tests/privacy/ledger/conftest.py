import os

import pytest


@pytest.fixture
def no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do without waiting for the disk, where a test is about what is written and opens hundreds of files."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
