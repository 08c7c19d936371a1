"""Settings come from a file, the environment and options in this order, and every mistake has a sentence."""

import tomllib
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearveil.errors import DataError, UsageError
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.fit_cells import cells_from_points
from nearveil.nearby.publishing.keys import new_keys, read_keys, write_keys
from nearveil.region import named_region
from nearveil.server.setting_types import duration, masked
from nearveil.server.settings import KNOWN_SETTINGS, Settings


def config(folder: Path, text: str) -> Path:
    path = folder / "nearveil.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_are_usable_and_the_table_is_complete() -> None:
    settings = Settings.load()
    assert settings == Settings()
    assert set(settings.sources.values()) == {"default"}
    assert all(setting.help and setting.takes for setting in KNOWN_SETTINGS.values())
    protection = Settings.load(options={"region": "berlin"}).protection()
    assert (protection.noise_m, protection.new_places) == (500.0, 20)
    assert protection.schedule.epochs_per_window == 720
    assert protection.dwell_epochs == 2
    assert settings.chained_reports == "always"


def test_the_region_has_to_be_named() -> None:
    with pytest.raises(UsageError, match=r"--region, NEARVEIL_REGION or region in the settings file"):
        Settings.load().protection()


def test_the_later_source_counts(tmp_path: Path) -> None:
    path = config(tmp_path, 'port = 1\nhost = "a"\nregion = "berlin"\n')
    environ = {"NEARVEIL_PORT": "2", "NEARVEIL_HOST": "b", "NEARVEIL_DEBUG": "1", "PORT": "9"}
    settings = Settings.load(path, environ, {"port": 3, "host": None})
    assert (settings.port, settings.host, settings.region, settings.epoch) == (3, "b", "berlin", "1h")
    sources = [settings.sources[name] for name in ("port", "host", "region", "epoch")]
    assert sources == ["option --port", "environment NEARVEIL_HOST", f"file {path}", "default"]


def test_every_setting_can_come_from_the_environment(tmp_path: Path) -> None:
    values = {
        "store": "postgresql://db/x", "host": "0.0.0.0", "port": "0", "region": "fiji",  # noqa: S104
        "noise": "0.2km", "epoch": "15m", "window": "1d",
        "dwell": "3", "new_places": "5", "intervals": "a.json", "chained_reports": "If-Sent",
        "questions_per_minute": "1.5", "question_burst": "2", "key_questions_per_s": "3",
        "workers": "2", "shared_limits": "redis://:secret@cache/1",
        "open_probes": "1", "test_hooks": "on", "console": "False",
        "most_connections": "9", "most_connections_per_address": "0", "proxies": "10.0.0.0/8", "most_headers": "12",
        "most_header_bytes": "2048", "head_timeout_s": "1", "body_timeout_s": "2", "idle_timeout_s": "3",
        "send_timeout_s": "4", "limits_in_proxy": "yes", "tls_certificate": "a.crt", "tls_key": "a.key",
        "tile_address": "https://t/{z}/{x}/{y}.png", "access_log": "true", "audit_log": "a.log",
        "traces_to": "http://c:4318/v1/traces", "traces_share": "0.5", "log_level": "debug",
        "graceful_s": "0.5",
        "store_timeout_s": "1.5", "grace": "2m",
    }  # fmt: skip
    environ = {f"NEARVEIL_{name.upper()}": value for name, value in values.items()}
    environ |= {"NEARVEIL_KEYS": new_keys().to_json()}
    settings = Settings.load(environ=environ)
    usual = Settings()
    same = {name for name in KNOWN_SETTINGS if getattr(settings, name) == getattr(usual, name)}
    # A distance or people: the others are below.
    assert same == {"keys", "hide_among", "cells", "redraw_noise"}
    assert (settings.console, settings.access_log) == (False, True)
    protection = settings.protection()
    assert (protection.noise_m, protection.dwell_epochs) == (200.0, 3)
    named = Settings.load(environ={"NEARVEIL_KEYS_FILE": str(tmp_path / "k.json")})
    assert named.keys == tmp_path / "k.json"


@pytest.mark.parametrize(
    ("name", "wrong", "sentence"),
    [
        ("port", 65_536, "--port takes a whole number from 0 to 65,535"),
        ("noise", "far", "--noise takes a length"),
        ("hide_among", 1, "--hide-among takes a whole number from 2"),
        ("hide_among", 100, "needs the cells of the region"),
        ("cells", "cells.json", "cells go with hide_among"),
        ("window", "45m", "whole number of epochs"),
        ("new_places", 0, "from 1 to 10,000"),
        ("chained_reports", "never", "--chained-reports takes one of: always, if-sent"),
        ("tile_address", "javascript:{z}{x}{y}", "{z}, {x} and {y}"),
        ("workers", 2, "several workers need PostgreSQL"),
        ("shared_limits", "cache:6379", "--shared-limits takes an address of Redis or Valkey"),
        ("shared_limits", "redis://:secret@cache", "put the address into NEARVEIL_SHARED_LIMITS"),
        ("shared_limits", "redis://cache?password=secret", "put the address into NEARVEIL_SHARED_LIMITS"),
        ("region", "atlantis", "no region named"),
        ("proxies", "nginx", "--proxies takes addresses or networks such as 10.0.0.5,10.1.0.0/16, or none"),
        ("head_timeout_s", 0, "--head-timeout-s takes a number from 0.1 to 3,600"),
        ("tls_certificate", "a.crt", "give both tls_certificate and tls_key"),
    ],
)
def test_each_mistake_has_a_sentence(name: str, wrong: object, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        Settings.load(options={name: wrong})
    assert sentence in str(caught.value)


def test_only_the_variables_of_settings_are_read() -> None:
    environ = {"port": "1", "nearveil_port": "2", "NEARVEIL_DEBUG": "1"}
    assert Settings.load(environ=environ) == Settings()
    assert Settings.load(environ=environ | {"NEARVEIL_PORT": "5"}).port == 5


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("NEARVEIL_PROT", "NEARVEIL_PORT"),
        ("NEARVEIL_port", "NEARVEIL_PORT"),
        ("NEARVEIL_NOIS", "NEARVEIL_NOISE"),
        ("NEARVEIL_KEY_FILE", "NEARVEIL_KEYS_FILE"),
        ("NEARVEIL_REDRAW_NOISES", "--redraw-noise"),
    ],
)
def test_misspelt_variables_are_refused_with_the_nearest(variable: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"the environment has '{variable}', .* did you mean '{meant}'"):
        Settings.load(environ={variable: "1"})


def test_variables_that_kubernetes_sets_are_no_mistake() -> None:
    """Of Services named nearveil and nearveil-redis; that of the port itself has the name of a setting."""
    links = {
        "NEARVEIL_SERVICE_HOST": "10.0.0.1",
        "NEARVEIL_SERVICE_PORT": "8000",
        "NEARVEIL_SERVICE_PORT_HTTP": "8000",
        "NEARVEIL_PORT_8000_TCP": "tcp://10.0.0.1:8000",
        "NEARVEIL_PORT_8000_TCP_ADDR": "10.0.0.1",
        "NEARVEIL_REDIS_PORT": "tcp://10.0.0.2:6379",
        "NEARVEIL_REDIS_PORT_6379_TCP_PROTO": "tcp",
    }
    assert Settings.load(environ=links) == Settings()
    with pytest.raises(UsageError, match="NEARVEIL_REDIS_PORT"):
        Settings.load(environ={"NEARVEIL_REDIS_PORT": "6379"})


@pytest.mark.parametrize(
    ("text", "meant"), [("prot = 1", "port"), ("nois = '1km'", "noise"), ("Epoch = '1h'", "epoch")]
)
def test_unknown_names_are_refused_with_the_nearest(tmp_path: Path, text: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"did you mean '{meant}'"):
        Settings.load(config(tmp_path, text))


@pytest.mark.parametrize("text", ["port", "port = 1\nport = 2", "[[", "store = 'postgresql://a:secret"])
def test_files_that_are_not_toml_are_not_repeated(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="not TOML") as caught:
        Settings.load(config(tmp_path, text))
    assert "secret" not in str(caught.value)


# -- secrets -----------------------------------------------------------------------------------------------------


def test_keys_come_from_the_environment_only_and_are_never_shown(tmp_path: Path) -> None:
    keys = new_keys()
    settings = Settings.load(environ={"NEARVEIL_KEYS": keys.to_json()})
    assert settings.secret_keys() == keys
    secrets = (keys.tokens.hex(), keys.noise.hex())
    for shown in (settings.show(), repr(settings), str(settings)):
        assert not any(secret in shown for secret in secrets)
    assert "# keys_text is not shown  # environment NEARVEIL_KEYS" in settings.show()
    with pytest.raises(UsageError, match="NEARVEIL_KEYS"):
        Settings.load(config(tmp_path, "keys_text = '{}'"))
    with pytest.raises(UsageError, match="every user of this machine"):
        Settings.load(options={"keys_text": keys.to_json()})
    with pytest.raises(UsageError, match="leave out one"):
        Settings.load(environ={"NEARVEIL_KEYS": keys.to_json(), "NEARVEIL_KEYS_FILE": "k.json"})
    with pytest.raises(DataError, match="no Nearveil keys"):
        Settings.load(environ={"NEARVEIL_KEYS": "{}"})


def test_keys_are_made_beside_the_embedded_store_once(tmp_path: Path) -> None:
    settings = Settings.load(options={"store": str(tmp_path / "data" / "nearveil.db")})
    keys = settings.secret_keys()
    path = tmp_path / "data" / "keys.json"
    assert path.stat().st_mode & 0o777 == 0o600
    made = read_keys(path)
    for read in (keys, settings.secret_keys()):
        assert read == made
    assert made.schedule == settings.schedule


def test_keys_for_another_schedule_are_refused(tmp_path: Path) -> None:
    store = str(tmp_path / "nearveil.db")
    made = Settings.load(options={"store": store, "epoch": "15m", "window": "10d"})
    made.secret_keys()
    path = tmp_path / "keys.json"
    before, environ = path.read_bytes(), {"NEARVEIL_KEYS": path.read_text(encoding="utf-8")}
    sentence = (
        "for an epoch of 15m and a window of 10d, and the service has 1h and 30d; start it with --epoch 15m --window"
    )
    for other in (
        Settings.load(options={"store": store}),
        Settings.load(options={"keys": path}),
        Settings.load(environ=environ),
    ):
        with pytest.raises(UsageError, match=sentence):
            other.secret_keys()
    assert path.read_bytes() == before
    for same in (made, Settings.load(environ=environ, options={"epoch": "900s", "window": "240h"})):
        assert same.secret_keys().tokens == read_keys(path).tokens


def test_named_keys_are_never_made(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    settings = Settings.load(options={"keys": path})
    with pytest.raises(DataError, match="cannot be read"):
        settings.secret_keys()
    write_keys(path, keys := new_keys())
    assert settings.secret_keys().tokens == keys.tokens


def test_services_on_one_database_share_their_keys() -> None:
    with pytest.raises(UsageError, match="share their keys"):
        Settings.load(options={"store": "postgresql://db/x"}).secret_keys()


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ann:s3cret@db/x", "postgresql://ann:s3c@s3cret@db/x", "postgres://:s3cret@/x",
        "postgresql://db/x?user=ann&password=s3cret", "postgresql://db/x?sslpassword=s3cret&a=b",
        "postgresql://ann:a/s3cret@db/x?PASSWORD=s3cret", "host=db password=s3cret",
    ],
)  # fmt: skip
def test_passwords_are_masked(address: str) -> None:
    settings = Settings().model_copy(update={"store": address})
    for shown in (settings.show(), repr(settings), masked(address)):
        assert "s3cret" not in shown
        assert "***" in shown


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("store", "postgresql://ann:s3cret@db/x"), ("store", "postgresql://db/x?user=ann&password=s3cret"),
        ("store", "host=db password=s3cret"), ("store", "redis://:s3cret@cache:6379/0"),
        ("tile_address", "https://ann:s3cret@tiles/{z}/{x}/{y}.png"),
    ],
)  # fmt: skip
def test_a_password_on_the_command_line_is_refused(tmp_path: Path, name: str, address: str) -> None:
    option = f"--{name.replace('_', '-')}"
    with pytest.raises(UsageError, match=f"can see the password in {option}; put the address into NEARVEIL_") as caught:
        Settings.load(options={name: address})
    assert "s3cret" not in str(caught.value)
    # Where other users cannot see it, it is fine.
    assert getattr(Settings.load(environ={f"NEARVEIL_{name.upper()}": address}), name) == address
    assert getattr(Settings.load(config(tmp_path, f'{name} = "{address}"')), name) == address


# -- showing -----------------------------------------------------------------------------------------------------


def test_what_is_shown_is_a_settings_file_with_sources(tmp_path: Path) -> None:
    tiles = "https://t/{z}/{x}/{y}?a=é\\"
    settings = Settings.load(options={"region": "fiji", "port": 9, "tile_address": tiles, "console": False})
    shown = settings.show()
    assert "port = 9  # option --port" in shown.splitlines()
    assert "# intervals is not set  # default" in shown.splitlines()
    assert Settings.load(config(tmp_path, shown)).model_dump() == settings.model_dump()
    assert set(tomllib.loads(shown)) <= set(KNOWN_SETTINGS)


# -- durations ---------------------------------------------------------------------------------------------------


@given(st.integers(1, 36_525), st.sampled_from("smhd"))
def test_durations(amount: int, unit: str) -> None:
    seconds = amount * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[unit]
    assert duration(f" {amount}{unit} ") == timedelta(seconds=seconds)


@given(st.text(max_size=12))
def test_a_duration_or_a_sentence(text: str) -> None:
    try:
        assert duration(text) > timedelta()
    except UsageError as error:
        assert "such as 90s, 15m, 1h or 30d" in str(error)


@pytest.mark.parametrize(
    "wrong", ["0s", "1", "s", "-1h", "1.5h", "1H", "٣h", "36526d", "9999999999d", "99999999d", "1h1m"]
)
def test_what_is_no_duration(wrong: str) -> None:
    with pytest.raises(UsageError, match="such as 90s"):
        duration(wrong)


@pytest.fixture(scope="module")
def cells_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    region = named_region("paris")
    path = tmp_path_factory.mktemp("cells") / "cells.json"
    path.write_text(cells_from_points(synthetic_city(500, region, rng=1), region).to_json())
    return path


def test_people_are_hidden_among_people_or_within_a_distance(cells_file: Path) -> None:
    environ = {"NEARVEIL_HIDE_AMONG": "50", "NEARVEIL_CELLS": str(cells_file), "NEARVEIL_REGION": "paris"}
    settings = Settings.load(environ=environ)
    protection = settings.protection()
    assert protection.among is not None
    assert (protection.among.hide_among, protection.noise_m) == (50, None)
    assert settings.protection().among is protection.among
    assert "# noise is not set" in settings.show()
    with pytest.raises(UsageError, match="give noise or hide_among"):
        Settings.load(environ=environ, options={"noise": "500m"})
    with pytest.raises(UsageError, match="not for the service's region"):
        Settings.load(environ=environ, options={"region": "berlin"})


def test_a_cells_file_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cells.json"
    for content in (None, b"{}", b"\xff\xfe"):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(DataError, match=r"not a file of cells|cannot be read"):
            Settings.load(options={"hide_among": 50, "cells": str(path), "region": "paris"})


def test_noise_is_drawn_anew_by_an_option_alone(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="use the option --redraw-noise"):
        Settings.load(config(tmp_path, "redraw_noise = true"))
    with pytest.raises(UsageError, match="use the option --redraw-noise"):
        Settings.load(environ={"NEARVEIL_REDRAW_NOISE": "true"})
    assert Settings.load(options={"redraw_noise": True}).redraw_noise
