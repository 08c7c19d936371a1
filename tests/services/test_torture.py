"""Kill -9 under a load of reports: nothing acknowledged is lost, nothing is charged twice, nothing leaks.

A few kills here; ``make torture`` does fifty on each store.
"""

from pathlib import Path

from tests.services.torture import Findings, on_postgis, on_sqlite

KILLS = 3


def test_the_embedded_store_survives_kills(tmp_path: Path) -> None:
    assert_nothing_wrong(*on_sqlite(tmp_path, KILLS, seed=11))


def test_postgis_survives_kills(tmp_path: Path, postgis_cluster: object) -> None:
    del postgis_cluster
    assert_nothing_wrong(*on_postgis(tmp_path, KILLS, seed=12))


def assert_nothing_wrong(findings: Findings, leaking: list[str]) -> None:
    assert findings.kills == KILLS
    assert findings.acknowledged > 20
    assert findings.faults == []
    assert leaking == []
