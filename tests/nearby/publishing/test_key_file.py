"""A key file is followed from window to window, and a window keeps the key that it began with."""

from pathlib import Path

import pytest

from nearveil.errors import DataError
from nearveil.nearby.publishing.key_file import KeyFile
from nearveil.nearby.publishing.secret_keys import SecretKeys, new_keys, write_keys


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
