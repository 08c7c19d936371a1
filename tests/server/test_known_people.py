"""Who is known is remembered for seconds, and for the grace period while the store is away; who was revoked is not."""

from collections.abc import Callable
from typing import cast

import pytest

from nearveil.nearby.stores.base import Store, StoreError
from nearveil.server.auth import HORIZON_S, KnownPeople
from tests.server.clocks import Clock

GRACE_S = 60.0


class Marks:
    """The part of a store that knows the marks of tokens."""

    def __init__(self) -> None:
        self.marks: dict[str, int] = {"ann": 7}
        self.reads = 0
        self.is_away = False
        self.meanwhile: Callable[[], None] = lambda: None

    def token_mark(self, person: str) -> int | None:
        self.reads += 1
        if self.is_away:
            raise StoreError("away", reason="database-away")
        mark = self.marks.get(person)
        self.meanwhile()
        return mark


@pytest.fixture
def store() -> Marks:
    return Marks()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def people(store: Marks, clock: Clock) -> KnownPeople:
    return KnownPeople(cast(Store, store), clock, grace_s=GRACE_S)


def test_who_was_confirmed_is_known_for_the_grace_period_only(people: KnownPeople, store: Marks, clock: Clock) -> None:
    people.has_mark("ann", 7)
    store.is_away = True
    for _ in range(59):
        clock.pass_time(1)
        assert people.has_mark("ann", 7)
    # Asked once in a few seconds, not with every request.
    assert store.reads <= 2 + GRACE_S / HORIZON_S
    clock.pass_time(1)
    assert not people.remembers("ann", 7)
    with pytest.raises(StoreError):
        people.has_mark("ann", 7)


def test_a_revocation_while_the_store_answers_is_not_undone(people: KnownPeople, store: Marks) -> None:
    store.meanwhile = lambda: people.forget("ann")
    assert people.has_mark("ann", 7)
    assert not people.remembers("ann", 7)
