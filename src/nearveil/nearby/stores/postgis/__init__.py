"""The store that several processes share: PostgreSQL with PostGIS."""

from nearveil.nearby.stores.postgis.store import PostgisStore

__all__ = ["PostgisStore"]
