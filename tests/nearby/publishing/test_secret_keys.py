"""Keys: kept secret, kept whole, and rotated at a window's end."""

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from nearveil.errors import DataError, OutputError, UsageError
from nearveil.io import atomic
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
    with pytest.raises(OutputError, match="cannot be written"):
        write_keys(path, new_keys())
    assert read_keys(path) == first
    second = new_keys()
    write_keys(path, second, replace_existing=True)
    assert read_keys(path) == second


def test_a_link_to_a_key_file_stays_one(tmp_path: Path) -> None:
    real, link = tmp_path / "vault" / "keys.json", tmp_path / "keys.json"
    real.parent.mkdir()
    write_keys(real, new_keys())
    link.symlink_to(Path("vault", "keys.json"))
    write_keys(link, keys := new_keys(), replace_existing=True)
    assert link.is_symlink()
    assert read_keys(real) == read_keys(link) == keys
    assert list(real.parent.iterdir()) == [real]
    with pytest.raises(OutputError, match="cannot be written"):
        write_keys(link, new_keys())


def test_a_key_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    write_keys(path, new_keys())
    if os.geteuid() == 0:
        # Nobody else may give files away.
        os.chown(path, 4321, 8765)
    before = path.stat()
    write_keys(path, keys := new_keys(), replace_existing=True)
    after = path.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)
    assert read_keys(path) == keys


def test_a_key_file_that_would_change_its_owner_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys.json"
    write_keys(path, keys := new_keys())

    def forbidden(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(atomic, "_owner_of", lambda _: (os.geteuid() + 1, os.getegid()))
    monkeypatch.setattr(os, "fchown", forbidden)
    with pytest.raises(OutputError, match="belongs to another user or group"):
        write_keys(path, new_keys(), replace_existing=True)
    assert read_keys(path) == keys
    assert list(tmp_path.iterdir()) == [path]


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
    # Places that are known keep their noise, and are known by the keys before.
    assert again.from_windows == (0, 9, 10)
    with pytest.raises(UsageError, match="already"):
        again.rotated(from_window=10)


def test_pruning_keeps_every_key_from_the_one_in_use_on() -> None:
    keys = new_keys().rotated(from_window=3).rotated(from_window=9).rotated(from_window=10)
    assert keys.pruned(8).from_windows == (3, 9, 10)
    assert [keys.pruned(8).noise_key(window) for window in (8, 9)] == [keys.noise_key(window) for window in (8, 9)]


def test_keys_know_their_schedule(tmp_path: Path) -> None:
    schedule = Schedule(epoch=timedelta(minutes=15), window=timedelta(days=10))
    keys = new_keys(schedule)
    write_keys(tmp_path / "keys.json", keys.rotated(5))
    assert read_keys(tmp_path / "keys.json").schedule == schedule
    assert json.loads(keys.to_json())["schedule"] == {"epoch_s": 900, "window_s": 864_000}
    assert "schedule" not in json.loads(new_keys().to_json())
    for fitting in (keys, new_keys()):
        fitting.check_schedule(schedule)
    with pytest.raises(UsageError, match="for an epoch of 15m and a window of 10d, and the service has 1h and 30d"):
        keys.check_schedule(Schedule())


def test_forgetting_leaves_keys_that_are_not_in_a_file_alone() -> None:
    keys = new_keys()
    before = keys.noise_key(7)
    keys.forget(7)
    assert keys.noise_key(7) == before


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
        json.dumps({**GOOD, "noise": [{**GOOD["noise"][0], "from_window": float("inf")}]}),
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
    assert GOOD["noise"][0]["secret"] not in str(caught.value)


def test_a_key_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=os.strerror(2)):
        read_keys(tmp_path / "none.json")
