"""Some writes fail once; ``python -m tests.services.faults`` lets every write fail in every way, on both stores."""

from pathlib import Path

import pytest
from tests.services.faults import all_faults, book, start_faults


def test_writes_of_a_service_may_fail(tmp_path: Path) -> None:
    with book(tmp_path) as opened:
        all_faults(opened, every=25)


@pytest.mark.evidence
def test_a_first_start_may_fail_at_every_write(tmp_path: Path) -> None:
    assert start_faults(tmp_path) > 20
