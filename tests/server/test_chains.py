"""Chains of receipts over HTTP: who reports without the last receipt is refused, and nothing tells a place by that."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from nearveil.server.settings import Settings
from tests.nearby.stores.kept import everything_kept
from tests.server.running import HERE, Running, running

AWAY = {"latitude": 37.612345, "longitude": -122.512345}
OUTSIDE = {"latitude": 10.0, "longitude": 10.0}
NOBODYS = "0" * 24


class Phone:
    """Reports for ann with a token, and keeps the last receipt."""

    def __init__(self, service: Running) -> None:
        self.service = service
        self.token = service.token("ann")
        self.last: str | None = None

    def report(self, place: dict[str, float] = HERE) -> httpx.Response:
        body: dict[str, Any] = dict(place) if self.last is None else {**place, "previous": self.last}
        answer = self.service.report("ann", body, key=self.token)
        self.last = answer.json().get("receipt", self.last)
        return answer


@pytest.fixture
def here() -> Iterator[Running]:
    with running(chained_reports=Settings().chained_reports) as service:
        service.add("ann", "bob")
        yield service


@pytest.fixture
def phone(here: Running) -> Phone:
    """A phone with a chain."""
    phone = Phone(here)
    assert [phone.report().status_code, phone.report().status_code] == [202, 202]
    return phone


def kept(service: Running) -> Any:
    return everything_kept(service.service.store, "ann"), service.state()


@pytest.mark.parametrize("extra", [{}, {"previous": None}, {"previous": NOBODYS}])
@pytest.mark.parametrize("with_token", [False, True])
def test_others_are_refused_alike_wherever_they_say_that_somebody_is(
    here: Running, phone: Phone, extra: dict[str, Any], with_token: bool
) -> None:
    before, key = kept(here), phone.token if with_token else ""
    answers = [here.report("ann", {**place, **extra}, key=key) for place in (HERE, AWAY)]
    assert answers[0].status_code == 409
    assert answers[0].json()["type"] == "urn:nearveil:problem:chain-broken"
    assert (answers[0].content, answers[0].headers) == (answers[1].content, answers[1].headers)
    assert kept(here) == before
    assert phone.report().status_code == 202


def test_the_place_is_checked_and_people_are_known_before_the_chain(here: Running, phone: Phone) -> None:
    assert here.report("ann", OUTSIDE).status_code == 422
    assert here.report("ann", {**HERE, "previous": "no receipt"}).status_code == 422
    assert here.report("nobody", {**HERE, "previous": NOBODYS}).status_code == 404
    assert here.report("bob", key=phone.token).status_code == 403
    assert here.report("bob").status_code == 202


def test_a_refusal_is_counted_and_is_no_report(here: Running, phone: Phone) -> None:
    assert here.report("ann").status_code == 409
    metrics = here.call("GET", "/metrics").text
    assert 'nearveil_rejected_total{problem="chain-broken"} 1.0' in metrics
    assert "nearveil_reports_total 2.0" in metrics


def test_after_a_refusal_a_phone_gets_a_new_token_and_goes_on(here: Running, phone: Phone) -> None:
    """What the documentation tells platforms to do, for a second phone that takes over."""
    other = Phone(here)
    assert other.report().status_code == 409
    assert here.call("DELETE", "/v1/people/ann/tokens").status_code == 204
    assert [phone.report().status_code, other.report().status_code] == [401, 401]
    other.token = here.token("ann")
    assert [other.report().status_code, other.report().status_code] == [202, 202]
    phone.token = here.token("ann")
    assert phone.report().status_code == 409


def test_who_is_created_anew_has_no_chain(here: Running, phone: Phone) -> None:
    assert here.call("DELETE", "/v1/people/ann").status_code == 204
    here.add("ann")
    assert here.report("ann").status_code == 202


def test_a_platform_that_keeps_receipts_in_a_column_reports_for_people(here: Running) -> None:
    """A row that could not be written after the answer has the receipt of before, which still fits."""
    column = dict.fromkeys(("ann", "bob"), NOBODYS)
    for is_written in (True, False, True, True):
        for person in column:
            answer = here.report(person, {**HERE, "previous": column[person]})
            assert answer.status_code == 202
            if is_written:
                column[person] = answer.json()["receipt"]
