"""A PostgreSQL of its own for the tests that need one."""

from tests.services.postgres import postgis_cluster

__all__ = ["postgis_cluster"]
