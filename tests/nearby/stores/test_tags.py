"""Tags and blocks, in every store alike, and questions that PostGIS answers with them."""

import queue

import pytest

from nearveil.nearby.stores import open_store
from nearveil.nearby.stores.base import MOST_TAGS, Store, TooManyTagsError
from nearveil.nearby.stores.postgis import PostgisStore
from tests.nearby.stores.draws import draw, publish, put, shown
from tests.waiting import PATIENCE_S

PEOPLE = ["ann", "bob", "cem", "dee"]


def published_tags(store: Store) -> dict[str, int]:
    found: dict[str, int] = {}
    for batch in store.published():
        assert batch.tags is not None
        found |= dict(zip(batch.people, batch.tags.tolist(), strict=True))
    return found


def test_tags_are_bits_whose_names_stay(store: Store) -> None:
    store.add_people(PEOPLE)
    assert store.set_tags("ann", ["woman", "25-35"]) == 0b11
    assert store.set_tags("bob", ["25-35", "dogs"]) == 0b110
    assert store.set_tags("ann", ["dogs"]) == 0b100
    assert store.set_tags("bob", []) == 0
    assert store.set_tags("nobody", ["cats"]) is None
    # Whoever had it, a name keeps its bit.
    assert store.tag_names() == ["woman", "25-35", "dogs"]
    assert store.set_tags("cem", ["woman"]) == 0b1
    assert store.tags_of([*PEOPLE, "nobody"]) == {"ann": 0b100, "bob": 0, "cem": 0b1, "dee": 0}
    assert [shown(store, person)["tags"] for person in PEOPLE] == [["dogs"], [], ["woman"], []]


def test_published_people_bring_their_tags(store: Store) -> None:
    store.add_people(PEOPLE)
    store.set_tags("ann", ["woman"])
    put(store, draw("ann"), draw("bob"))
    publish(store)
    assert published_tags(store) == {"ann": 1, "bob": 0}
    store.set_tags("bob", ["man"])
    assert published_tags(store) == {"ann": 1, "bob": 2}


def test_there_is_room_for_so_many_tags_and_no_more(store: Store) -> None:
    store.add_people(PEOPLE)
    names = [f"tag-{number}" for number in range(MOST_TAGS)]
    assert store.set_tags("ann", names) == 2**MOST_TAGS - 1
    put(store, draw("ann"))
    publish(store)
    assert published_tags(store) == {"ann": 2**MOST_TAGS - 1}
    with pytest.raises(TooManyTagsError, match="at most 60 different tags"):
        store.set_tags("bob", ["tag-0", "one-more"])
    assert store.tags_of(["bob"]) == {"bob": 0}
    assert store.tag_names() == names
    assert shown(store, "ann")["tags"] == sorted(names)


def test_blocks_are_kept_by_who_blocked(store: Store) -> None:
    store.add_people(PEOPLE)
    assert store.block("ann", "bob")
    assert store.block("ann", "bob")
    assert store.block("cem", "ann")
    assert not store.block("ann", "nobody")
    assert not store.block("nobody", "ann")
    assert store.blocked("ann") == shown(store, "ann")["blocked"] == ["bob"]
    # Who is blocked is not told by whom.
    assert store.blocked("bob") == shown(store, "bob")["blocked"] == []
    assert store.all_blocked() == {"ann": ["bob"], "cem": ["ann"]}
    assert store.unblock("ann", "bob")
    assert store.unblock("ann", "dee")
    assert not store.unblock("nobody", "bob")
    assert store.all_blocked() == {"cem": ["ann"]}
    assert store.blocked("nobody") is None


def test_a_list_of_blocked_people_replaces_the_one_before(store: Store) -> None:
    store.add_people(PEOPLE)
    assert store.set_blocked("ann", ["dee", "bob", "nobody", "ann", "bob"])
    assert store.blocked("ann") == ["bob", "dee"]
    assert store.set_blocked("ann", ["cem"])
    assert store.blocked("ann") == ["cem"]
    assert not store.set_blocked("nobody", ["ann"])
    assert store.set_blocked("ann", [])
    assert store.all_blocked() == {}


def test_blocks_go_with_either_person_and_tags_with_theirs(store: Store) -> None:
    store.add_people(PEOPLE)
    for person, other in (("ann", "bob"), ("bob", "cem"), ("cem", "ann"), ("dee", "cem")):
        store.block(person, other)
    store.set_tags("bob", ["dogs"])
    store.erase("bob")
    assert store.all_blocked() == {"cem": ["ann"], "dee": ["cem"]}
    store.add_people(["bob"])
    assert store.all_blocked() == {"cem": ["ann"], "dee": ["cem"]}
    assert store.tags_of(["bob"]) == {"bob": 0}


def test_tags_and_blocks_are_there_when_the_store_is_opened_again(address: str) -> None:
    store = open_store(address)
    store.add_people(PEOPLE)
    store.set_tags("ann", ["woman"])
    store.block("ann", "bob")
    store.close()
    store = open_store(address)
    assert (store.tag_names(), store.tags_of(["ann"]), store.all_blocked()) == (["woman"], {"ann": 1}, {"ann": ["bob"]})
    store.close()


def test_other_processes_hear_of_tags_and_blocks(postgis_address: str) -> None:
    first, second = PostgisStore(postgis_address), PostgisStore(postgis_address)
    heard: queue.Queue[tuple[str, str]] = queue.Queue()

    def nothing(_: object = None) -> None:
        """What this test is not about."""

    second.follow(
        on_erased=nothing,
        on_withdrawn=nothing,
        on_epoch=nothing,
        on_lost=nothing,
        on_tagged=lambda person: heard.put(("tagged", person)),
        on_blocked=lambda person: heard.put(("blocked", person)),
    )
    first.add_people(PEOPLE)
    first.set_tags("ann", ["woman"])
    first.block("bob", "cem")
    first.unblock("bob", "cem")
    first.set_blocked("cem", ["ann"])
    expected = [("tagged", "ann"), ("blocked", "bob"), ("blocked", "bob"), ("blocked", "cem")]
    assert [heard.get(timeout=PATIENCE_S) for _ in expected] == expected
    first.close()
    second.close()
