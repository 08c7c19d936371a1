"""Keys: kept secret, and kept whole."""

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from nearveil.errors import DataError, OutputError, UsageError
from nearveil.nearby.publishing.keys import KEY_BYTES, keys_from_json, new_keys, read_keys, write_keys
from nearveil.nearby.publishing.protection import Schedule


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
    with pytest.raises(OutputError, match="exists already"):
        write_keys(path, new_keys())
    assert read_keys(path) == first


def test_printing_keys_shows_no_secret() -> None:
    keys = new_keys()
    for secret in (keys.tokens, keys.noise):
        assert secret.hex() not in repr(keys)
        assert repr(secret) not in repr(keys)


def test_keys_know_their_schedule(tmp_path: Path) -> None:
    schedule = Schedule(epoch=timedelta(minutes=15), window=timedelta(days=10))
    keys = new_keys(schedule)
    write_keys(tmp_path / "keys.json", keys)
    assert read_keys(tmp_path / "keys.json").schedule == schedule
    assert json.loads(keys.to_json())["schedule"] == {"epoch_s": 900, "window_s": 864_000}
    keys.check_schedule(schedule)
    with pytest.raises(UsageError, match="for an epoch of 15m and a window of 10d, and the service has 1h and 30d"):
        read_keys(tmp_path / "keys.json", Schedule())


def test_the_order_of_equals_changes_with_the_epoch() -> None:
    keys = new_keys()
    assert len(keys.tie_key(1)) == 16
    assert keys.tie_key(1) != keys.tie_key(2)
    assert keys.tie_key(1) == keys.tie_key(1)


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
        json.dumps({**GOOD, "noise": "00"}),
        json.dumps({name: GOOD[name] for name in GOOD if name != "schedule"}),
        json.dumps({**GOOD, "schedule": None}),
        json.dumps({**GOOD, "schedule": [3600, 7200]}),
        json.dumps({**GOOD, "schedule": {"epoch_s": 3600}}),
        json.dumps({**GOOD, "schedule": {"epoch_s": "3600", "window_s": 7200}}),
        json.dumps({**GOOD, "schedule": {"epoch_s": 3600.0, "window_s": 7200}}),
        json.dumps({**GOOD, "schedule": {"epoch_s": True, "window_s": 7200}}),
        json.dumps({**GOOD, "schedule": {"epoch_s": 3600, "window_s": 5400}}),
        json.dumps({**GOOD, "schedule": {"epoch_s": 3600, "window_s": 36 * 10**30}}),
    ],
)
def test_damaged_keys_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(DataError, match="no Nearveil keys") as caught:
        keys_from_json(text)
    assert GOOD["noise"] not in str(caught.value)


def test_a_key_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=os.strerror(2)):
        read_keys(tmp_path / "none.json")
