"""The console shows the store and askers: what an operator needs, and nothing about where anybody is."""

import json
from pathlib import Path
from typing import Any

import pytest

from nearveil.nearby.stores.base import Reason
from nearveil.server.auth import new_platform_key
from nearveil.server.console.routes import MOST_ASKERS_SHOWN
from nearveil.server.frequent_askers import MANY_QUESTIONS
from nearveil.server.scopes import Scope
from tests.server.running import HERE, Running, in_folder, running
from tests.server.test_nothing_told import AWAY, _one_moment, twins
from tests.server.test_outages import Breakable, broken

__all__ = ["_one_moment"]

BERLIN = {"latitude": 52.5, "longitude": 13.4}


def shown(place: Running, part: str) -> Any:
    answer = place.call("GET", f"/v1/console/{part}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return answer.json()


def test_the_page_knows_the_key_that_it_was_opened_with() -> None:
    with running(console=True) as place:
        secret, kept = new_platform_key("screen", {Scope.ADMIN})
        place.service.store.add_key(kept)
        place.service.access.reread()
        state = place.call("GET", "/v1/console/state", key=secret).json()
        assert state["key"] == {"name": "screen", "scopes": ["admin"]}
        assert [scope["name"] for scope in state["scopes"]] == list(Scope)
        assert place.call("GET", "/v1/console/askers", key=secret).status_code == 403


# -- the store ---------------------------------------------------------------------------------------------------------


def test_a_store_that_works(tmp_path: Path) -> None:
    with running(in_folder(tmp_path), console=True) as place:
        found = shown(place, "store")
        assert found == {
            "kind": "SQLite, one file",
            "is_reachable": True,
            "is_writable": True,
            "reason": None,
            "last_epoch": place.service.publisher.epoch,
            "epochs_behind": 0,
            "written_epochs_ago": 0,
            "version": place.service.store.extent().version,
            "size_at_most_bytes": 2**20,
        }
        # It counts in epochs: the clock is in the third one after, and nothing has published them.
        place.clock.now += 3 * 3600
        assert shown(place, "store")["epochs_behind"] == 3


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("database-away", "The database cannot be reached"),
        ("disk-full", "The disk of the store is full"),
        ("read-only", "The store cannot be written"),
    ],
)
def test_a_store_that_does_not_work_says_why(reason: Reason, sentence: str) -> None:
    with running(wrapped=Breakable, console=True) as place:  # type: ignore[arg-type]
        assert shown(place, "store")["is_writable"]
        last_epoch, now = place.service.scheduler.epoch, place.service.health._clock()
        broken(place, reason)
        # Nothing was written for two epochs and a half.
        place.service.health._clock = lambda: now + 2.5 * 3600
        found = shown(place, "store")
        assert (found["is_reachable"], found["is_writable"]) == (False, False)
        assert found["reason"].startswith(sentence)
        assert (found["last_epoch"], found["epochs_behind"], found["version"]) == (last_epoch, None, None)
        assert found["written_epochs_ago"] == 2
        broken(place, None)
        assert shown(place, "store")["is_writable"]


# -- askers ------------------------------------------------------------------------------------------------------------


def asks(place: Running, person: str, where: dict[str, float], times: int = 1) -> None:
    for _ in range(times):
        place.call("POST", "/v1/nearby", json={**where, "asker": person})


def test_askers_with_many_questions_are_listed_after_the_epoch(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    with running(console=True, questions_per_minute=0, audit_log=log) as place:
        place.add("ann", "eve")
        asks(place, "eve", HERE, MANY_QUESTIONS - 1)
        place.call("POST", "/v1/nearby", json=HERE, key=place.token("eve"))
        asks(place, "ann", HERE, MANY_QUESTIONS - 1)
        # Whoever is no person of the service is not remembered.
        asks(place, "nobody", HERE, MANY_QUESTIONS)
        assert shown(place, "askers")["askers"] == []
        place.next_epoch()
        found = shown(place, "askers")
        assert found["askers"] == [{"id": "eve", "epochs": 1, "questions": MANY_QUESTIONS}]
        assert (found["number"], found["many_questions"]) == (1, MANY_QUESTIONS)
        entries = [json.loads(line) for line in log.read_text().splitlines()]
        assert [entry["by"] for entry in entries if entry["action"] == "list frequent askers"] == ["key tests"] * 2
        assert place.call("DELETE", "/v1/people/eve").status_code == 204
        assert shown(place, "askers")["askers"] == []


def test_a_long_list_of_askers_is_cut() -> None:
    with running(console=True) as place:
        frequent, number = place.service.frequent_askers, MOST_ASKERS_SHOWN + 5
        for person in range(number):
            for _ in range(MANY_QUESTIONS):
                frequent.count(f"person-{person}")
        place.next_epoch()
        found = shown(place, "askers")
        assert (len(found["askers"]), found["number"]) == (MOST_ASKERS_SHOWN, number)


@pytest.mark.parametrize("where", [AWAY, BERLIN])
def test_nobody_sees_in_the_list_where_somebody_has_asked(where: dict[str, float]) -> None:
    """Who has the key by which ann asks, and one with admin, asks in her name: the list is the same wherever she is."""
    with twins(questions_per_minute=0) as both:
        listed = []
        for place, asked in zip(both, (HERE, where), strict=True):
            for _ in range(4):
                asks(place, "ann", asked)
                asks(place, "ann", HERE, MANY_QUESTIONS // 4)
            place.next_epoch()
            listed.append(shown(place, "askers"))
        assert listed[0] == listed[1]
        assert listed[0]["askers"] == [{"id": "ann", "epochs": 1, "questions": MANY_QUESTIONS + 4}]
