"""A service whose database goes away for a moment: questions are answered throughout, and reports are not lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.services.outage import outage
from tests.services.postgres import Cluster, own_cluster


@pytest.fixture(scope="module")
def server(postgis_cluster: object) -> Iterator[Cluster]:
    """A server that no other file uses: here it is halted and stands still."""
    del postgis_cluster
    with own_cluster() as started:
        yield started


@pytest.mark.parametrize("how", ["crash", "freeze"])
def test_questions_are_answered_throughout_and_reports_kept_or_refused(
    how: str, tmp_path: Path, server: Cluster
) -> None:
    found = outage(tmp_path, seconds=10.0, how=how, server=server, before_s=2.0, pause_s=0.2)
    assert found.questions > 0
    assert (found.answered, found.lost) == (1.0, 0)
    # 503 while it is away, 202 before and after, and nothing else.
    assert set(found.statuses) == {202, 503}
    log = (tmp_path / "service.log").read_text()
    assert "database is away" in log
    assert "database is back" in log
