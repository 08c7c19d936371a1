"""A service whose database goes away for a moment: questions are answered throughout, and reports are not lost."""

from pathlib import Path

import pytest
from tests.services.outage import outage
from tests.services.postgres import own_cluster


@pytest.mark.parametrize("how", ["crash", "freeze"])
def test_questions_are_answered_throughout_and_reports_kept_or_refused(
    how: str, tmp_path: Path, postgis_cluster: object
) -> None:
    del postgis_cluster
    with own_cluster() as server:
        found = outage(tmp_path, seconds=10.0, how=how, server=server)
    assert found.questions > 0
    assert (found.answered, found.lost) == (1.0, 0)
    # 503 while it is away, 202 before and after, and nothing else.
    assert set(found.statuses) == {202, 503}
    log = (tmp_path / "service.log").read_text()
    assert "database is away" in log
    assert "database is back" in log
