"""Who calls is told apart by keys and tokens alone, and a key that is removed stops working."""

import hashlib
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearveil.errors import UsageError
from nearveil.nearby.stores.base import PlatformKey, Store, StoreError
from nearveil.server import auth as access_module
from nearveil.server.auth import HORIZON_S, Access, Caller, new_platform_key
from nearveil.server.problems import Problem
from nearveil.server.scopes import ALL_SCOPES, Scope
from tests.server.clocks import Clock

TOKEN_KEY = b"t" * 32


class KeyStore:
    """The part of a store that holds keys, and counts how often they are read."""

    def __init__(self) -> None:
        self.held: dict[str, PlatformKey] = {}
        self.reads = 0
        self.broken = False

    def keys(self) -> list[PlatformKey]:
        self.reads += 1
        if self.broken:
            raise StoreError("gone")
        return list(self.held.values())

    def add(self, name: str, *scopes: Scope) -> str:
        secret, kept = new_platform_key(name, frozenset(scopes) or ALL_SCOPES)
        self.held[name] = kept
        return f"Bearer {secret}"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store() -> KeyStore:
    return KeyStore()


@pytest.fixture
def access(store: KeyStore, clock: Clock) -> Access:
    return Access(cast(Store, store), TOKEN_KEY, clock)


def refused(access: Access, header: str | None) -> str:
    with pytest.raises(Problem) as caught:
        access.identify(header)
    return caught.value.name


def test_platforms_and_people(access: Access, store: KeyStore) -> None:
    shop, news = store.add("shop"), store.add("news", Scope.ASK, Scope.PEOPLE)
    token, _ = access.issue_token("ann", 7, 60)
    for _ in range(2):
        assert access.identify(shop) == Caller("platform", "shop", scopes=ALL_SCOPES)
        assert access.identify(news) == Caller("platform", "news", scopes=frozenset({"ask", "people"}))
        assert access.identify(f"Bearer {token}") == Caller("person", "ann", 7)
    assert access.identify(shop.replace("Bearer", "bearer")).name == "shop"


def test_keys_that_change_while_they_are_read_are_read_again(access: Access, store: KeyStore) -> None:
    """Otherwise a removed key would work for some more seconds in this process, and a new one would be refused."""
    shop, news = store.add("shop"), store.add("news")
    kept, keys = store.held.pop("shop"), store.keys

    def made_meanwhile() -> list[PlatformKey]:
        found = keys()
        if "shop" not in store.held:
            store.held["shop"] = kept
            access.reread()
        return found

    def removed_meanwhile() -> list[PlatformKey]:
        found = keys()
        if store.held.pop("news", None):
            access.reread()
        return found

    store.keys = made_meanwhile  # type: ignore[method-assign]
    assert access.identify(shop).name == "shop"
    store.keys = removed_meanwhile  # type: ignore[method-assign]
    access.reread()
    assert refused(access, news) == "unauthorised"


def test_who_was_found_while_keys_change_is_not_remembered(access: Access, store: KeyStore) -> None:
    shop, find = store.add("shop"), access._find

    def find_and_remove(authorization: str, now: float) -> access_module._Known:
        found = find(authorization, now)
        del store.held["shop"]
        access.reread()
        return found

    access._find = find_and_remove  # type: ignore[method-assign]
    assert access.identify(shop).name == "shop"
    access._find = find  # type: ignore[method-assign]
    assert refused(access, shop) == "unauthorised"


def test_only_a_digest_of_the_whole_secret_is_kept(store: KeyStore) -> None:
    header = store.add("shop")
    kept = store.held["shop"]
    assert kept.digest == hashlib.sha256(header.removeprefix("Bearer ").encode()).digest()
    assert header[7:] not in repr(kept)
    assert store.add("shop") != header


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "nvk_", "Bearer nvk_", "Bearer nvt_", "Bearer nvk_" + "a" * 43, "Basic YTpi",
     "Bearer  nvk_" + "a" * 43, "Bearer nvk_" + "a" * 10_000, "Bearer nvk_" + "é" * 43, "Bearer nvx_" + "a" * 43],
)  # fmt: skip
def test_what_is_no_key(access: Access, store: KeyStore, header: str | None) -> None:
    store.add("shop")
    assert refused(access, header) == "unauthorised"


@given(st.data())
def test_every_character_of_a_key_counts(data: st.DataObject) -> None:
    store = KeyStore()
    header = store.add("shop")
    access = Access(cast(Store, store), TOKEN_KEY, Clock())
    position = data.draw(st.integers(7, len(header) - 1))
    other = data.draw(st.characters().filter(lambda drawn: drawn != header[position]))
    assert refused(access, header[:position] + other + header[position + 1 :]) == "unauthorised"
    assert refused(access, header + other) == "unauthorised"
    assert refused(access, header[:position]) == "unauthorised"
    assert access.identify(header).name == "shop"


def test_a_token_ends_although_it_was_seen_before(access: Access, clock: Clock) -> None:
    token, expires_at = access.issue_token("ann", 7, 60)
    assert expires_at == clock.now + 60
    assert access.identify(f"Bearer {token}").name == "ann"
    clock.pass_time(59.9)
    assert access.identify(f"Bearer {token}").name == "ann"
    clock.pass_time(0.1)
    assert refused(access, f"Bearer {token}") == "unauthorised"


def test_a_token_of_another_service(access: Access) -> None:
    other = Access(cast(Store, KeyStore()), b"x" * 32)
    assert refused(access, f"Bearer {other.issue_token('ann', 7, 60)[0]}") == "unauthorised"


def test_a_removed_key_stops_working_within_the_horizon(access: Access, store: KeyStore, clock: Clock) -> None:
    header = store.add("shop")
    assert access.identify(header).name == "shop"
    del store.held["shop"]
    for _ in range(64):
        clock.pass_time(HORIZON_S / 64)
        try:
            access.identify(header)
        except Problem:
            break
    assert refused(access, header) == "unauthorised"
    assert store.reads <= 3


def test_a_clock_that_is_set_back_keeps_no_removed_key_alive(access: Access, store: KeyStore, clock: Clock) -> None:
    header = store.add("shop")
    access.identify(header)
    del store.held["shop"]
    clock.pass_time(-3600)
    assert refused(access, header) == "unauthorised"


def test_a_key_replaced_by_one_of_the_same_name(access: Access, store: KeyStore, clock: Clock) -> None:
    old = store.add("shop")
    access.identify(old)
    new = store.add("shop")
    clock.pass_time(HORIZON_S)
    assert refused(access, old) == "unauthorised"
    assert access.identify(new).name == "shop"


def test_a_new_key_works_within_a_second(access: Access, store: KeyStore, clock: Clock) -> None:
    access.identify(store.add("shop"))
    later = store.add("news")
    assert refused(access, later) == "unauthorised"
    clock.pass_time(1)
    assert access.identify(later).name == "news"


def test_what_is_remembered_is_bounded_and_holds_no_secret(
    access: Access, store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_module, "_MOST_REMEMBERED", 8)
    header = store.add("shop")
    for number in range(50):
        token, _ = access.issue_token(f"p{number}", 7, 60)
        assert access.identify(f"Bearer {token}").name == f"p{number}"
        assert access.identify(header).name == "shop"
        refused(access, f"Bearer nvk_{number:043}")
    assert len(access._known) <= 8
    assert all(isinstance(key, bytes) and len(key) == 32 for key in access._known)
    assert repr(access) == "Access(1 platform keys)"


def test_a_key_has_a_scope() -> None:
    with pytest.raises(UsageError, match="without a scope"):
        new_platform_key("shop", frozenset())
    assert new_platform_key("..shop.", {Scope.ASK})[1].scopes == {"ask"}


def test_a_key_that_is_replaced_by_a_narrower_one_loses_its_scopes(
    access: Access, store: KeyStore, clock: Clock
) -> None:
    """The same secret with other scopes, as a store might be changed by hand."""
    header = store.add("shop")
    assert access.identify(header).scopes == ALL_SCOPES
    store.held["shop"] = replace(store.held["shop"], scopes=frozenset({"report"}))
    clock.pass_time(HORIZON_S)
    assert access.identify(header).scopes == {"report"}
