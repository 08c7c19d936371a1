"""Platforms' keys and settings in the embedded store."""

from __future__ import annotations

import threading

from nearveil.nearby.stores.base import PlatformKey
from nearveil.nearby.stores.sqlite.connections import Connections


class SqliteKeeping:
    """The part of the store that keeps keys and settings."""

    _connections: Connections
    # Nobody else can change settings, and they are asked for with every report.
    _settings: dict[str, str]
    _settling: threading.Lock

    def add_key(self, key: PlatformKey) -> None:
        """Keep a platform's key; one of the same name is replaced."""
        with self._connections.writing() as connection:
            connection.run("REPLACE INTO platform_keys (name, digest) VALUES (?, ?)", (key.name, key.digest))

    def add_new_key(self, key: PlatformKey) -> bool:
        """Keep a platform's key unless there is one of the same name; whether it was kept."""
        with self._connections.writing() as connection:
            statement = "INSERT OR IGNORE INTO platform_keys (name, digest) VALUES (?, ?)"
            return connection.count_changed(statement, (key.name, key.digest)) > 0

    def remove_key_but_the_last(self, name: str) -> bool:
        """Forget a key if there is another one; whether it was forgotten."""
        with self._connections.writing() as connection:
            statement = "DELETE FROM platform_keys WHERE name = ? AND (SELECT count(*) FROM platform_keys) > 1"
            return connection.count_changed(statement, (name,)) > 0

    def remove_key(self, name: str) -> bool:
        """Forget a key; whether there was one."""
        with self._connections.writing() as connection:
            return connection.count_changed("DELETE FROM platform_keys WHERE name = ?", (name,)) > 0

    def keys(self) -> list[PlatformKey]:
        """Return all keys."""
        with self._connections.reading() as connection:
            rows = connection.rows("SELECT name, digest FROM platform_keys ORDER BY name")
        return [PlatformKey(name=name, digest=bytes(digest)) for name, digest in rows]

    def setting(self, name: str) -> str | None:
        """Return a setting kept before."""
        return self._settings.get(name)

    def settle(self, name: str, value: str) -> str:
        """Keep a setting unless there is one; return what is kept."""
        with self._settling:
            if name not in self._settings:
                self.keep_setting(name, value)
            return self._settings[name]

    def keep_setting(self, name: str, value: str) -> None:
        """Keep a setting."""
        with self._connections.writing() as connection:
            connection.run("REPLACE INTO settings (name, value) VALUES (?, ?)", (name, value))
        self._settings[name] = value
