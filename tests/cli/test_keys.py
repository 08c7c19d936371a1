"""Keys are made once, rotated at a window's end, and a platform's key is shown once."""

import re
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from nearveil.cli.keys import keys_app
from nearveil.errors import DataError, NearveilError, OutputError, UsageError
from nearveil.nearby.publishing.secret_keys import read_keys
from nearveil.nearby.stores.opening import open_store
from nearveil.server.access import Access

DAY_S = 86_400


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(keys_app, [str(argument) for argument in arguments])
    if isinstance(result.exception, NearveilError):
        raise result.exception
    return result


def at(monkeypatch: pytest.MonkeyPatch, moment: float) -> None:
    monkeypatch.setattr(time, "time", lambda: moment)


def test_create_never_replaces(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    made = run("create", path)
    assert made.exit_code == 0
    keys = read_keys(path)
    assert keys.tokens.hex() not in made.output
    with pytest.raises(OutputError):
        run("create", path)
    assert read_keys(path) == keys


def test_rotate_adds_a_key_from_the_next_window_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys.json"
    run("create", path)
    before = read_keys(path)
    at(monkeypatch, 60.5 * 30 * DAY_S)
    shown = run("rotate", path)
    after = read_keys(path)
    assert [key.from_window for key in after.noise] == [0, 61]
    assert after.noise[0] == before.noise[0]
    assert after.noise[1].secret != before.noise[0].secret
    assert after.tokens == before.tokens
    assert time.strftime("%Y-%m-%d", time.gmtime(61 * 30 * DAY_S)) in shown.output
    with pytest.raises(UsageError, match="already"):
        run("rotate", path)
    assert read_keys(path) == after
    at(monkeypatch, 61.5 * 30 * DAY_S)
    run("rotate", path)
    assert [key.from_window for key in read_keys(path).noise] == [61, 62]


def test_rotate_in_the_last_epoch_leaves_the_next_window_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits then counts in the next window already, and was drawn with its key."""
    path = tmp_path / "keys.json"
    run("create", path)
    at(monkeypatch, 10 * DAY_S - 1)
    run("rotate", path, "--epoch", "15m", "--window", "10d")
    assert [key.from_window for key in read_keys(path).noise] == [0, 2]


def test_rotate_takes_the_schedule_from_where_the_service_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, config = (tmp_path / name for name in ("first.json", "second.json", "nearveil.toml"))
    config.write_text("epoch = '15m'\nwindow = '10d'\n")
    at(monkeypatch, 15 * DAY_S)
    run("create", first)
    run("rotate", first, "--config", config)
    monkeypatch.setenv("NEARVEIL_WINDOW", "5d")
    run("create", second)
    run("rotate", second)
    assert [read_keys(path).noise[-1].from_window for path in (first, second)] == [2, 4]


def test_a_key_that_came_too_late_is_postponed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys.json"
    run("create", path)
    with pytest.raises(UsageError, match="one key only"):
        run("postpone", path)
    at(monkeypatch, 60.5 * 30 * DAY_S)
    run("rotate", path)
    newest = read_keys(path).noise[-1]
    at(monkeypatch, 61.5 * 30 * DAY_S)
    shown = run("postpone", path)
    after = read_keys(path)
    assert [key.from_window for key in after.noise] == [0, 62]
    assert after.noise[-1].secret == newest.secret
    assert time.strftime("%Y-%m-%d", time.gmtime(62 * 30 * DAY_S)) in shown.output


def test_old_keys_are_dropped_when_their_window_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys.json"
    run("create", path)
    at(monkeypatch, 60.5 * 30 * DAY_S)
    run("rotate", path)
    before = read_keys(path)
    assert "nothing was changed" in run("prune", path).output
    assert read_keys(path) == before
    at(monkeypatch, 61 * 30 * DAY_S)
    assert "1 old key" in run("prune", path).output
    assert read_keys(path).noise == before.noise[1:]


def test_rotate_refuses_what_is_no_schedule_and_no_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    with pytest.raises(DataError, match="cannot be read"):
        run("rotate", path)
    run("create", path)
    keys = read_keys(path)
    with pytest.raises(UsageError, match="--epoch"):
        run("rotate", path, "--epoch", "soon")
    with pytest.raises(UsageError, match="window"):
        run("rotate", path, "--epoch", "7h", "--window", "1d")
    assert read_keys(path) == keys


def test_a_platform_key_works_until_it_is_removed(tmp_path: Path) -> None:
    address = tmp_path / "nearveil.db"
    made = run("platform", "--store", address, "--name", "shop")
    assert made.exit_code == 0
    secret = made.stdout.strip()
    assert re.fullmatch(r"nvk_[A-Za-z0-9_-]{43}", secret)
    store = open_store(str(address))
    assert Access(store, b"t" * 32).identify(f"Bearer {secret}").name == "shop"
    store.close()
    assert not any(secret.encode() in path.read_bytes() for path in tmp_path.iterdir())
    assert run("platform", "--store", address, "--remove", "shop").exit_code == 0
    with pytest.raises(DataError, match="no key of that name"):
        run("platform", "--store", address, "--remove", "shop")
    store = open_store(str(address))
    assert store.keys() == []
    store.close()


@pytest.mark.parametrize("arguments", [[], ["--name", "a", "--remove", "a"], ["--name", "a b"]])
def test_a_platform_key_needs_one_name(tmp_path: Path, arguments: list[str]) -> None:
    with pytest.raises(UsageError, match="name"):
        run("platform", "--store", tmp_path / "nearveil.db", *arguments)
