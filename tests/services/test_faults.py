"""Every write fails once: all calls on the embedded store, and every third on PostGIS."""

from __future__ import annotations

from pathlib import Path

from tests.services.faults import all_faults, book, start_faults
from tests.services.postgres import private_database


def test_on_the_embedded_store_every_write_may_fail(tmp_path: Path) -> None:
    with book(tmp_path) as opened:
        all_faults(opened)


def test_on_postgis_writes_may_fail_and_connections_break(postgis_cluster: object, tmp_path: Path) -> None:
    del postgis_cluster
    with private_database() as address, book(tmp_path, address) as opened:
        all_faults(opened, every=3)


def test_a_first_start_may_fail_at_every_write(tmp_path: Path) -> None:
    assert start_faults(tmp_path) > 20
