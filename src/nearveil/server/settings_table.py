"""What there is to set: the names, what each may hold, and its help."""

from __future__ import annotations

from typing import Any

from nearveil.nearby.publishing.protection import Policy
from nearveil.server import settings_values as values
from nearveil.server.settings_sources import Setting

LOUD_OPTION = "--i-understand-that-this-protects-nobody"
INDEXES = ("memory", "database")
LOG_LEVELS = ("debug", "info", "warning", "error")


def _setting(name: str, read: values.Reader, help_text: str, **special: Any) -> Setting:
    names = {"variable": f"NEARVEIL_{name.upper()}", "option": f"--{name.replace('_', '-')}"}
    return Setting(name=name, read=read, help=help_text, **(names | special))


KNOWN_SETTINGS: tuple[Setting, ...] = (
    _setting("store", values.text, "Where draws are kept: a SQLite file, or postgresql://…"),
    _setting("host", values.text, "Address to listen on."),
    _setting("port", values.whole(0, 65_535), "Port to listen on; 0 for any that is free."),
    _setting("region", values.text, "Public region: a name, south,west,north,east in degrees, or a GeoJSON file."),
    _setting("policy", values.one_of(Policy), "Noise per place, fresh noise at every border, or off (demonstrations)."),
    _setting("hide_within", values.length_as_written, "Mean length of the noise, such as 500m or 0.5km."),
    _setting("epoch", values.duration_as_written, "Time between two borders, such as 15m or 1h."),
    _setting("window", values.duration_as_written, "How long a budget lasts: a whole number of epochs."),
    _setting("new_places", values.whole(1, 10_000), "How many places of a person are published in a window."),
    _setting("intervals", values.path, "Intervals that 'nearveil fit' wrote, to publish on."),
    _setting(
        "keys", values.path, "Secret keys; keys.json beside a SQLite file if not named.", variable="NEARVEIL_KEYS_FILE"
    ),
    _setting(
        "keys_text", values.text_of_keys, "The keys themselves as JSON.", variable="NEARVEIL_KEYS", only="environment"
    ),
    _setting("index", values.one_of(INDEXES), "What answers questions."),
    _setting("questions_per_minute", values.number(0, 1e6), "Questions of a person; 0 for no limit."),
    _setting("question_burst", values.number(1, 1e6), "Questions of a person at once, after a rest."),
    _setting("key_questions_per_s", values.number(0, 1e9), "Questions of a platform key; 0 for no limit."),
    _setting("throttle_suspects", values.yes_no, "Refuse questions of people whose behaviour is flagged."),
    _setting("open_probes", values.yes_no, "Let /readyz and /metrics be read from this machine without a key."),
    _setting("test_hooks", values.yes_no, "Let a platform key advance the epoch; for tests only."),
    _setting("console", values.yes_no, "Serve the operator's page at /."),
    _setting("tile_address", values.tile_address, "Map tiles for that page, with {z}, {x} and {y}."),
    _setting("access_log", values.yes_no, "Log a line per request: method, route, status and time only."),
    _setting("log_level", values.one_of(LOG_LEVELS), "What to log."),
    _setting(
        "unprotected", values.yes_no, "What the policy off needs: true places are published.",
        option=LOUD_OPTION, only="option",
    ),
    _setting("graceful_s", values.number(0, 3600), "How long a stop waits for requests under way, in seconds."),
)  # fmt: skip
