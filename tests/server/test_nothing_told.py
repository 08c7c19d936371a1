"""Whoever may report for somebody learns nothing by it: not from answers, exports, ledger, metrics, console or store.

Two services with the same keys and the same history differ in one thing: which place the last reports named.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest

from nearveil.nearby.publishing.keys import new_keys
from nearveil.nearby.stores.sqlite import SqliteStore
from tests.server.running import HERE, Clock, Running, running

AWAY = {"latitude": 37.612345, "longitude": -122.512345}
ELSEWHERE = {"latitude": 37.712345, "longitude": -122.452345}
WHO = ("ann", "bob")
TELLS_TIME = re.compile(r"^nearveil_\w+(_seconds|_created)")


def live(place: Running, *epochs: dict[str, float] | None) -> None:
    """Let ann report a place in each epoch, or nothing."""
    for where in epochs:
        if where is not None:
            assert place.report("ann", where).status_code == 202
        place.next_epoch()


Story = Callable[[Running], object]
SITUATIONS: dict[str, tuple[Story, dict[str, float]]] = {
    "first place": (lambda place: None, HERE),
    "first place again in its epoch": (lambda place: place.report("ann"), HERE),
    "other place before the first is published": (lambda place: place.report("ann"), AWAY),
    "same place": (lambda place: live(place, HERE), HERE),
    "new place": (lambda place: live(place, HERE), AWAY),
    "candidate that has lasted": (lambda place: live(place, HERE, AWAY), AWAY),
    "candidate given up": (lambda place: live(place, HERE, AWAY), HERE),
    "other candidate": (lambda place: live(place, HERE, AWAY), ELSEWHERE),
    "back home": (lambda place: live(place, HERE, AWAY, AWAY), HERE),
    "back home to stay": (lambda place: live(place, HERE, AWAY, AWAY, HERE), HERE),
    "budget spent, new place": (lambda place: live(place, HERE, AWAY, AWAY), ELSEWHERE),
    "budget spent, it lasts": (lambda place: live(place, HERE, AWAY, AWAY, ELSEWHERE), ELSEWHERE),
    "silent for long": (lambda place: live(place, HERE, None, None), AWAY),
}


@pytest.mark.parametrize("with_token", [False, pytest.param(True, marks=pytest.mark.evidence)])
def test_the_answer_to_a_report_is_one_for_all_situations(with_token: bool) -> None:
    answers: dict[str, httpx.Response] = {}
    for name, (story, where) in SITUATIONS.items():
        clock = Clock()
        with running(new_places=2, clock=clock) as place:
            place.add(*WHO)
            story(place)
            answers[name] = place.report("ann", where, key=place.token("ann") if with_token else "")
            # The moment depends on the epoch and on nothing else.
            boundary = place.service.publisher.starts_at(place.service.publisher.epoch + 1)
            assert answers[name].json()["publishes_at"] == boundary
    seen = {
        (
            answer.status_code,
            tuple(answer.headers.items()),
            len(answer.content),
            re.sub(rb'"(receipt)":"[0-9a-f]{24}"|(publishes_at)":[0-9.]+', rb"\1\2", answer.content),
        )
        for answer in answers.values()
    }
    assert len(seen) == 1, answers
    assert len({answer.json()["receipt"] for answer in answers.values()}) == len(answers)


def test_a_receipt_names_a_report_and_no_place() -> None:
    """Of two services with the same keys, too: it is drawn at random."""
    with twins() as both:
        receipts = [place.report("ann").json()["receipt"] for place in both for _ in range(3)]
        assert len(set(receipts)) == 6


# -- everything else that a key or a token shows -----------------------------------------------------------------------


@contextmanager
def twins(**options: Any) -> Iterator[tuple[Running, Running]]:
    """Two services that differ in nothing: the same keys, the same time, the same people with the same history."""
    keys = new_keys()
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(running(keys=keys, clock=Clock(), console=True, **options)) for _ in range(2)
        )
        for place in (first, second):
            place.add(*WHO)
            place.report("bob", ELSEWHERE)
            live(place, HERE)
        yield first, second


def told(place: Running) -> dict[str, bytes]:
    """Everything that a platform key and the person's own token show, without times."""
    found = {"own export": place.call("GET", "/v1/people/ann", key=place.token("ann")).content}
    paths = ("/v1/people/ann", "/v1/people/bob", "/v1/ledger", "/v1/guarantee", "/readyz")
    for path in (*paths, *(f"/v1/console/{part}" for part in ("state", "store", "askers"))):
        found[path] = place.call("GET", path).content
    lines = place.call("GET", "/metrics").text.splitlines(keepends=True)
    found["/metrics"] = "".join(line for line in lines if not TELLS_TIME.match(line)).encode()
    found["nearby"] = repr([place.nearby(where, extra={"k": 1}) for where in (HERE, AWAY, ELSEWHERE)]).encode()
    return found


def assert_alike(both: tuple[Running, Running]) -> None:
    first, second = (told(place) for place in both)
    assert first == second


@pytest.fixture(autouse=True)
def _one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """People are created at one and the same second."""
    moment = time.time()
    monkeypatch.setattr("nearveil.nearby.stores.sqlite.time.time", lambda: moment)


@pytest.mark.parametrize(
    "others",
    [
        [AWAY],
        [AWAY, HERE],
        pytest.param([HERE, AWAY, ELSEWHERE], marks=pytest.mark.evidence),
        pytest.param([AWAY] * 20, marks=pytest.mark.evidence),
    ],
)
def test_within_an_epoch_nothing_shows_whether_a_report_named_the_true_place(others: list[dict[str, float]]) -> None:
    with twins(questions_per_minute=0) as both:
        home, other = both
        for where in others:
            home.report("ann", HERE)
            other.report("ann", where)
            assert_alike(both)
        # Nor when the epoch ends: what was reported has not lasted.
        for place in both:
            place.next_epoch()
        assert_alike(both)


def test_metrics_do_not_tell_that_somebody_is_outside_of_the_region() -> None:
    with twins(questions_per_minute=0) as both:
        place, berlin = both[0], {"latitude": 52.5, "longitude": 13.4}
        assert place.report("ann", berlin).status_code == 422
        assert place.call("POST", "/v1/nearby", json=berlin, key=place.token("ann")).status_code == 422
        assert_alike(both)


@pytest.mark.evidence
def test_nor_after_epochs_as_long_as_the_same_is_published() -> None:
    """A place in turn with others never lasts; and a phone that reports after a guess undoes it."""
    with twins(questions_per_minute=0) as both:
        home, other = both
        for where in (AWAY, ELSEWHERE, AWAY, HERE, AWAY):
            home.report("ann", HERE)
            other.report("ann", where)
            for place in both:
                place.next_epoch()
            assert_alike(both)
        for _ in range(4):
            home.report("ann", HERE)
            other.report("ann", AWAY)
            for place in both:
                place.report("ann", HERE)
                place.next_epoch()
            assert_alike(both)


@pytest.mark.evidence
def test_nor_when_the_budget_is_spent() -> None:
    with twins(new_places=1, questions_per_minute=0) as both:
        home, other = both
        for _ in range(5):
            home.report("ann", HERE)
            other.report("ann", AWAY)
            assert_alike(both)
            for place in both:
                place.next_epoch()
            assert_alike(both)


def test_what_is_published_is_what_tells() -> None:
    """The other way round: the comparison sees a place that has lasted."""
    with twins(questions_per_minute=0) as both:
        for _ in range(2):
            for place, where in zip(both, (HERE, AWAY), strict=True):
                live(place, where)
        first, second = (told(place) for place in both)
        assert {name for name in first if first[name] != second[name]} == {"/v1/people/ann", "own export", "nearby"}


OUTSIDE = {"latitude": 40.7, "longitude": -74.0}


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_what_is_left_to_somebody_does_not_tell_that_they_are_outside_the_region(method: str) -> None:
    """A platform's reports and questions for a person count as the person's, wherever they are from."""
    for where in (HERE, OUTSIDE):
        with running(questions_per_minute=60, question_burst=4, clock=Clock()) as place:
            place.add(*WHO)
            if method == "PUT":
                first = place.report("ann", where)
            else:
                first = place.call("POST", "/v1/nearby", json={**where, "asker": "ann"})
            asked = [place.call("POST", "/v1/nearby", json={**HERE, "asker": "ann"}).status_code for _ in range(5)]
        assert first.status_code == (422 if where is OUTSIDE else 202 if method == "PUT" else 200)
        assert asked == [200] * 3 + [429] * 2


# -- the store ---------------------------------------------------------------------------------------------------------


def written(place: Running, where: dict[str, float]) -> dict[str, int]:
    """How many rows of each table a report inserts, changes or deletes."""
    store = place.service.store
    assert isinstance(store, SqliteStore)
    with store._connections.writing() as connection:
        tables = [name for (name,) in connection.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
        connection.run("CREATE TEMP TABLE IF NOT EXISTS written (name TEXT)")
        for table in tables:
            noted = f"INSERT INTO written VALUES ('{table}')"  # noqa: S608
            for act in ("INSERT", "UPDATE", "DELETE"):
                when = f"{table}_{act} AFTER {act} ON main.{table}"
                connection.run(f"CREATE TEMP TRIGGER IF NOT EXISTS {when} BEGIN {noted}; END")
        connection.run("DELETE FROM written")
    place.report("ann", where)
    with store._connections.writing() as connection:
        return dict(connection.rows("SELECT name, count(*) FROM written GROUP BY name"))


def test_one_row_is_written_whatever_place_a_report_names() -> None:
    """So neither the time that it takes nor the size of the store's log tells."""
    with twins() as both:
        home, other = both
        for _ in range(3):
            assert written(home, HERE) == {"standings": 1}
            assert written(other, AWAY) == {"standings": 1}
            assert written(other, ELSEWHERE) == {"standings": 1}
