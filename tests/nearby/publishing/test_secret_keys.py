"""Keys: kept secret, kept whole, and rotated at a window's end."""

import json
import os
from pathlib import Path

import pytest

from nearveil.errors import DataError, OutputError
from nearveil.nearby.publishing.secret_keys import KEY_BYTES, keys_from_json, new_keys, read_keys, write_keys


def test_keys_come_back_from_their_file(tmp_path: Path) -> None:
    keys = new_keys()
    write_keys(tmp_path / "keys.json", keys)
    assert read_keys(tmp_path / "keys.json") == keys
    assert list(tmp_path.iterdir()) == [tmp_path / "keys.json"]


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    write_keys(path, new_keys())
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    with pytest.raises(DataError, match="chmod 600"):
        read_keys(path)


def test_keys_are_never_replaced_by_accident(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    first = new_keys()
    write_keys(path, first)
    with pytest.raises(OutputError, match="cannot be written"):
        write_keys(path, new_keys())
    assert read_keys(path) == first
    second = new_keys()
    write_keys(path, second, replace_existing=True)
    assert read_keys(path) == second


def test_printing_keys_shows_no_secret() -> None:
    keys = new_keys()
    for secret in (keys.tokens, keys.noise[0].secret):
        assert secret.hex() not in repr(keys) + repr(keys.noise[0])
        assert repr(secret) not in repr(keys) + repr(keys.noise[0])


def test_fresh_keys_differ() -> None:
    assert new_keys() != new_keys()
    assert new_keys().tokens != new_keys().noise[0].secret


def test_a_rotated_key_counts_from_its_window_on() -> None:
    keys = new_keys()
    rotated = keys.rotated(from_window=9)
    assert rotated.noise_key(8) == keys.noise_key(8)
    assert rotated.noise_key(9) != keys.noise_key(9)
    assert rotated.noise_key(100) == rotated.noise_key(9)
    assert rotated.tokens == keys.tokens
    again = rotated.rotated(from_window=10)
    assert again.noise_key(9) == rotated.noise_key(9)
    assert [key.from_window for key in again.noise] == [9, 10]


def test_the_order_of_equals_changes_with_the_epoch() -> None:
    keys = new_keys()
    assert len(keys.tie_key(0, 1)) == 16
    assert keys.tie_key(0, 1) != keys.tie_key(0, 2)
    assert keys.tie_key(0, 1) == keys.tie_key(0, 1)


GOOD = json.loads(new_keys().to_json())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        json.dumps({**GOOD, "version": 2}),
        json.dumps({**GOOD, "noise": []}),
        json.dumps({**GOOD, "tokens": "00" * (KEY_BYTES - 1)}),
        json.dumps({**GOOD, "tokens": "zz"}),
        json.dumps({**GOOD, "noise": [{"from_window": 0, "secret": "00"}]}),
        json.dumps({**GOOD, "noise": [GOOD["noise"][0], GOOD["noise"][0]]}),
    ],
)
def test_damaged_keys_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(DataError, match="no Nearveil keys") as caught:
        keys_from_json(text)
    assert GOOD["noise"][0]["secret"] not in str(caught.value)


def test_a_key_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=os.strerror(2)):
        read_keys(tmp_path / "none.json")
