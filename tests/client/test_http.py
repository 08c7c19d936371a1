"""The client: what it sends, what it returns, what it refuses."""

import asyncio
import inspect
import json
import logging
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import httpx
import pytest

from nearveil.client.calls import LocationReport, Receipt, ServiceError, UnreachableError
from nearveil.client.http import LONGEST_PAUSE_S, AsyncClient, Client
from nearveil.errors import NearveilError, UsageError
from tests.client.stub_service import KEY, URL, StubService, problem

HERE = (37.774937, -122.419418)


def test_every_route(service: StubService) -> None:
    with service.client() as client:
        assert client.is_healthy()
        assert not client.is_ready()
        assert [client.create_person("ann"), client.create_person("ann")] == [True, False]
        assert client.create_people(["ann", "bob", "eve"]) == 2
        assert client.export("ann") == {"person": "ann"}
        token = client.issue_token("ann", expires_in_s=60)
        ann = client.with_key(token.token)
        receipt = ann.report("ann", *HERE)
        assert (receipt.status, receipt.waits, receipt.publishes_at) == ("published", False, None)
        service.at_once = False
        waiting = ann.report("ann", *HERE)
        assert (waiting.status, waiting.waits, waiting.publishes_at) == ("taken", True, 5000.0)
        service.at_once = True
        assert "ann" not in ann.nearby(*HERE, k=5)
        assert client.nearby(*HERE, k=5)[0] == "ann"
        assert ann.withdraw("ann")
        assert client.nearby(*HERE, k=1) != ["ann"]
        assert client.guarantee().text == "Card"
        assert client.ledger().epoch == 100
        assert client.advance_epoch() == 101
        assert client.intervals().document["number"] == 0
        assert client.put_intervals("{}") == 102
        assert "nearveil_reports_total" in client.metrics()
        assert [client.delete_person("ann"), client.delete_person("ann")] == [True, False]
        with pytest.raises(FrozenInstanceError):
            receipt.status = "else"  # type: ignore[misc]


def test_both_clients_have_the_same_methods(service: StubService) -> None:
    def methods(kind: type) -> dict[str, inspect.Signature]:
        return {name: inspect.signature(value) for name, value in vars(kind).items() if not name.startswith("_")}

    def parameters(kind: type) -> dict[str, list[Any]]:
        return {name: list(found.parameters.values()) for name, found in methods(kind).items()}

    assert parameters(Client) == parameters(AsyncClient)
    assert {"report", "report_many", "nearby", "nearby_pages", "create_people", "export"} <= set(methods(Client))
    assert Client.nearby.__doc__ == AsyncClient.nearby.__doc__
    assert str(inspect.signature(Client.set_tags)) == "(self, person: 'str', tags: 'Sequence[str]') -> 'None'"


def test_the_same_awaited(service: StubService) -> None:
    async def use() -> None:
        async with service.async_client() as client:
            assert await client.is_healthy()
            assert not await client.is_ready()
            assert [await client.create_person("ann"), await client.create_person("ann")] == [True, False]
            assert await client.create_people([f"p{number}" for number in range(20_001)]) == 20_001
            token = await client.issue_token("ann")
            ann = client.with_key(token.token)
            assert (await ann.report("ann", *HERE)).status == "published"
            assert (await client.nearby(*HERE, k=5))[0] == "ann"
            assert [page async for page in client.nearby_pages(*HERE, k=2)] == [await client.nearby(*HERE, k=2)]
            assert [type(one) for one in await client.report_many([LocationReport("ann", *HERE)])] == [Receipt]
            assert await client.delete_person("ann")
            assert not await client.delete_person("ann")
            with pytest.raises(ServiceError, match="401"):
                await client.with_key("nvk_other").ledger()
            assert repr(client) == f"AsyncClient('{URL}')"
            broken = AsyncClient(URL, KEY, transport=httpx.MockTransport(_break), retries=0)
            with pytest.raises(UnreachableError, match="is it running"):
                await broken.ledger()

    asyncio.run(use())


def _break(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("broken")


def test_many_reports_go_in_parts_and_each_has_its_answer(service: StubService) -> None:
    client = service.client()
    service.people["ann"] = 0
    sent = [LocationReport("ann" if number % 2 else "bob", *HERE) for number in range(2_001)]
    answers = client.report_many(sent)
    assert [len(json.loads(one.content)["reports"]) for one in service.requests] == [1000, 1000, 1]
    assert len(answers) == 2_001
    taken, refused = answers[1], answers[2_000]
    assert taken == Receipt("taken", "r-ann", 5000.0)
    assert isinstance(refused, ServiceError)
    assert (refused.status, refused.name, refused.retry_after_s) == (429, "too-many-requests", 7.0)
    assert str(HERE[0]) not in repr(sent[0])
    with pytest.raises(UsageError, match="an id is"):
        client.report_many([LocationReport("a b", *HERE)])


@pytest.mark.parametrize("said", [{}, {"answers": []}, {"answers": [1]}, {"answers": [{"status": "taken"}] * 2}])
def test_answers_to_many_reports_that_no_service_gives(service: StubService, said: Any) -> None:
    service.refuse = lambda _: httpx.Response(202, json=said)
    with pytest.raises(ServiceError, match="something else"):
        service.client().report_many([LocationReport("ann", *HERE)])


def test_what_a_question_holds(service: StubService) -> None:
    service.client().nearby(*HERE, k=3, within_m=250.0, asker="ann")
    sent = service.requests[-1]
    assert json.loads(sent.content) == {
        "latitude": HERE[0], "longitude": HERE[1], "k": 3, "within_m": 250.0, "asker": "ann",
    }  # fmt: skip
    # In the body and nowhere else: addresses end up in logs.
    assert str(sent.url) == f"{URL}/v1/nearby"


def test_a_report_may_hold_the_last_receipt(service: StubService) -> None:
    client = service.client()
    client.create_person("ann")
    client.report("ann", *HERE)
    assert "previous" not in json.loads(service.requests[-1].content)
    client.report("ann", *HERE, previous="5c0d8a2e9f4b7163d0a1c2e3")
    assert json.loads(service.requests[-1].content)["previous"] == "5c0d8a2e9f4b7163d0a1c2e3"


def test_many_people_go_in_parts(service: StubService) -> None:
    assert service.client().create_people([f"p{number}" for number in range(20_001)]) == 20_001
    assert [len(json.loads(one.content)["ids"]) for one in service.requests] == [10_000, 10_000, 1]


@pytest.mark.parametrize("person", ["a.b", "a@b:c-d_e.f"])
def test_an_id_stays_one_part_of_the_path(service: StubService, person: str) -> None:
    service.client().create_person(person)
    assert service.requests[-1].url.raw_path.count(b"/") == 3
    assert person in service.people


@pytest.mark.parametrize("person", ["", ".", "..", "a/b", "a b", "é", "x" * 129, "a?b"])
def test_ids_that_no_service_takes(service: StubService, person: str) -> None:
    client = service.client()
    for call in (client.create_person, client.delete_person, client.export, lambda one: client.create_people([one])):
        with pytest.raises(UsageError, match="an id is"):
            call(person)
    assert service.requests == []


@pytest.mark.parametrize("place", [(float("nan"), 0.0), (0.0, float("inf"))])
def test_no_places(service: StubService, place: tuple[float, float]) -> None:
    with pytest.raises(UsageError, match="two numbers"):
        service.client().nearby(*place)
    assert service.requests == []


def test_problem_details_become_an_error(service: StubService) -> None:
    service.refuse = lambda _: problem(429, "too-many-requests", "Too many", **{"Retry-After": "7"})
    with pytest.raises(ServiceError, match=r"429 Too many\): Do it so") as caught:
        service.client().nearby(*HERE)
    error = caught.value
    assert isinstance(error, NearveilError)
    assert (error.status, error.name, error.title, error.retry_after_s) == (429, "too-many-requests", "Too many", 7.0)


@pytest.mark.parametrize(
    "said",
    [httpx.Response(500, text="<html>"), httpx.Response(502, json=[1]), httpx.Response(302, headers={"Location": "/"})],
)
def test_errors_without_problem_details(service: StubService, said: httpx.Response) -> None:
    service.refuse = lambda _: said
    with pytest.raises(ServiceError, match=str(said.status_code)):
        service.client().ledger()


@pytest.mark.parametrize("said", [{}, [], {"ids": "abc"}, {"ids": [1]}, {"ids": None}])
def test_an_answer_of_something_else(service: StubService, said: Any) -> None:
    service.refuse = lambda _: httpx.Response(200, json=said)
    with pytest.raises(ServiceError, match="something else"):
        service.client().nearby(*HERE)


class Flaky(httpx.BaseTransport):
    """Fails so many times, then answers."""

    def __init__(self, service: StubService, failures: int, error: Callable[[str], httpx.TransportError]) -> None:
        self.service, self.failures, self.error, self.calls = service, failures, error, 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error("broken")
        request.read()
        return self.service.handle(request)


def flaky(
    service: StubService, monkeypatch: pytest.MonkeyPatch, failures: int, error: Any = httpx.ConnectError
) -> tuple[Flaky, Client]:
    transport = Flaky(service, failures, error)
    client = Client(URL, KEY, transport=transport)
    monkeypatch.setattr(client._wire, "pause", lambda _: None)
    return transport, client


@pytest.mark.parametrize("error", [httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError])
def test_a_broken_connection_is_tried_again(
    service: StubService, monkeypatch: pytest.MonkeyPatch, error: type[httpx.TransportError]
) -> None:
    transport, client = flaky(service, monkeypatch, 2, error)
    assert len(client.nearby(*HERE, k=4)) == 4
    assert transport.calls == 3


def test_but_not_for_ever(service: StubService, monkeypatch: pytest.MonkeyPatch) -> None:
    transport, client = flaky(service, monkeypatch, 99)
    with pytest.raises(UnreachableError, match="is it running") as caught:
        client.ledger()
    assert transport.calls == 4
    assert caught.value.status is None


class Waits:
    """A clock that pauses move, and what they were."""

    def __init__(self, client: Client) -> None:
        self.now, self.pauses = 0.0, list[float]()
        client._wire.clock, client._wire.pause = lambda: self.now, self.pause

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def test_pauses_double_up_to_a_cap_and_end_at_the_deadline(service: StubService) -> None:
    client = Client(URL, KEY, transport=Flaky(service, 999, httpx.ConnectError), retries=99, deadline_s=20.0)
    waits = Waits(client)
    with pytest.raises(UnreachableError):
        client.ledger()
    most = [min(0.1 * 2**number, LONGEST_PAUSE_S) for number in range(len(waits.pauses))]
    assert all(0.5 * longest <= pause <= longest for pause, longest in zip(waits.pauses, most, strict=True))
    assert 20.0 - LONGEST_PAUSE_S <= waits.now < 20.0


def test_no_attempt_waits_beyond_the_deadline(service: StubService) -> None:
    timeouts = []

    def handle(request: httpx.Request) -> httpx.Response:
        timeouts.append(request.extensions["timeout"]["read"])
        return problem(503, "not-ready", **{"Retry-After": "2"})

    client = Client(URL, KEY, transport=httpx.MockTransport(handle), timeout_s=10.0, deadline_s=11.0, retries=9)
    Waits(client)
    with pytest.raises(ServiceError):
        client.ledger()
    assert timeouts == [10.0, 9.0, 7.0, 5.0, 3.0, 1.0]


@pytest.mark.parametrize(("wait_s", "calls"), [("1", 4), ("2", 4), ("3", 1)])
def test_a_busy_service_is_asked_again_when_it_says_so(service: StubService, wait_s: str, calls: int) -> None:
    """What takes longer than a pause is for the caller to wait for."""
    service.refuse = lambda _: problem(503, "too-busy", **{"Retry-After": wait_s})
    client = service.client()
    waits = Waits(client)
    with pytest.raises(ServiceError) as caught:
        client.nearby(*HERE)
    assert (caught.value.name, len(service.requests)) == ("too-busy", calls)
    assert all(pause >= float(wait_s) for pause in waits.pauses)


@pytest.mark.parametrize("status", [400, 401, 404, 409, 429, 500])
def test_no_other_refusal_is_asked_again(service: StubService, status: int) -> None:
    service.refuse = lambda _: problem(status, "x", **{"Retry-After": "1"})
    with pytest.raises(ServiceError, match=str(status)):
        service.client().nearby(*HERE)
    assert len(service.requests) == 1


def test_what_must_not_count_twice_is_not_sent_to_a_busy_service_again(service: StubService) -> None:
    service.refuse = lambda _: problem(503, "not-kept")
    with pytest.raises(ServiceError):
        service.client().report_many([LocationReport("ann", *HERE)])
    assert len(service.requests) == 1
    with pytest.raises(ServiceError):
        service.client().report_many([LocationReport("ann", *HERE, previous="5c0d8a2e9f4b7163d0a1c2e3")])
    assert len(service.requests) == 5


@pytest.mark.parametrize("wrong", [{"timeout_s": 0}, {"deadline_s": float("inf")}, {"retries": -1}])
def test_no_limits(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="0"):
        Client(URL, KEY, **wrong)


def test_not_what_would_count_twice(service: StubService, monkeypatch: pytest.MonkeyPatch) -> None:
    transport, client = flaky(service, monkeypatch, 99)
    calls: list[Callable[[], object]] = [
        client.advance_epoch, lambda: client.issue_token("ann"), lambda: client.create_people(["ann"]),
    ]  # fmt: skip
    for number, call in enumerate(calls, start=1):
        with pytest.raises(UnreachableError):
            call()
        assert transport.calls == number


@pytest.mark.parametrize(("previous", "calls"), [(None, 1), ("5c0d8a2e9f4b7163d0a1c2e3", 4)])
def test_a_report_is_tried_again_if_it_holds_a_receipt(
    service: StubService, monkeypatch: pytest.MonkeyPatch, previous: str | None, calls: int
) -> None:
    """Without one, a second report is refused if the first was taken and its answer lost."""
    transport, client = flaky(service, monkeypatch, 99, httpx.ReadError)
    with pytest.raises(UnreachableError):
        client.report("ann", *HERE, previous=previous)
    assert transport.calls == calls


def test_nor_after_an_answer_that_came_too_late(service: StubService, monkeypatch: pytest.MonkeyPatch) -> None:
    transport, client = flaky(service, monkeypatch, 99, httpx.ReadTimeout)
    with pytest.raises(UnreachableError):
        client.ledger()
    assert transport.calls == 1


@pytest.mark.parametrize("url", ["http://example.org", "http://10.0.0.7:8000", "http://localhost.example.org"])
def test_a_key_does_not_travel_in_clear(url: str) -> None:
    with pytest.raises(UsageError, match="in clear"):
        Client(url, KEY)
    Client(url, KEY, allow_plain_http=True).close()


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "http://127.9.9.9", "http://[::1]:8000", "http://localhost", "https://example.org"]
)
def test_but_on_this_machine_or_encrypted(url: str) -> None:
    Client(url, KEY).close()


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:8000", "ftp://127.0.0.1", "http://", "http://a:b@127.0.0.1", "http://127.0.0.1/?k=1", "http://[::"],
)
def test_no_addresses(url: str) -> None:
    with pytest.raises(UsageError, match="address"):
        Client(url, KEY)


def test_redirects_are_not_followed(service: StubService) -> None:
    service.refuse = lambda _: httpx.Response(307, headers={"Location": "http://elsewhere.example.org/"})
    with pytest.raises(ServiceError, match="307"):
        service.client().nearby(*HERE)
    assert len(service.requests) == 1


def test_nothing_secret_is_shown_or_logged(service: StubService, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with service.client() as client:
        client.create_person("ann")
        token = client.issue_token("ann")
        client.report("ann", *HERE)
        client.nearby(*HERE)
        shown = f"{client!r} {token!r} {client.ledger()!r} {client.guarantee()!r}"
    shown += caplog.text
    for secret in (KEY, token.token, str(HERE[0]), str(HERE[1])):
        assert secret not in shown


def test_no_keys(service: StubService) -> None:
    for key in ("a b", "a\nb", "é"):
        with pytest.raises(UsageError, match="not a key"):
            service.client(key)
