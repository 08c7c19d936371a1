"""Keys are made once, and a platform's key is shown once."""

import re
from pathlib import Path

import pytest

from nearveil.errors import DataError, UsageError
from nearveil.nearby.publishing.keys import read_keys, schedule_as_written
from nearveil.nearby.stores import open_store
from nearveil.nearby.stores.base import StoreError
from nearveil.server.auth import Access, Caller
from nearveil.server.scopes import ALL_SCOPES
from tests.cli.key_commands import run

# -- the schedule ------------------------------------------------------------------------------------------------------


def test_keys_are_made_for_the_schedule_that_the_service_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "nearveil.toml"
    config.write_text("epoch = '15m'\nwindow = '10d'\n")
    assert "an epoch of 1h and a window of 30d" in run("create", tmp_path / "usual.json").output
    assert "an epoch of 15m and a window of 10d" in run("create", tmp_path / "file.json", "--config", config).output
    monkeypatch.setenv("NEARVEIL_WINDOW", "5d")
    run("create", tmp_path / "environment.json")
    run("create", tmp_path / "options.json", "--epoch", "90s", "--window", "36h")
    found = {path.stem: schedule_as_written(read_keys(path).schedule) for path in tmp_path.glob("*.json")}
    assert found == {
        "usual": ("1h", "30d"),
        "file": ("15m", "10d"),
        "environment": ("1h", "5d"),
        "options": ("90s", "36h"),
    }


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
    with pytest.raises(UsageError, match="can see the password in --store; put the address into NEARVEIL_STORE"):
        run("platform", "--remove", "shop", "--store", "postgresql://ann:s3cret@127.0.0.1:9/nearveil")


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
