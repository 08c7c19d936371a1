"""Settings of a service, from a file, the environment and options.

Each setting is declared once, in `Settings`. Its variable, its option, its key in a settings file, its line in
``--show-config``, its row in the documentation and the sentence about a wrong value follow from that.
"""

from __future__ import annotations

import difflib
import ipaddress
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from annotated_types import Ge, Le
from pydantic import AliasGenerator, BeforeValidator, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from nearveil.errors import DataError, OutputError, UsageError
from nearveil.lengths import meters
from nearveil.mechanisms.cells import Cells, cells_from_json
from nearveil.mechanisms.fit_cells import MOST_HIDE_AMONG
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.mechanisms.planar_laplace import DEFAULT_NOISE_M
from nearveil.nearby.publishing.keys import SecretKeys, keys_from_json, new_keys, read_keys, write_keys
from nearveil.nearby.publishing.protection import Protection, Schedule
from nearveil.nearby.stores import is_postgres
from nearveil.region import as_region
from nearveil.server.setting_types import (
    Duration,
    File,
    KeysAsJson,
    Length,
    Networks,
    Number,
    People,
    RedisAddress,
    RegionName,
    Takes,
    Text,
    TileAddress,
    WebAddress,
    Whole,
    YesNo,
    duration,
    has_password,
    masked,
    word,
)

_SHARED_KEYS = (
    "services on one PostgreSQL share their keys: name the key file with --keys ('nearveil keys create' makes one), or "
    "put the keys into NEARVEIL_KEYS"
)


def _setting(
    default: object,
    help_text: str,
    *,
    panel: Literal["Protection", "Limits"] | None = None,
    variable: str | None = None,
    option: str | None = None,
    only: Literal["environment", "option"] | None = None,
    least: float | None = None,
    most: float | None = None,
) -> Any:
    """Declare a setting; ``only`` is the one source that it may come from."""
    about: dict[str, Any] = {"panel": panel, "option": option, "only": only}
    return Field(
        default, description=help_text, validation_alias=variable, ge=least, le=most, json_schema_extra=about
    )  # fmt: skip


class Settings(BaseSettings):
    """All settings of a service, validated; `load` makes them. Durations and lengths are kept as text.

    Examples
    --------
    >>> settings = Settings.load(options={"port": 9000})
    >>> settings.port, settings.sources["port"], settings.sources["host"]
    (9000, 'option --port', 'default')
    """

    model_config = SettingsConfigDict(
        alias_generator=AliasGenerator(validation_alias=lambda name: f"NEARVEIL_{name.upper()}"),
        populate_by_name=True,
        loc_by_alias=False,
        case_sensitive=True,
        validate_default=False,
        frozen=True,
        hide_input_in_errors=True,
    )

    store: Text = _setting(
        "nearveil-data/nearveil.db", "Store of the noisy locations: a SQLite file, or postgresql://…"
    )
    host: Text = _setting("127.0.0.1", "Address to listen on.")
    port: Whole = _setting(8000, "Port to listen on; 0 for any free port.", least=0, most=65_535)
    workers: Whole = _setting(
        1, "Number of processes that listen on the address; more than one needs PostgreSQL.", least=1, most=64
    )
    region: RegionName = _setting(
        None, "Public region, to be named: a name, south,west,north,east in degrees, or a GeoJSON file."
    )
    noise: Length = _setting(
        f"{DEFAULT_NOISE_M:.0f}m", "Mean distance that the noise adds, such as 500m or 0.5km.", panel="Protection"
    )
    hide_among: People = _setting(
        None,
        "Mean number of users to hide among, in place of noise; half of all users have fewer than about half as many "
        "others nearer. Needs cells.",
        panel="Protection",
        least=2,
        most=MOST_HIDE_AMONG,
    )
    cells: File = _setting(
        None, "Cells file from 'nearveil fit --hide-among'; each cell is one place.", panel="Protection"
    )
    epoch: Duration = _setting("1h", "Time between two publications, such as 15m or 1h.", panel="Protection")
    window: Duration = _setting(
        "30d",
        "Time in which new locations are counted against the budget: a whole number of epochs.",
        panel="Protection",
    )
    dwell: Whole = _setting(
        2,
        "Number of epochs in which a location must be reported, with no other between, before it counts.",
        panel="Protection",
        least=1,
        most=1000,
    )
    new_places: Whole = _setting(
        20,
        "Number of new locations of a person that are drawn in a window, at most; a secret number from half of it on.",
        panel="Protection",
        least=1,
        most=10_000,
    )
    chained_reports: Annotated[Literal["always", "if-sent"], BeforeValidator(word)] = _setting(
        "always",
        "Reports that must bring the receipt of the one before: all but a person's first (always), or only those after "
        "one that did (if-sent), which lets a stolen key or token find people.",
        panel="Protection",
    )
    intervals: File = _setting(
        None, "Intervals file from 'nearveil fit'; published locations are moved to the intervals.", panel="Protection"
    )
    keys: File = _setting(
        None,
        "File of secret keys; by default keys.json beside the SQLite file.",
        panel="Protection",
        variable="NEARVEIL_KEYS_FILE",
    )
    keys_text: KeysAsJson = _setting(None, "The secret keys as JSON.", variable="NEARVEIL_KEYS", only="environment")
    store_timeout_s: Number = _setting(
        3.0, "Seconds for a database to connect, and to answer; then it counts as away.", least=0.1, most=60
    )
    grace: Duration = _setting("10m", "Time for which known callers may ask while the database is away.")
    questions_per_minute: Number = _setting(
        60.0, "Questions of a person per minute; 0 for no limit.", panel="Limits", least=0, most=1e6
    )
    question_burst: Number = _setting(
        30.0, "Questions that a person may ask in a burst.", panel="Limits", least=1, most=1e6
    )
    key_questions_per_s: Number = _setting(
        1000.0, "Requests of a platform key per second; 0 for no limit.", panel="Limits", least=0, most=1e9
    )
    shared_limits: RedisAddress = _setting(
        None, "Redis or Valkey through which processes share limits, such as redis://cache.", panel="Limits"
    )
    most_connections: Whole = _setting(4096, "Open connections at once.", panel="Limits", least=1, most=500_000)
    most_connections_per_address: Whole = _setting(
        256,
        "Open connections of one client address, or of one /64 of IPv6; 0 for no limit.",
        panel="Limits",
        least=0,
        most=500_000,
    )
    proxies: Networks = _setting(
        "127.0.0.1,::1",
        "Reverse proxies, to which the limit per address does not apply: addresses or networks, or none.",
        panel="Limits",
    )
    most_header_bytes: Whole = _setting(
        16_384, "Bytes of a request before its body.", panel="Limits", least=1024, most=524_288
    )
    most_headers: Whole = _setting(100, "Headers of a request.", panel="Limits", least=10, most=10_000)
    head_timeout_s: Number = _setting(
        10.0,
        "Seconds for the headers of a request, of the first one from the connection on.",
        panel="Limits",
        least=0.1,
        most=3600,
    )
    body_timeout_s: Number = _setting(30.0, "Seconds for the body of a request.", panel="Limits", least=0.1, most=3600)
    idle_timeout_s: Number = _setting(
        30.0, "Seconds between an answer and the next request of a connection.", panel="Limits", least=0.1, most=3600
    )
    send_timeout_s: Number = _setting(
        30.0, "Seconds for a client to read an answer.", panel="Limits", least=0.1, most=3600
    )
    limits_in_proxy: YesNo = _setting(
        False,
        "Start even if the installed uvicorn does not let Nearveil limit connections: a reverse proxy does it.",
        panel="Limits",
    )
    tls_certificate: File = _setting(None, "Certificate for TLS, with those above it (PEM); needs tls-key.")
    tls_key: File = _setting(None, "Secret key of the certificate (PEM, without a password).")
    open_probes: YesNo = _setting(False, "Allow /readyz and /metrics from this machine without a key.")
    test_hooks: YesNo = _setting(False, "Allow a platform key to advance the epoch; for tests only.")
    console: YesNo = _setting(True, "Serve the operator's console at /.")
    tile_address: TileAddress = _setting(None, "Address of map tiles for the console, with {z}, {x} and {y}.")
    access_log: YesNo = _setting(False, "Log one line per request: only method, route, caller, status and time.")
    traces_to: WebAddress = _setting(
        None,
        "Collector for traces of OpenTelemetry (OTLP over HTTP): only method, route, status and time.",
    )
    traces_share: Number = _setting(0.01, "Share of the requests that are traced.", least=0, most=1)
    audit_log: File = _setting(
        None, "File of the audit log: who changed what, ids hashed. Without it, its entries are lines of the log."
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(word)] = _setting(
        "info", "Least severe level to log: debug, info, warning, or error."
    )
    redraw_noise: YesNo = _setting(
        False,
        "Accept another noise, hide-among or cells on a store in use: all noise is drawn anew, and charged.",
        panel="Protection",
        only="option",
    )
    graceful_s: Number = _setting(10.0, "Seconds to wait at a stop for requests to finish.", least=0, most=3600)

    _sources: dict[str, str] = {}
    _among: HideAmong | None = None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read only the environment that `load` is given."""
        return (init_settings,)

    @classmethod
    def load(
        cls,
        config: Path | None = None,
        environ: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Settings:
        """Return the defaults, overridden by the file, then the environment, then options that are not None."""
        values: dict[str, Any] = {}
        sources: dict[str, str] = {}
        for given in (_from_file(config), _from_environment(environ or {}), _from_options(options or {})):
            values |= given.values
            sources |= {name: given.source(KNOWN_SETTINGS[name]) for name in given.values}
            # Checked after each source, so that an error names its source, even if a later source overrides the value.
            settings = _checked(values, given)
        if settings.hide_among is not None and "noise" not in values:
            # Of the two only one applies.
            settings = settings.model_copy(update={"noise": None})
        settings._sources = sources
        settings._check()
        return settings

    def _check(self) -> None:
        """Refuse settings that contradict each other."""
        if self.workers > 1 and not is_postgres(self.store):
            raise UsageError(
                "several workers need PostgreSQL, because one process at a time may use a SQLite file: choose a store "
                "postgresql://…, or leave out workers"
            )
        if self.keys is not None and self.keys_text is not None:
            raise UsageError("keys are given both in a file and in NEARVEIL_KEYS; leave out one of them")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise UsageError("TLS needs a certificate and its key; give both tls_certificate and tls_key, or neither")
        if self.hide_among is not None and self.noise is not None:
            raise UsageError("give noise or hide_among, not both")
        if self.hide_among is not None and self.cells is None:
            raise UsageError("hide_among needs the cells of the region; make a file with 'nearveil fit --hide-among'")
        if self.cells is not None and self.hide_among is None:
            raise UsageError("cells go with hide_among; say among how many people to hide, or leave them out")
        _ = self.schedule
        if self.region is not None:
            self.protection()

    @property
    def sources(self) -> Mapping[str, str]:
        """Source of each value."""
        return dict.fromkeys(KNOWN_SETTINGS, "default") | self._sources

    @property
    def schedule(self) -> Schedule:
        """Epochs and budget windows."""
        return Schedule(epoch=duration(self.epoch), window=duration(self.window))

    def protection(self) -> Protection:
        """Return the protection that is applied to reports."""
        if self.region is None:
            raise UsageError(
                "name the public region with --region, NEARVEIL_REGION or region in the settings file: a name such as "
                "berlin, south,west,north,east in degrees, or a GeoJSON file"
            )
        return Protection(
            region=as_region(self.region),
            noise_m=None if self.noise is None else meters(self.noise, "noise"),
            among=self._hidden_among(),
            new_places=self.new_places,
            dwell_epochs=self.dwell,
            schedule=self.schedule,
        )

    def _hidden_among(self) -> HideAmong | None:
        if self._among is None and self.hide_among is not None and self.cells is not None:
            self._among = HideAmong(self.hide_among, cells=read_cells_file(self.cells))
        return self._among

    def kept_keys(self) -> SecretKeys | None:
        """Return the keys in NEARVEIL_KEYS, the named file, or the one beside the SQLite file; None if that is none."""
        if self.keys_text is not None:
            return keys_from_json(self.keys_text)
        if self.keys is not None:
            return read_keys(self.keys)
        return None if is_postgres(self.store) or not self._beside.exists() else read_keys(self._beside)

    def secret_keys(self) -> SecretKeys:
        """Return the service's keys, which are created beside the SQLite file; refuse those for another schedule."""
        keys = self.kept_keys()
        if keys is None:
            if is_postgres(self.store):
                raise UsageError(_SHARED_KEYS)
            _make_folder(self._beside.parent)
            write_keys(self._beside, new_keys(self.schedule))
            keys = read_keys(self._beside)
        keys.check_schedule(self.schedule)
        return keys

    @property
    def _beside(self) -> Path:
        return Path(self.store).parent / "keys.json"

    def show(self) -> str:
        """Return all settings as TOML, each with its source; passwords and keys are masked."""
        sources = self.sources
        lines = [_as_toml(known, getattr(self, name), sources[name]) for name, known in KNOWN_SETTINGS.items()]
        return "\n".join(lines) + "\n"

    def __repr_args__(self) -> Iterator[tuple[str, str]]:
        yield "store", masked(self.store)


def read_cells_file(path: Path) -> Cells:
    """Read the cells that an operator names at the start."""
    try:
        return cells_from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise DataError(f"the cells file {path} cannot be read; name a file from 'nearveil fit --hide-among'") from None


def is_loopback(host: str) -> bool:
    """Whether an address or a name is this machine's own, which no other machine reaches."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"the folder {folder} cannot be created ({error.strerror}); choose another store") from None


# Derived from the declarations: names in other sources, help, and error messages.


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One declared setting.

    Attributes
    ----------
    kind : type
        Type of its values on the command line.
    default : str
        As a user writes it; empty if there is none.
    takes : str
        Description of its values; ``metavar`` is the short form, if the type is not enough.
    variable, option : str
        Name in the environment and on the command line.
    panel : str, optional
        Section of the help.
    only : str, optional
        The only source that it may come from.
    """

    name: str
    kind: type
    default: str
    help: str
    takes: str
    metavar: str | None
    variable: str
    option: str
    panel: str | None
    only: Literal["environment", "option"] | None


def _described(name: str, field: FieldInfo) -> Setting:
    about: Any = field.json_schema_extra
    takes = _what_it_takes(field)
    kind = (get_args(field.annotation) or (field.annotation,))[0]
    return Setting(
        name=name,
        kind=kind if isinstance(kind, type) else str,
        default=_as_people_write(field.default),
        help=field.description or "",
        takes=takes.text,
        metavar=takes.metavar,
        variable=str(field.validation_alias),
        option=about["option"] or f"--{name.replace('_', '-')}",
        panel=about["panel"],
        only=about["only"],
    )


def _what_it_takes(field: FieldInfo) -> Takes:
    found: dict[type, Any] = {type(each): each for each in field.metadata}
    if isinstance(takes := found.get(Takes), Takes):
        return takes
    if Ge in found:
        noun = "whole number" if field.annotation is int else "number"
        return Takes(f"a {noun} from {found[Ge].ge:,g} to {found[Le].le:,g}")
    return Takes(f"one of: {', '.join(get_args(field.annotation) or field.annotation)}")  # type: ignore[arg-type]


def _as_people_write(default: object) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    return f"{default:g}" if isinstance(default, float) else str(default or "")


KNOWN_SETTINGS = {name: _described(name, field) for name, field in Settings.model_fields.items()}


# Sources of values: a TOML file, the environment and options; later sources override earlier ones.


@dataclass(frozen=True, slots=True)
class _Given:
    """Values from one source, and how to name the source in ``--show-config`` and in errors."""

    values: Mapping[str, Any]
    source: Callable[[Setting], str]
    label: Callable[[Setting], str]


def _from_file(config: Path | None) -> _Given:
    values = {} if config is None else _document(config)
    for name in values:
        setting = _named(name, f"the settings file {config}")
        if setting.only == "environment":
            raise UsageError(f"{name} does not belong in a settings file; put it into {setting.variable}")
        if setting.only == "option":
            raise UsageError(f"{name} does not belong in a settings file; use the option {setting.option}")
    return _Given(values, lambda _: f"file {config}", lambda setting: f"{setting.name} in {config}")


def _document(config: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(config.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the settings file {config} cannot be read ({error.strerror}); name another") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        # The parser's message would repeat a line of the file, which may hold a password.
        raise UsageError(f"the settings file {config} is not TOML; write lines such as port = 8000") from None


_OTHER_VARIABLES = frozenset(
    {"NEARVEIL_CACHE_DIR", "NEARVEIL_DATA_DIR", "NEARVEIL_DEBUG", "NEARVEIL_IMPORT_FROM", "NEARVEIL_PLATFORM_KEY"}
)
"""Variables of other commands."""

# Kubernetes sets these in every container beside a Service whose name begins with "nearveil".
_SERVICE_LINK = re.compile(r"NEARVEIL_(\w+_)?(SERVICE_HOST|SERVICE_PORT\w*|PORT_[0-9]+_(TCP|UDP|SCTP)\w*)")
_LINKED_PORT = re.compile(r"NEARVEIL_\w+_PORT=(tcp|udp|sctp)://.*")


def _from_environment(environ: Mapping[str, str]) -> _Given:
    known = {setting.variable: setting for setting in KNOWN_SETTINGS.values()}
    for variable in environ:
        if variable.startswith("NEARVEIL_") and not _is_of_others(variable, environ[variable]):
            _refuse_misspelt(variable, known)
    source = EnvSettingsSource(Settings)
    source.env_vars = environ
    found = source()
    values = {known[variable].name: value for variable, value in found.items() if variable in known}
    return _Given(values, lambda setting: f"environment {setting.variable}", lambda setting: setting.variable)


def _is_of_others(variable: str, value: str) -> bool:
    linked = _SERVICE_LINK.fullmatch(variable) or _LINKED_PORT.fullmatch(f"{variable}={value}")
    return variable in _OTHER_VARIABLES or linked is not None


def _refuse_misspelt(variable: str, known: Mapping[str, Setting]) -> None:
    if variable not in known:
        near = known[difflib.get_close_matches(variable.upper(), known, n=1, cutoff=0.0)[0]]
        meant = near.option if near.only == "option" else near.variable
        raise UsageError(f"the environment has {variable[:40]!r}, which is not a setting; did you mean {meant!r}?")
    if known[variable].only == "option":
        raise UsageError(f"{variable} is not read from the environment; use the option {known[variable].option}")


def _from_options(options: Mapping[str, Any]) -> _Given:
    for name in options:
        setting = _named(name, "the command line")
        if setting.only == "environment":
            raise UsageError(f"every user of this machine could see {name}; put it into {setting.variable}")
        if has_password(options[name]):
            raise UsageError(
                f"every user of this machine can see the password in {setting.option}; put the address into "
                f"{setting.variable} or a settings file, or leave the password out and let a password file have it "
                "(PGPASSFILE)"
            )
    values = {name: value for name, value in options.items() if value is not None}
    return _Given(values, lambda setting: f"option {setting.option}", lambda setting: setting.option)


def _named(name: str, where: str) -> Setting:
    if name in KNOWN_SETTINGS:
        return KNOWN_SETTINGS[name]
    near = difflib.get_close_matches(name.replace("-", "_").lower(), KNOWN_SETTINGS, n=1, cutoff=0.0)
    raise UsageError(f"{where} has {name[:40]!r}, which is not a setting; did you mean {near[0]!r}?")


def _checked(values: Mapping[str, Any], latest: _Given) -> Settings:
    """Return settings with these values, or raise an error that names the wrong one."""
    try:
        return Settings(**values)
    except ValidationError as error:
        first = error.errors()[0]
        setting = KNOWN_SETTINGS[str(first["loc"][0])]
        own = first.get("ctx", {}).get("error")
    # Unusable keys have their own error message.
    raise own if isinstance(own, DataError) else UsageError(f"{latest.label(setting)} takes {setting.takes}")


def _as_toml(setting: Setting, value: object, source: str) -> str:
    """Return one line of a settings file, with the source in a comment; secrets are masked."""
    if setting.only == "environment":
        return f"# {setting.name} {'is not set' if value is None else 'is not shown'}  # {source}"
    if value is None:
        return f"# {setting.name} is not set  # {source}"
    shown = value if isinstance(value, bool | int | float) else masked(str(value))
    line = f"{setting.name} = {json.dumps(shown, ensure_ascii=False)}  # {source}"
    return f"# {line}" if setting.only == "option" else line
