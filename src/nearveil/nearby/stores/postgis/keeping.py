"""Platforms' keys and settings in PostgreSQL."""

from __future__ import annotations

from nearveil.nearby.stores.base import PlatformKey
from nearveil.nearby.stores.postgis.database import Database

_KEEP_KEY = """
    INSERT INTO platform_keys (name, digest) VALUES (%s, %s)
    ON CONFLICT (name) DO UPDATE SET digest = excluded.digest"""
_KEEP_SETTING = """
    INSERT INTO settings (name, value) VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"""

_ADD_NEW_KEY = "INSERT INTO platform_keys (name, digest) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_REMOVE_BUT_LAST = "DELETE FROM platform_keys WHERE name = %s AND (SELECT count(*) FROM platform_keys) > 1"
_SETTLE = "INSERT INTO settings (name, value) VALUES (%s, %s) ON CONFLICT DO NOTHING"


class PostgisKeeping:
    """The part of the store that keeps keys and settings."""

    _database: Database

    def add_key(self, key: PlatformKey) -> None:
        """Keep a platform's key; one of the same name is replaced."""
        with self._database.transaction() as session:
            session.run(_KEEP_KEY, (key.name, key.digest))

    def add_new_key(self, key: PlatformKey) -> bool:
        """Keep a platform's key unless there is one of the same name; whether it was kept."""
        with self._database.transaction() as session:
            return session.run(_ADD_NEW_KEY, (key.name, key.digest)) > 0

    def remove_key_but_the_last(self, name: str) -> bool:
        """Forget a key if there is another one; whether it was forgotten."""
        with self._database.transaction() as session:
            # Two who each remove the other's key must not both find two.
            session.run("LOCK TABLE platform_keys IN SHARE ROW EXCLUSIVE MODE")
            return session.run(_REMOVE_BUT_LAST, (name,)) > 0

    def remove_key(self, name: str) -> bool:
        """Forget a key; whether there was one."""
        with self._database.transaction() as session:
            return session.run("DELETE FROM platform_keys WHERE name = %s", (name,)) > 0

    def keys(self) -> list[PlatformKey]:
        """Return all keys."""
        with self._database.looking() as session:
            rows = session.rows('SELECT name, digest FROM platform_keys ORDER BY name COLLATE "C"')
        return [PlatformKey(name=name, digest=bytes(digest)) for name, digest in rows]

    def setting(self, name: str) -> str | None:
        """Return a setting kept before."""
        with self._database.looking() as session:
            row = session.one("SELECT value FROM settings WHERE name = %s", (name,))
        return row[0] if row else None

    def settle(self, name: str, value: str) -> str:
        """Keep a setting unless there is one; return what is kept."""
        with self._database.transaction() as session:
            session.run(_SETTLE, (name, value))
            row = session.one("SELECT value FROM settings WHERE name = %s", (name,))
        return row[0] if row else value

    def keep_setting(self, name: str, value: str) -> None:
        """Keep a setting."""
        with self._database.transaction() as session:
            session.run(_KEEP_SETTING, (name, value))
