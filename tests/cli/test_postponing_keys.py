"""A key that a service missed begins a window later; a key in use never changes."""

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from nearveil.errors import UsageError
from nearveil.nearby.publishing.keys import SecretKeys, new_keys, read_keys
from nearveil.nearby.publishing.store_identity import check_identity, noise_in_use
from nearveil.nearby.stores import open_store
from nearveil.nearby.stores.base import StoreError
from nearveil.server.settings import Settings
from tests.cli.key_commands import DAY_S, at, run


def used(address: Path, keys: SecretKeys, window: int) -> None:
    """Leave a store as a service does that was used with these keys in a window."""
    with closing(open_store(str(address))) as store:
        check_identity(store, Settings().protection(), keys, window)


@pytest.fixture
def rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A key file with a second key, which is to begin with window 61; it is the middle of that window."""
    path = tmp_path / "keys.json"
    run("create", path)
    at(monkeypatch, 60.5 * 30 * DAY_S)
    run("rotate", path)
    at(monkeypatch, 61.5 * 30 * DAY_S)
    return path


def test_a_key_that_came_too_late_is_postponed(rotated: Path, tmp_path: Path) -> None:
    before = read_keys(rotated)
    # A service that was not given the new key.
    used(tmp_path / "nearveil.db", without_the_newest(rotated), 61)
    shown = run("postpone", rotated, "--store", tmp_path / "nearveil.db")
    after = read_keys(rotated)
    assert [key.from_window for key in after.noise] == [0, 62]
    assert (after.noise[-1].secret, after.schedule) == (before.noise[-1].secret, before.schedule)
    assert time.strftime("%Y-%m-%d", time.gmtime(62 * 30 * DAY_S)) in shown.output
    # With that file, the service is not locked out.
    used(tmp_path / "nearveil.db", after, 61)


def test_a_key_is_missed_in_the_last_epoch_before_its_window_already(
    rotated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is reported then is published in that window, and was drawn with the key before."""
    at(monkeypatch, 61 * 30 * DAY_S - 1)
    for window in (60, 61):
        used(tmp_path / "nearveil.db", without_the_newest(rotated), window)
    run("postpone", rotated, "--store", tmp_path / "nearveil.db")
    assert [key.from_window for key in read_keys(rotated).noise] == [0, 62]


def test_the_store_may_be_named_in_the_settings(rotated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used(tmp_path / "nearveil.db", without_the_newest(rotated), 61)
    config = tmp_path / "nearveil.toml"
    config.write_text(f"store = '{tmp_path / 'nearveil.db'}'\n")
    run("postpone", rotated, "--config", config)
    assert read_keys(rotated).noise[-1].from_window == 62
    monkeypatch.setenv("NEARVEIL_STORE", str(tmp_path / "none.db"))
    at(monkeypatch, 62.5 * 30 * DAY_S)
    with pytest.raises(UsageError, match="no such store"):
        run("postpone", rotated)


def test_a_key_in_use_is_not_postponed(rotated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used(tmp_path / "nearveil.db", read_keys(rotated), 61)
    refused_to_postpone(rotated, tmp_path / "nearveil.db", "newest key is in use")
    # In the last epoch before its window a key is in use already: what is reported then is published in that window.
    run("rotate", rotated)
    at(monkeypatch, 62 * 30 * DAY_S - 1)
    used(tmp_path / "nearveil.db", read_keys(rotated), 62)
    refused_to_postpone(rotated, tmp_path / "nearveil.db", "newest key is in use")


def test_a_key_that_nobody_missed_is_not_postponed(
    rotated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "nearveil.db"
    refused_to_postpone(rotated, store, "no such store")
    assert not store.exists()
    # A store that was not used in this window, one of other keys, and a key that is to begin later.
    used(store, without_the_newest(rotated), 60)
    refused_to_postpone(rotated, store, "was not used with the key before the newest")
    used(tmp_path / "other.db", new_keys(), 61)
    refused_to_postpone(rotated, tmp_path / "other.db", "was not used with the key before the newest")
    at(monkeypatch, 60.6 * 30 * DAY_S)
    refused_to_postpone(rotated, store, "not in use yet")
    run("create", tmp_path / "single.json")
    refused_to_postpone(tmp_path / "single.json", store, "one key only")


def test_a_store_that_a_service_uses_is_left_alone(rotated: Path, tmp_path: Path) -> None:
    before = rotated.read_bytes()
    with closing(open_store(str(tmp_path / "nearveil.db"))), pytest.raises(StoreError):
        run("postpone", rotated, "--store", tmp_path / "nearveil.db")
    assert rotated.read_bytes() == before


def without_the_newest(path: Path) -> SecretKeys:
    keys = read_keys(path)
    return replace(keys, noise=keys.noise[:-1])


def refused_to_postpone(path: Path, store: Path, sentence: str) -> None:
    before = path.read_bytes()
    with pytest.raises(UsageError, match=sentence):
        run("postpone", path, "--store", store)
    assert path.read_bytes() == before


def test_a_store_knows_whether_a_key_is_in_use(rotated: Path, tmp_path: Path) -> None:
    address, keys = tmp_path / "nearveil.db", read_keys(rotated)
    used(address, keys, 61)
    with closing(open_store(str(address))) as store:
        assert noise_in_use(store, keys, 61) is True
        assert noise_in_use(store, without_the_newest(rotated), 61) is False
        assert noise_in_use(store, keys, 62) is None
