"""Settings: everything that can be chosen about a service, from a file, the environment and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearveil.cli._options import DEFAULT_REGION, metres
from nearveil.errors import DataError, OutputError, UsageError
from nearveil.nearby.publishing.keys import KeyFile, Keys, keys_from_json, new_keys, write_keys
from nearveil.nearby.publishing.protection import Policy, Protection, Schedule
from nearveil.region import parse_region
from nearveil.server.settings_sources import as_toml, gather
from nearveil.server.settings_table import KNOWN_SETTINGS, LOUD_OPTION
from nearveil.server.settings_values import duration, masked

_SHARED_KEYS = (
    "services on one PostgreSQL share their keys: name the key file with --keys ('nearveil keys create' makes one), or "
    "put the keys into NEARVEIL_KEYS"
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Settings:
    """All settings of a service, checked: `load` makes them, and `settings_table` says what each of them is.

    Durations and lengths are kept as they are written.

    Attributes
    ----------
    keys_text : str, optional
        The keys themselves, from NEARVEIL_KEYS.
    sources : mapping
        Where each value comes from.

    Examples
    --------
    >>> settings = Settings.load(options={"port": 9000})
    >>> settings.port, settings.sources["port"], settings.sources["host"]
    (9000, 'option --port', 'default')
    """

    store: str = "nearveil-data/nearveil.db"
    host: str = "127.0.0.1"
    port: int = 8000
    region: str = DEFAULT_REGION
    policy: Policy = Policy.PLACE
    hide_within: str = "500m"
    epoch: str = "1h"
    window: str = "30d"
    new_places: int = 20
    intervals: Path | None = None
    keys: Path | None = None
    keys_text: str | None = None
    index: str = "memory"
    questions_per_minute: float = 60.0
    question_burst: float = 30.0
    key_questions_per_s: float = 1000.0
    throttle_suspects: bool = False
    open_probes: bool = False
    test_hooks: bool = False
    console: bool = True
    tile_address: str | None = None
    access_log: bool = False
    log_level: str = "info"
    unprotected: bool = False
    graceful_s: float = 10.0
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    @classmethod
    def load(
        cls,
        config: Path | None = None,
        environ: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Settings:
        """Return defaults, overruled by the file, by the environment and by options that are not None."""
        chosen, sources = gather(KNOWN_SETTINGS, config, environ or {}, options or {})
        settings = cls(**chosen, sources=sources)
        settings._check()
        return settings

    def _check(self) -> None:
        """Refuse what does not go together."""
        if self.policy is Policy.OFF and not self.unprotected:
            raise UsageError(f"the policy off publishes true places; if nobody is real, add {LOUD_OPTION}")
        if self.index == "database" and not self.is_postgresql:
            raise UsageError("only PostgreSQL answers by itself: choose the index memory, or a store postgresql://…")
        if self.keys is not None and self.keys_text is not None:
            raise UsageError("there are keys in a file and in NEARVEIL_KEYS; leave out one of them")
        self.protection()

    @property
    def is_postgresql(self) -> bool:
        """Whether the store is a PostgreSQL database."""
        return self.store.startswith(("postgresql://", "postgres://"))

    def protection(self) -> Protection:
        """Return what is done to reports."""
        return Protection(
            region=parse_region(self.region),
            policy=self.policy,
            hide_within_m=metres(self.hide_within, "hide_within"),
            new_places=self.new_places,
            schedule=Schedule(epoch=duration(self.epoch), window=duration(self.window)),
        )

    def secret_keys(self, *, on_trouble: Callable[[DataError], None] | None = None) -> Keys:
        """Return the service's keys: from NEARVEIL_KEYS, the named file, or one that is made beside the SQLite file.

        Keys for another epoch or window are refused. ``on_trouble`` is told when a file that was there at the start
        cannot be read for a new window.
        """
        schedule = self.protection().schedule
        if self.keys_text is not None:
            keys = keys_from_json(self.keys_text)
            keys.check_schedule(schedule)
            return keys
        if self.keys is not None:
            return KeyFile(self.keys, schedule=schedule, on_trouble=on_trouble)
        if self.is_postgresql:
            raise UsageError(_SHARED_KEYS)
        beside = Path(self.store).parent / "keys.json"
        if not beside.exists():
            _make_folder(beside.parent)
            write_keys(beside, new_keys(schedule))
        return KeyFile(beside, schedule=schedule, on_trouble=on_trouble)

    def show(self) -> str:
        """Return all settings as TOML, each with where it comes from; passwords and keys are masked."""
        lines = [
            as_toml(setting, getattr(self, setting.name), self.sources.get(setting.name, "default"))
            for setting in KNOWN_SETTINGS
        ]
        return "\n".join(lines) + "\n"

    def __repr__(self) -> str:
        return f"Settings(policy={self.policy.value!r}, store={masked(self.store)!r})"


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"the folder {folder} cannot be made ({error.strerror}); choose another store") from None
