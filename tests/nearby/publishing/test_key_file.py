"""A key file is followed from window to window, and a window keeps the key that it began with."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from nearveil.errors import DataError, UsageError
from nearveil.nearby.publishing.keys import KeyFile, SecretKeys, new_keys, write_keys
from nearveil.nearby.publishing.protection import Schedule


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


@pytest.fixture
def keys(path: Path) -> SecretKeys:
    write_keys(path, made := new_keys())
    return made


def test_a_new_key_is_taken_when_its_window_begins(path: Path, keys: SecretKeys) -> None:
    file = KeyFile(path)
    assert file.tokens == keys.tokens
    assert file.noise_key(7) == keys.noise_key(7)
    write_keys(path, rotated := keys.rotated(from_window=8), replace_existing=True)
    assert file.noise_key(7) == keys.noise_key(7)
    assert file.noise_key(8) == rotated.noise_key(8) != keys.noise_key(8)
    assert file.tie_key(8, 100) == rotated.tie_key(8, 100)


def test_the_key_of_a_window_in_use_never_changes(path: Path, keys: SecretKeys) -> None:
    file = KeyFile(path)
    assert file.noise_key(8) == keys.noise_key(8)
    write_keys(path, keys.rotated(from_window=8), replace_existing=True)
    assert file.noise_key(8) == keys.noise_key(8)


def test_a_forgotten_key_is_looked_up_again(path: Path, keys: SecretKeys) -> None:
    """Where others on the store took a key in time that this process did not."""
    file = KeyFile(path)
    assert [file.noise_key(window) for window in (7, 8)] == [keys.noise_key(0)] * 2
    write_keys(path, rotated := keys.rotated(from_window=8), replace_existing=True)
    file.forget(8)
    file.forget(9)
    assert file.noise_key(8) == rotated.noise_key(8) != keys.noise_key(8)
    assert file.noise_key(7) == keys.noise_key(7)
    path.unlink()
    file.forget(8)
    assert file.noise_key(8) == rotated.noise_key(8)


def test_a_file_for_another_schedule_is_refused_and_later_left_alone(path: Path, keys: SecretKeys) -> None:
    daily, usual = Schedule(window=timedelta(days=1)), Schedule()
    troubles: list[DataError] = []
    file = KeyFile(path, schedule=usual, on_trouble=troubles.append)
    write_keys(path, replace(keys.rotated(8), schedule=daily), replace_existing=True)
    assert file.noise_key(8) == keys.noise_key(8)
    assert ["another epoch and window" in str(trouble) for trouble in troubles] == [True]
    with pytest.raises(UsageError, match="a window of 1d"):
        KeyFile(path, schedule=usual)
    # What the file says at the start holds where nothing else does.
    file = KeyFile(path, on_trouble=troubles.append)
    write_keys(path, replace(keys, schedule=usual), replace_existing=True)
    assert file.noise_key(8) != keys.noise_key(8)
    assert len(troubles) == 2


def test_a_file_that_is_gone_or_another_leaves_the_keys_last_read(path: Path, keys: SecretKeys) -> None:
    troubles: list[DataError] = []
    file = KeyFile(path, on_trouble=troubles.append)
    write_keys(path, new_keys(), replace_existing=True)
    assert file.noise_key(7) == keys.noise_key(7)
    path.unlink()
    assert file.noise_key(8) == keys.noise_key(8)
    assert file.tokens == keys.tokens
    assert ["another service" in str(trouble) for trouble in troubles] == [True, False]
    # Windows in use need no file.
    assert (file.noise_key(7), file.noise_key(8), len(troubles)) == (keys.noise_key(7), keys.noise_key(8), 2)


def test_a_file_must_be_there_at_the_start_and_prints_nothing_secret(path: Path, keys: SecretKeys) -> None:
    assert keys.tokens.hex() not in repr(KeyFile(path))
    path.unlink()
    with pytest.raises(DataError, match="cannot be read"):
        KeyFile(path)
