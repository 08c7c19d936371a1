"""``nearveil serve``: what it says, and how it ends when something is wrong."""

import os
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from nearveil.cli.serve import announce, serve
from nearveil.errors import NearveilError
from nearveil.nearby.publishing.keys import new_keys, write_keys
from nearveil.server.run import listen
from nearveil.server.service import Service
from nearveil.server.settings import Settings
from tests.server.served import served


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("NEARVEIL_")]:
        monkeypatch.delenv(name)


def _serve(**options: Any) -> None:
    assert serve.callback is not None
    serve.callback(**options)


def _refused(code: int, **options: Any) -> str:
    """Start with options that cannot work; return the one sentence."""
    with pytest.raises(NearveilError) as caught:
        _serve(**{"port": 0, "region": "san-francisco", **options})
    assert caught.value.exit_code == code, str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_it_shows_its_settings_without_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "settings.toml"
    config.write_text('region = "berlin"\nnew_places = 7\n')
    monkeypatch.setenv("NEARVEIL_NOISE", "800m")
    monkeypatch.setenv("NEARVEIL_NEW_PLACES", "9")
    _serve(config=config, port=9001, show_config=True)
    found = tomllib.loads(capsys.readouterr().out)
    assert (found["region"], found["new_places"], found["noise"], found["port"]) == ("berlin", 9, "800m", 9001)
    assert not (tmp_path / "nearveil-data").exists()


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        ({"epoch": "7m", "window": "1h"}, 2, "window"),
        ({"region": "atlantis"}, 2, "region"),
        ({"port": 70_000}, 2, "port"),
        ({"host": "no.such.host.invalid"}, 2, "--host"),
        ({"store": "postgresql://127.0.0.1:9/nearveil"}, 2, "--keys"),
        ({"keys": Path("missing.json")}, 3, "key file"),
        ({"intervals": Path("missing.json")}, 3, "intervals"),
        ({"config": Path("missing.toml")}, 2, "missing.toml"),
        ({"store": "settings/nearveil.db"}, 4, "folder"),
    ],
    ids=str,
)
def test_what_is_wrong_is_one_sentence_and_no_key_is_made(
    tmp_path: Path, options: dict[str, Any], code: int, word: str
) -> None:
    (tmp_path / "settings").write_text("a file where a folder should be")
    assert word in _refused(code, **options)
    assert not list(tmp_path.glob("**/platform-key.txt"))


def test_a_port_in_use_is_said() -> None:
    with listen(Settings.load(None, {}, {"port": 0})) as busy:
        assert "--port" in _refused(2, port=busy.getsockname()[1])


def test_a_store_is_refused_with_other_keys_and_another_grid(tmp_path: Path) -> None:
    (tmp_path / "nearveil-data").mkdir()
    Service.open(Settings.load(None, {}, {"region": "san-francisco"})).close()
    write_keys(tmp_path / "other.json", new_keys())
    assert "another key file" in _refused(2, keys=tmp_path / "other.json")
    assert "noise" in _refused(2, noise="100m")


def test_open_addresses_are_loud(tmp_path: Path) -> None:
    with served(tmp_path, "--host", "0.0.0.0") as service:  # noqa: S104
        assert service.call("GET", "/healthz").status_code == 200
        assert service.stop() == 0
    assert "TLS" in service.log.read_text()


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        ({}, ""),
        ({"window": "1d"}, "every budget window allows new places"),
        ({"chained_reports": "if-sent"}, "a stolen key or token finds most people whose phones report in some hours"),
        ({"chained_reports": "always"}, ""),
    ],
    ids=str,
)
def test_what_gives_away_more_is_warned_of(
    options: dict[str, Any], warning: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(
        Service.open(Settings.load(None, {}, {"store": "nearveil.db", "region": "san-francisco", **options}))
    ) as service:
        announce(service, "http://127.0.0.1:8000", None)
    said = capsys.readouterr().err
    assert warning in said.replace("\n", " ")
    assert bool(said) is bool(warning)
