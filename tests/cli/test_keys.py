"""Keys are made once, rotated at a window's end, and a platform's key is shown once."""

import re
import time
from datetime import timedelta
from pathlib import Path

import pytest

from nearveil.errors import DataError, OutputError, UsageError
from nearveil.nearby.publishing.keys import new_keys, read_keys, schedule_as_written, write_keys
from nearveil.nearby.publishing.protection import Schedule
from nearveil.nearby.stores import open_store
from nearveil.nearby.stores.base import StoreError
from nearveil.server.auth import Access, Caller
from nearveil.server.scopes import ALL_SCOPES
from tests.cli.key_commands import DAY_S, at, run


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
    # Places that are known keep their noise, which takes the keys that it was drawn with.
    assert [key.from_window for key in read_keys(path).noise] == [0, 61, 62]
    assert read_keys(path).noise[:2] == after.noise


def test_rotate_in_the_last_epoch_leaves_the_next_window_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits then counts in the next window already, and was drawn with its key."""
    path = tmp_path / "keys.json"
    run("create", path, "--epoch", "15m", "--window", "10d")
    at(monkeypatch, 10 * DAY_S - 1)
    run("rotate", path)
    assert [key.from_window for key in read_keys(path).noise] == [0, 2]


@pytest.mark.parametrize(
    ("epoch", "first", "second", "windows"),
    [
        ("1h", 60.5, 61 - 1e-6, [0, 61, 62]),
        # Every epoch is a window's last.
        ("30d", 60.5, 61.5, [0, 62, 63]),
    ],
)
def test_rotating_twice_keeps_the_key_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: str, first: float, second: float, windows: list[int]
) -> None:
    path = tmp_path / "keys.json"
    run("create", path, "--epoch", epoch)
    in_use = read_keys(path).noise[0]
    for moment in (first, second):
        at(monkeypatch, moment * 30 * DAY_S)
        run("rotate", path)
    after = read_keys(path)
    assert [key.from_window for key in after.noise] == windows
    assert after.noise[0] == in_use
    assert "nothing was changed" in run("prune", path).output
    assert read_keys(path) == after


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


# -- the schedule ------------------------------------------------------------------------------------------------------


def test_keys_are_made_for_the_schedule_that_the_service_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "nearveil.toml"
    config.write_text("epoch = '15m'\nwindow = '10d'\n")
    assert "an epoch of 1h and a window of 30d" in run("create", tmp_path / "usual.json").output
    assert "an epoch of 15m and a window of 10d" in run("create", tmp_path / "file.json", "--config", config).output
    monkeypatch.setenv("NEARVEIL_WINDOW", "5d")
    run("create", tmp_path / "environment.json")
    run("create", tmp_path / "options.json", "--epoch", "90s", "--window", "36h")
    found = {path.stem: schedule_as_written(schedule) for path in tmp_path.glob("*.json") if (schedule := kept(path))}
    assert found == {
        "usual": ("1h", "30d"),
        "file": ("15m", "10d"),
        "environment": ("1h", "5d"),
        "options": ("90s", "36h"),
    }


def kept(path: Path) -> Schedule | None:
    return read_keys(path).schedule


def test_keys_are_rotated_by_the_schedule_that_they_are_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys.json"
    run("create", path, "--epoch", "15m", "--window", "10d")
    schedule = kept(path)
    at(monkeypatch, 15 * DAY_S)
    run("rotate", path, "--window", "240h")
    assert ([key.from_window for key in read_keys(path).noise], kept(path)) == ([0, 2], schedule)
    at(monkeypatch, 25 * DAY_S)
    assert "1 old key" in run("prune", path).output
    assert ([key.from_window for key in read_keys(path).noise], kept(path)) == ([2], schedule)


@pytest.mark.parametrize("command", ["rotate", "postpone", "prune"])
def test_another_schedule_than_that_of_the_keys_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    path = tmp_path / "keys.json"
    run("create", path, "--epoch", "15m", "--window", "10d")
    before = path.read_bytes()
    with pytest.raises(
        UsageError, match=r"an epoch of 15m and a window of 10d, but the epoch is 1h \(option --epoch\)"
    ):
        run(command, path, "--epoch", "1h")
    monkeypatch.setenv("NEARVEIL_WINDOW", "30d")
    with pytest.raises(UsageError, match=r"the window is 30d \(environment NEARVEIL_WINDOW\)"):
        run(command, path)
    assert path.read_bytes() == before


def test_a_file_without_a_schedule_takes_the_service_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, config = (tmp_path / name for name in ("first.json", "second.json", "nearveil.toml"))
    config.write_text("epoch = '15m'\nwindow = '10d'\n")
    at(monkeypatch, 15 * DAY_S)
    write_keys(first, new_keys())
    assert f"15m and a window of 10d are used (epoch: file {config}" in run("rotate", first, "--config", config).output
    monkeypatch.setenv("NEARVEIL_WINDOW", "5d")
    write_keys(second, new_keys())
    assert "(epoch: default, window: environment NEARVEIL_WINDOW)" in run("prune", second).output
    assert kept(second) is None
    run("rotate", second)
    assert [read_keys(path).noise[-1].from_window for path in (first, second)] == [2, 4]
    assert [kept(path) for path in (first, second)] == [
        Schedule(epoch=timedelta(minutes=15), window=timedelta(days=10)),
        Schedule(window=timedelta(days=5)),
    ]
    assert "are taken" not in run("prune", second).output


# -- platforms ------------------------------------------------------------------------------------------------------


def test_a_platform_key_works_until_it_is_removed(tmp_path: Path) -> None:
    address = tmp_path / "nearveil.db"
    made = run("platform", "--store", address, "--name", "shop", "--scopes", "report, ask")
    assert made.exit_code == 0
    assert "ask who is near a place; report where people are" in made.stderr
    assert "erase" not in made.stderr
    secret = made.stdout.strip()
    assert re.fullmatch(r"nvk_[A-Za-z0-9_-]{43}", secret)
    store = open_store(str(address))
    assert Access(store, b"t" * 32).identify(f"Bearer {secret}") == Caller(
        "platform", "shop", scopes=frozenset({"ask", "report"})
    )
    store.close()
    assert not any(secret.encode() in path.read_bytes() for path in tmp_path.iterdir())
    assert run("platform", "--store", address, "--remove", "shop").exit_code == 0
    with pytest.raises(DataError, match="no key with that name"):
        run("platform", "--store", address, "--remove", "shop")
    store = open_store(str(address))
    assert store.keys() == []
    with pytest.raises(StoreError, match=r"another process uses.*a running service takes POST and DELETE"):
        run("platform", "--store", address, "--name", "shop", "--scopes", "ask")
    store.close()


def test_the_store_of_a_platform_key_comes_from_the_service_s_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a variable or a file, where a password may be, and not from the command line."""
    config = tmp_path / "nearveil.toml"
    config.write_text(f'store = "{tmp_path / "file.db"}"\n')
    run("platform", "--config", config, "--name", "shop", "--scopes", "all")
    monkeypatch.setenv("NEARVEIL_STORE", str(tmp_path / "variable.db"))
    run("platform", "--name", "shop", "--scopes", "all")
    for name in ("file.db", "variable.db"):
        store = open_store(str(tmp_path / name))
        assert [(key.name, key.scopes) for key in list(store.keys())] == [("shop", ALL_SCOPES)]
        store.close()
    monkeypatch.delenv("NEARVEIL_STORE")
    for command in (["platform", "--remove", "shop"], ["postpone", _key_file(tmp_path)]):
        with pytest.raises(UsageError, match="can see the password in --store; put the address into NEARVEIL_STORE"):
            run(*command, "--store", "postgresql://ann:s3cret@127.0.0.1:9/nearveil")


def _key_file(folder: Path) -> Path:
    write_keys(folder / "some.json", new_keys())
    return folder / "some.json"


@pytest.mark.parametrize("scopes", ["", "everything", "ask report", "ask,,report", "all,ask"])
def test_scopes_that_are_none(tmp_path: Path, scopes: str) -> None:
    with pytest.raises(UsageError, match="some of ask, report, people, metrics, admin"):
        run("platform", "--store", tmp_path / "nearveil.db", "--name", "shop", "--scopes", scopes)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--name", "a", "--remove", "a"],
        ["--name", "a b", "--scopes", "all"],
        ["--name", "..", "--scopes", "all"],
        ["--name", "a"],
        ["--remove", "a", "--scopes", "all"],
    ],
)
def test_a_platform_key_needs_one_name(tmp_path: Path, arguments: list[str]) -> None:
    with pytest.raises(UsageError, match="name"):
        run("platform", "--store", tmp_path / "nearveil.db", *arguments)
