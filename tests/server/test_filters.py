"""Filters, blocks and pages, asked of a real service."""

import itertools
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from nearveil.nearby.stores.base import MOST_TAGS
from tests.server.running import HERE, Running, running
from tests.services.postgres import postgis_cluster, private_database
from tests.waiting import until

__all__ = ["postgis_cluster"]

PEOPLE = [f"p{number}" for number in range(12)]
TAGS = {
    person: ["even" if number % 2 == 0 else "odd", *(["rare"] if number == 7 else [])]
    for number, person in enumerate(PEOPLE)
}


def fill(place: Running) -> None:
    place.add(*PEOPLE, "ann", "bob")
    for person in PEOPLE:
        place.report(person)
        assert place.call("PUT", f"/v1/people/{person}/tags", json={"tags": TAGS[person]}).status_code == 204
    place.next_epoch()


@pytest.fixture
def place() -> Iterator[Running]:
    """A service with people at noisy places."""
    with running(questions_per_minute=0) as found:
        fill(found)
        yield found


def ask(place: Running, key: str = "", **question: Any) -> httpx.Response:
    return place.call("POST", "/v1/nearby", key=key, json={**HERE, "k": 100, **question})


def ids(place: Running, key: str = "", **question: Any) -> list[str]:
    answer = ask(place, key, **question)
    assert answer.status_code == 200, answer.text
    found: list[str] = answer.json()["ids"]
    return found


def pages(place: Running, **question: Any) -> list[list[str]]:
    """All pages of a question."""
    found: list[list[str]] = []
    after: dict[str, Any] = {}
    while True:
        answer = ask(place, paged=True, **after, **question)
        assert answer.status_code == 200, answer.text
        found.append(answer.json()["ids"])
        if answer.json()["next"] is None:
            return found
        after = {"after": answer.json()["next"]}


def problem(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


class TestOnly:
    def test_people_are_found_by_tags(self, place: Running) -> None:
        everybody = ids(place)
        assert sorted(everybody) == sorted(PEOPLE)
        for only in ([["even"]], [["even", "odd"]], [["even"], ["odd"]], [["odd"], ["rare", "even"]], [["rare"]], []):
            expected = [person for person in everybody if all(set(group) & set(TAGS[person]) for group in only)]
            assert ids(place, only=only) == expected
        assert ids(place, only=[["odd"]], exclude=["p1", "p3", "nobody"], asker="p5") == [
            person for person in everybody if person in ("p7", "p9", "p11")
        ]

    def test_tags_hold_at_once_and_in_place_of_those_before(self, place: Running) -> None:
        place.call("PUT", "/v1/people/p1/tags", json={"tags": ["new"]})
        assert ids(place, only=[["new"]]) == ["p1"]
        assert "p1" not in ids(place, only=[["odd"]])
        place.next_epoch()
        assert ids(place, only=[["new"]]) == ["p1"]
        assert place.call("GET", "/v1/people/p1").json()["tags"] == ["new"]

    def test_a_tag_that_nobody_has_finds_nobody(self, place: Running) -> None:
        assert ids(place, only=[["unheard-of"]]) == []
        assert len(ids(place, only=[["unheard-of", "even"]])) == 6

    def test_only_platforms_set_tags(self, place: Running) -> None:
        answer = place.call("PUT", "/v1/people/ann/tags", key=place.token("ann"), json={"tags": ["vip"]})
        assert problem(answer) == (403, "forbidden")
        assert problem(place.call("PUT", "/v1/people/nobody/tags", json={"tags": []})) == (404, "not-found")

    def test_a_service_has_so_many_tags(self, place: Running) -> None:
        many = [f"t{number}" for number in range(MOST_TAGS)]
        answer = place.call("PUT", "/v1/people/ann/tags", json={"tags": many})
        assert problem(answer) == (422, "invalid")
        assert "at most 60 different tags" in answer.json()["detail"]
        assert place.call("PUT", "/v1/people/ann/tags", json={"tags": many[: MOST_TAGS - 3]}).status_code == 204


class TestBlocks:
    def test_a_block_works_both_ways_and_at_once(self, place: Running) -> None:
        for blocker, other in (("p1", "p2"), ("p2", "p1")):
            assert place.call("PUT", f"/v1/people/{blocker}/blocked/{other}").status_code == 204
            assert "p2" not in ids(place, asker="p1")
            assert "p1" not in ids(place, asker="p2")
            assert {"p1", "p2"} <= set(ids(place, asker="p3"))
            assert "p2" not in ids(place, key=place.token("p1"))
            assert place.call("DELETE", f"/v1/people/{blocker}/blocked/{other}").status_code == 204
            assert "p2" in ids(place, asker="p1")
            assert "p1" in ids(place, asker="p2")

    def test_a_block_of_each_takes_two_to_end(self, place: Running) -> None:
        place.call("PUT", "/v1/people/p1/blocked/p2")
        place.call("PUT", "/v1/people/p2/blocked/p1")
        place.call("DELETE", "/v1/people/p1/blocked/p2")
        assert "p2" not in ids(place, asker="p1")

    def test_people_keep_their_own_lists(self, place: Running) -> None:
        token = place.token("ann")
        assert (
            place.call("PUT", "/v1/people/ann/blocked", key=token, json={"ids": ["p3", "p1", "nobody"]}).status_code
            == 204
        )
        assert place.call("GET", "/v1/people/ann/blocked", key=token).json() == {"ids": ["p1", "p3"]}
        assert set(PEOPLE) - set(ids(place, key=token)) == {"p1", "p3"}
        assert place.call("PUT", "/v1/people/ann/blocked", key=token, json={"ids": ["p2"]}).status_code == 204
        assert set(PEOPLE) - set(ids(place, key=token)) == {"p2"}
        assert place.call("GET", "/v1/people/ann", key=token).json()["blocked"] == ["p2"]
        # Who is blocked is not told by whom.
        assert place.call("GET", "/v1/people/p2", key=place.token("p2")).json()["blocked"] == []
        for method, path in (("GET", "blocked"), ("PUT", "blocked/p5"), ("DELETE", "blocked/p5")):
            assert problem(place.call(method, f"/v1/people/bob/{path}", key=token)) == (403, "forbidden")

    def test_blocks_are_for_people_there_are(self, place: Running) -> None:
        for path in ("nobody/blocked/p1", "p1/blocked/nobody"):
            assert problem(place.call("PUT", f"/v1/people/{path}")) == (404, "not-found")
        assert problem(place.call("PUT", "/v1/people/p1/blocked/p1")) == (422, "invalid")
        assert problem(place.call("PUT", "/v1/people/nobody/blocked", json={"ids": []})) == (404, "not-found")

    def test_who_is_created_anew_is_blocked_by_nobody(self, place: Running) -> None:
        place.call("PUT", "/v1/people/p1/blocked/p2")
        place.call("PUT", "/v1/people/ann/blocked/p1")
        place.call("DELETE", "/v1/people/p1")
        place.add("p1")
        assert "p2" in ids(place, asker="p1")
        assert place.service.filters.hidden_from("ann") == place.service.filters.hidden_from("p2") == ()


class TestPages:
    @pytest.mark.parametrize("question", [{}, {"only": [["odd"]]}, {"exclude": ["p1", "p4"], "asker": "p2"}])
    def test_pages_are_the_whole_list_once(self, place: Running, question: dict[str, Any]) -> None:
        place.call("PUT", "/v1/people/p2/blocked/p9")
        whole = ids(place, **question)
        for k in (1, 3, len(whole), 100):
            found = pages(place, **question, k=k)
            assert list(itertools.chain.from_iterable(found)) == whole
            assert {len(page) for page in found[:-1]} <= {k}

    def test_a_cursor_is_for_its_question_its_caller_and_its_epoch(self, place: Running) -> None:
        question: dict[str, Any] = {"asker": "ann", "only": [["even", "odd"]], "exclude": ["p1"], "within_m": 9000.0}
        cursor = ask(place, k=2, paged=True, **question).json()["next"]
        # Pages may differ in length, and the ids to leave out may come in any order.
        assert ask(place, k=5, after=cursor, **question | {"exclude": ["p1", "p1"]}).status_code == 200
        others: list[dict[str, Any]] = [
            {"asker": "bob"},
            {"only": [["even"]]},
            {"exclude": []},
            {"within_m": 9001.0},
            {"latitude": HERE["latitude"] + 1e-6},
            {"after": cursor[:20] + ("A" if cursor[20] != "A" else "B") + cursor[21:]},
            {"after": "A" * len(cursor)},
            {"after": "A"},
        ]
        for other in others:
            answer = ask(place, **{"k": 2, "after": cursor, **question, **other})
            assert problem(answer) == (422, "invalid"), other
            assert "cursor" in answer.json()["detail"]
        without = {name: value for name, value in question.items() if name != "asker"}
        assert problem(ask(place, key=place.token("ann"), after=cursor, **without)) == (422, "invalid")
        place.next_epoch()
        assert problem(ask(place, k=2, after=cursor, **question)) == (409, "cursor-expired")

    def test_a_list_does_not_go_on_after_somebody_who_left(self, place: Running) -> None:
        first = ask(place, k=3, paged=True).json()
        place.call("DELETE", f"/v1/people/{first['ids'][-1]}/location")
        assert problem(ask(place, k=3, after=first["next"])) == (409, "cursor-expired")

    def test_a_page_is_charged_as_a_question(self) -> None:
        with running(question_burst=3) as place:
            fill(place)
            token = place.token("ann")
            cursor = ask(place, key=token, k=1, paged=True).json()["next"]
            for _ in range(2):
                assert ask(place, key=token, k=1, after=cursor).status_code == 200
            assert problem(ask(place, key=token, k=1, after=cursor)) == (429, "too-many-requests")


def test_long_lists_fit_into_a_question() -> None:
    with running() as place:
        place.add("ann")
        many = [f"{number:0128}" for number in range(5000)]
        assert ids(place, exclude=many, k=1000) == []
        assert problem(ask(place, exclude=many * 2)) == (413, "too-large")


def test_other_processes_apply_tags_and_blocks(postgis_cluster: object) -> None:
    del postgis_cluster
    with private_database() as address, running(address=address) as first:
        fill(first)
        with running(address=address, keys=first.service.keys, clock=first.clock) as second:
            # Both have a key of one name, of which the later holds.
            first.key, filters = second.key, second.service.filters
            first.call("PUT", "/v1/people/p1/tags", json={"tags": ["new"]})
            first.call("PUT", "/v1/people/p1/blocked/p2")
            until(lambda: filters.hidden_from("p2") == ({"p1"},))
            assert ids(second, only=[["new"]]) == ["p1"]
            second.call("DELETE", "/v1/people/p1/blocked/p2")
            until(lambda: first.service.filters.hidden_from("p2") == ())
            first.call("PUT", "/v1/people/p3/blocked/p4")
            until(lambda: filters.hidden_from("p4") == ({"p3"},))
            first.call("DELETE", "/v1/people/p3")
            until(lambda: filters.hidden_from("p4") == ())
