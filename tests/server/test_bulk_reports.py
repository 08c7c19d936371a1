"""Many reports at once: each is answered as a single one, in order, and what is wrong with one stops no other."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearveil.client.calls import PROBLEM_PREFIX
from nearveil.server import reports
from nearveil.server.asgi import MOST_BYTES_OF_REPORTS
from nearveil.server.auth import Caller
from nearveil.server.models import MOST_REPORTS
from tests.server.running import HERE, Running, running
from tests.server.test_abuse import MALFORMED, NUMBERS, WRONG

PATH = "/v1/locations"
AWAY = {"latitude": 37.612345, "longitude": -122.512345}
OUTSIDE = {"latitude": 10.0, "longitude": 10.0}
RECEIPT = re.compile(rb'"receipt":"[0-9a-f]{24}"')


@pytest.fixture(scope="module")
def here() -> Iterator[Running]:
    with running(questions_per_minute=0, key_questions_per_s=0) as service:
        service.add("ann", "bob", "eve")
        yield service


def send(here: Running, *sent: Any) -> list[Any]:
    answer = here.call("POST", PATH, json={"reports": sent})
    assert answer.status_code == 202, answer.text
    answers: list[Any] = answer.json()["answers"]
    assert len(answers) == len(sent)
    return answers


def kinds(answers: list[Any]) -> list[str]:
    """What each answer says, in a word."""
    return [str(one.get("type", one["status"])).removeprefix(PROBLEM_PREFIX) for one in answers]


def test_each_report_has_its_answer_in_its_place() -> None:
    with running(chained_reports="always") as here:
        here.add("ann", "bob", "eve")
        assert kinds(send(here, {"id": "eve", **HERE})) == ["taken"]
        sent = [
            {"id": "ann", **HERE},
            {"id": "nobody", **HERE},
            {"id": "eve", **AWAY},  # without the receipt of the one before
            {"id": "bob", **OUTSIDE},
            {"id": "a b", **HERE},
            {"id": "bob", **HERE, "previous": "5c0d8a2e9f4b7163d0a1c2e3"},
        ]
        answers = send(here, *sent)
        assert kinds(answers) == ["taken", "not-found", "chain-broken", "outside-region", "invalid", "taken"]
        assert [one["status"] for one in answers] == ["taken", 404, 409, 422, 422, "taken"]
        assert answers[4]["detail"].startswith("id: ")
        # The receipts are those of chains.
        again = send(
            here, *({"id": who, **HERE, "previous": answers[at]["receipt"]} for who, at in (("ann", 0), ("bob", 5)))
        )
        assert kinds(again) == ["taken", "taken"]
        here.next_epoch()
        assert set(here.nearby()) == {"ann", "bob", "eve"}
        metrics = here.call("GET", "/metrics").text
        assert "nearveil_reports_total 5.0" in metrics
        assert 'nearveil_rejected_total{problem="chain-broken"} 1.0' in metrics


def test_an_answer_is_that_of_a_single_report_wherever_somebody_is(here: Running) -> None:
    single = here.report("ann").content
    # However many digits the time of the epoch boundary has.
    assert len(single) == 128
    seen = set()
    for places in ((HERE, AWAY), (AWAY, AWAY), (HERE, HERE)):
        body = {"reports": [{"id": who, **place} for who, place in zip(("ann", "bob"), places, strict=True)]}
        answer = here.call("POST", PATH, json=body)
        seen.add((answer.headers["content-length"], RECEIPT.sub(b"", answer.content)))
    assert seen == {(str(2 * len(single) + 15), b'{"answers":[%b]}' % b",".join([RECEIPT.sub(b"", single)] * 2))}


def test_more_reports_than_one_transaction_holds(here: Running) -> None:
    assert MOST_REPORTS > reports.MOST_PER_TRANSACTION
    people = [f"p{number}" for number in range(MOST_REPORTS)]
    here.add(*people)
    answers = send(here, *({"id": person, **HERE} for person in people))
    assert set(kinds(answers)) == {"taken"}
    assert len({one["receipt"] for one in answers}) == MOST_REPORTS
    here.next_epoch()
    assert set(people) <= set(here.nearby(extra={"k": 1000, "exclude": ["ann", "bob", "eve"]}))
    # The longest ids and receipts fit.
    longest = {"id": "a" * 128, "latitude": -37.77493712345678, "longitude": -122.41941812345678, "previous": "0" * 24}
    assert len(send(here, *[longest] * MOST_REPORTS)) == MOST_REPORTS


# -- what is wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_body_that_is_not_json_is_refused_as_a_whole(here: Running, body: str | bytes) -> None:
    assert here.call("POST", PATH, content=body).status_code == 400


def test_a_body_that_is_too_large_is_refused(here: Running) -> None:
    assert here.call("POST", PATH, content=b" " * (MOST_BYTES_OF_REPORTS + 1)).status_code == 413


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_with_one_report_stops_no_other(here: Running, wrong: str) -> None:
    item = f'{{"id":"bob",{wrong[1:]}' if wrong.startswith("{") else wrong
    good = '{"id":"%s","latitude":37.7,"longitude":-122.4}'
    answer = here.call("POST", PATH, content=f'{{"reports":[{good % "ann"},{item},{good % "eve"}]}}')
    assert not any(number in answer.text for number in NUMBERS)
    if "[[[" in wrong and not wrong.endswith("}"):
        assert answer.status_code in (400, 422)  # not JSON, or too deep, as a whole
        return
    assert answer.status_code == 202
    first, middle, last = answer.json()["answers"]
    assert kinds([first, last]) == ["taken", "taken"]
    assert middle["status"] == 422
    assert middle["detail"].count(".") >= 1
    assert set(middle) == {"type", "title", "status", "detail"}


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
_good = st.builds(
    lambda who, place: {"id": who, **place}, st.sampled_from(["ann", "bob", "eve"]), st.sampled_from([HERE, AWAY])
)
_bent = st.builds(
    lambda report, name, value: {**report, name: value},
    _good,
    st.sampled_from(["id", "latitude", "longitude", "previous", "status"]),
    _json,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_good | _bent | _json, max_size=8))
def test_whatever_stands_between_them_no_good_report_is_lost(here: Running, sent: list[Any]) -> None:
    before = here.service.store.totals().people
    for report, answer in zip(sent, send(here, *sent), strict=True):
        if report in ({"id": who, **place} for who in ("ann", "bob", "eve") for place in (HERE, AWAY)):
            assert answer["status"] == "taken"
        elif answer["status"] != "taken":
            assert set(answer) == {"type", "title", "status", "detail"}
            assert 400 <= answer["status"] < 500
    assert here.service.store.totals().people == before


# -- limits and trouble ----------------------------------------------------------------------------------------------


def test_a_request_counts_as_many_reports_as_it_has() -> None:
    with running(questions_per_minute=60, question_burst=2, key_questions_per_s=10) as here:
        here.service.limits._clock = lambda: 0.0
        here.add("ann", "bob")
        answers = send(here, *[{"id": "ann", **HERE}] * 3, {"id": "bob", **HERE})
        # Three of one person are one too many.
        assert kinds(answers) == ["taken", "taken", "too-many-requests", "taken"]
        assert answers[2]["retry_after_s"] == 1
        # One for the people, four for the reports; the next twenty are let in and leave a debt.
        send(here, *[{"id": "bob", **OUTSIDE}] * 20)
        assert here.service.limits.spend(Caller("platform", "tests")) == pytest.approx((1 + 4 + 20 - 10 + 1) / 10)
        assert here.call("POST", PATH, json={"reports": []}).status_code == 429


def test_a_store_that_fails_loses_nothing_in_silence(here: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any) -> Any:
        raise OSError

    with monkeypatch.context() as patched:
        patched.setattr(here.service.reports, "_receive", fail)
        answers = send(here, {"id": "ann", **HERE}, {"id": "nobody", **HERE}, {"id": "bob", **OUTSIDE})
    assert [one["status"] for one in answers] == [500, 500, 422]
    with monkeypatch.context() as patched:
        patched.setattr(here.service.reports, "_most_waiting", 1)
        answer = here.call("POST", PATH, json={"reports": [{"id": "ann", **HERE}] * 2})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert len(here.service.reports) == 0
