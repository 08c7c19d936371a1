"""Every route, called as clients call it, on a real store."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nearveil.mechanisms.fitting import build_public_intervals
from nearveil.nearby.publishing.publisher import Answer, Report
from nearveil.region import named_region
from tests.nearby.stores.kept import everything_kept
from tests.server.running import HERE, HOUR_S, Running, running

THERE = {"latitude": 37.612345, "longitude": -122.512345}


@pytest.fixture
def place() -> Iterator[Running]:
    with running(test_hooks=True) as found:
        yield found


# -- people --------------------------------------------------------------------------------------------------------


def test_a_person_is_created_once(place: Running) -> None:
    first, second = (place.call("PUT", "/v1/people/ann") for _ in range(2))
    assert (first.status_code, first.json()) == (201, {"id": "ann", "created": True})
    assert (second.status_code, second.json()) == (200, {"id": "ann", "created": False})


def test_an_export_holds_draws_and_no_true_place(place: Running) -> None:
    place.add("ann")
    place.report("ann")
    before = place.call("GET", "/v1/people/ann").json()
    assert set(before) == {"id", "created", "published", "tags", "blocked"}
    assert (before["id"], before["published"]) == ("ann", None)
    place.next_epoch()
    own = place.call("GET", "/v1/people/ann", key=place.token("ann"))
    assert own.json() == place.call("GET", "/v1/people/ann").json()
    published = own.json()["published"]
    assert set(published) == {"latitude", "longitude", "x_m", "y_m"}
    region = place.service.protection.region
    there = region.to_metres(np.array([[published["latitude"], published["longitude"]]]))
    np.testing.assert_allclose(there, [[published["x_m"], published["y_m"]]], atol=0.05)
    assert not any(str(value) in own.text for value in HERE.values())


def test_an_erased_person_is_gone_everywhere(place: Running) -> None:
    place.add("ann", "bob")
    token = place.token("ann", 30 * 24 * 3600)
    place.report("ann", key=token)
    place.report("bob")
    place.next_epoch()
    charged = place.service.store.totals().charged_by_window
    assert sum(charged.values()) == 2
    assert sorted(place.nearby()) == ["ann", "bob"]
    assert place.call("DELETE", "/v1/people/ann", key=token).status_code == 204
    assert place.nearby() == ["bob"]
    # The token outlives its person, and is worth nothing.
    assert place.report("ann", key=token).status_code == 401
    assert place.call("DELETE", "/v1/people/ann").status_code == 404
    assert place.call("GET", "/v1/people/ann").status_code == 404
    assert place.report("ann").status_code == 404
    assert place.call("GET", "/v1/ledger").json()["people"] == 1
    assert everything_kept(place.service.store, "ann") is None
    # The anonymous total stays.
    assert place.service.store.totals().charged_by_window == charged


def test_erasing_and_creating_anew_brings_no_new_budget() -> None:
    with running(new_places=1) as place:
        place.add("ann")
        place.report("ann")
        place.next_epoch()
        place.call("DELETE", "/v1/people/ann")
        place.add("ann")
        # Her budget is spent: what is reported now is answered alike, and not published.
        assert place.report("ann", THERE).json()["status"] == "taken"
        place.next_epoch()
        assert place.nearby() == []
        # With the next window it is back.
        place.clock.now += place.service.protection.schedule.window.total_seconds()
        place.service.scheduler.turn()
        place.report("ann", THERE)
        place.next_epoch()
        assert place.nearby() == ["ann"]


def test_a_token_works_until_it_expires(place: Running) -> None:
    place.add("ann")
    answer = place.call("POST", "/v1/people/ann/tokens", json={"expires_in_s": 60})
    assert answer.json()["expires_at"] == pytest.approx(place.clock.now + 60, abs=0.01)
    token = answer.json()["token"]
    assert place.report("ann", key=token).status_code == 202
    place.clock.now += 61
    assert place.report("ann", key=token).status_code == 401


# -- locations -------------------------------------------------------------------------------------------------------


def published(place: Running, person: str = "ann") -> Any:
    return place.call("GET", f"/v1/people/{person}").json()["published"]


def test_a_report_waits_for_the_border_and_a_place_is_charged_once(place: Running) -> None:
    place.add("ann")
    first = place.report("ann")
    assert first.status_code == 202
    assert first.json()["status"] == "taken"
    assert first.json()["publishes_at"] == place.service.publisher.starts_at(place.service.publisher.epoch + 1)
    assert first.json()["publishes_at"] % HOUR_S == 0
    assert published(place) is None
    place.next_epoch()
    where = published(place)
    assert where is not None
    again = place.report("ann").json()
    assert (again["status"], again["publishes_at"]) == ("taken", first.json()["publishes_at"] + HOUR_S)
    assert again["receipt"] != first.json()["receipt"]
    place.next_epoch()
    assert published(place) == where
    assert sum(place.service.store.totals().charged_by_window.values()) == 1


def test_somebody_taken_off_the_map_is_found_by_nobody_and_may_come_back(place: Running) -> None:
    place.add("ann")
    place.report("ann")
    place.next_epoch()
    assert place.call("DELETE", "/v1/people/ann/location", key=place.token("ann")).status_code == 204
    assert place.nearby() == []
    place.next_epoch()
    assert place.nearby() == []
    place.report("ann")
    place.next_epoch()
    # A place that is known has to last too, as if it were new: nobody can tell the two apart.
    assert place.nearby() == []
    place.report("ann")
    place.next_epoch()
    assert place.nearby() == ["ann"]
    assert place.call("DELETE", "/v1/people/nobody/location").status_code == 404


def test_questions_are_ranked_filtered_and_leave_out_who_asks() -> None:
    with running(noise="1m") as place:
        place.add("ann", "bob", "eve")
        for number, person in enumerate(("ann", "bob", "eve")):
            place.report(person, {"latitude": HERE["latitude"] + 0.01 * number, "longitude": -122.42})
        place.next_epoch()
        assert place.nearby() == ["ann", "bob", "eve"]
        assert place.nearby(extra={"k": 2}) == ["ann", "bob"]
        # 0.01 degrees are 1.1 km.
        assert place.nearby(extra={"within_m": 1500}) == ["ann", "bob"]
        assert place.nearby(extra={"asker": "bob"}) == ["ann", "eve"]
        token = place.token("eve")
        assert place.nearby(key=token) == ["ann", "bob"]
        assert place.nearby(key=token, extra={"asker": "eve"}) == ["ann", "bob"]
        refused = place.call("POST", "/v1/nearby", json={**HERE, "asker": "ann"}, key=token)
        assert refused.status_code == 403


@pytest.mark.parametrize("lane", ["usual", "fast"])
@pytest.mark.parametrize("paged", [False, True])
def test_an_id_that_json_has_to_escape_is_an_id_and_nothing_else(lane: str, paged: bool) -> None:
    """`Nearby` adds people with any printable id, and a service may be run on its store."""
    people = ['x"],"next":"evil', "back\\slash", "\u00fc\U0001f600"]
    with running() as place:
        place.service.publisher.add_people(people)
        for person in people:
            place.service.publisher.report(person, *HERE.values())
        place.next_epoch()
        question = {**HERE, "k": 10, "paged": paged}
        if lane == "usual":
            answer = place.call("POST", "/v1/nearby", json=question).json()
        else:
            caller = place.service.access.identify(f"Bearer {place.key}")
            status, _, body = place.app.answer_now(caller, [], json.dumps(question).encode())
            assert status == 200
            answer = json.loads(body)
        assert sorted(answer.pop("ids")) == sorted(people)
        assert answer == ({"next": None} if paged else {})


# -- operators -------------------------------------------------------------------------------------------------------


def test_the_card_tells_of_the_intervals(place: Running, tmp_path: Path) -> None:
    card = place.call("GET", "/v1/guarantee").json()
    assert card["guarantee"]["epsilon"] == pytest.approx(2 / 500)
    assert "Promise: " in card["text"]
    named = tmp_path / "intervals.json"
    named.write_text(build_public_intervals(region=named_region("san-francisco"), centres=9, rng=1).to_json())
    with running(intervals=named) as other:
        titles = [also["title"] for also in other.call("GET", "/v1/guarantee").json()["guarantee"]["also"]]
    assert "The intervals" in titles


def test_the_ledger_names_totals_only(place: Running) -> None:
    place.add("ann", "bob")
    place.report("ann")
    ledger = place.call("GET", "/v1/ledger").json()
    assert (ledger["people"], ledger["published"]) == (2, 0)
    assert set(ledger) == {
        "people", "published", "epoch", "window", "next_epoch_at", "new_places_per_window",
    }  # fmt: skip
    assert ledger["next_epoch_at"] == (ledger["epoch"] + 1) * HOUR_S
    assert "ann" not in str(ledger)


def test_the_test_hook_advances_only_where_it_is_allowed(place: Running) -> None:
    place.add("ann")
    place.report("ann")
    epoch = place.service.publisher.epoch
    assert place.call("POST", "/v1/epoch").json() == {"epoch": epoch + 1}
    assert place.nearby() == ["ann"]
    with running() as strict:
        assert strict.call("POST", "/v1/epoch").status_code == 404
        assert strict.service.publisher.epoch == epoch


def test_readiness_needs_the_index_and_the_writer(place: Running) -> None:
    ready = place.call("GET", "/readyz")
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    loaded, place.service.scheduler._loaded = place.service.scheduler._loaded, None
    assert place.call("GET", "/readyz").status_code == 503
    assert place.call("POST", "/v1/nearby", json=HERE).status_code == 503
    place.service.scheduler._loaded = loaded
    place.service.reports.close()
    assert place.call("GET", "/readyz").status_code == 503
    assert place.report("ann").status_code == 503
    assert place.call("GET", "/healthz").status_code == 200


def test_probes_are_open_to_this_machine_if_a_setting_says_so() -> None:
    with running() as closed:
        assert closed.call("GET", "/metrics", key=None).status_code == 401
    with running(open_probes=True) as opened:
        for path in ("/metrics", "/readyz"):
            assert opened.call("GET", path, key=None, headers=_LOCAL).status_code == 200
            # Somebody behind a proxy on this machine is not on this machine.
            for header in ("X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "Via"):
                forwarded = opened.call("GET", path, key=None, headers={**_LOCAL, header: "127.0.0.1"})
                assert forwarded.status_code == 401
        assert opened.call("GET", "/v1/ledger", key=None, headers=_LOCAL).status_code == 401


_LOCAL = {"Host": "127.0.0.1:8000"}


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200), ("LOCALHOST:80", 200), ("127.8.8.8:9", 200), ("[::1]:8000", 200), ("[::1]", 200),
        ("metrics.internal:8000", 200), ("evil.example", 401), ("evil.example:8000", 401),
        ("localhost.evil.example", 401),
        ("127.0.0.1.evil.example", 401), ("10.0.0.1", 401), ("[::2]:8000", 401), ("127.0.0.1:evil", 401), ("", 401),
        ("evil.example@127.0.0.1", 401), ("127.0.0.1, evil.example", 401),
    ],
)  # fmt: skip
def test_an_open_probe_is_not_for_a_page_that_calls_itself_this_machine(host: str, status: int) -> None:
    """DNS rebinding: the name of an attacker's page leads to this machine, and the browser on it sends that name."""
    with running(open_probes=True, host="Metrics.internal") as opened:
        assert opened.call("GET", "/metrics", key=None, headers={"Host": host}).status_code == status
        # With a key, the name does not matter.
        assert opened.call("GET", "/metrics", headers={"Host": host}).status_code == 200


def test_an_open_probe_names_one_host() -> None:
    """None, or two of which a proxy may have looked at the other one."""
    with running(open_probes=True) as opened:
        for hosts in ([], [b"127.0.0.1", b"evil.example"], [b"evil.example", b"127.0.0.1"]):
            assert asyncio.run(_status_with(opened, hosts)) == 401
        assert asyncio.run(_status_with(opened, [b"127.0.0.1"])) == 200


async def _status_with(place: Running, hosts: list[bytes]) -> int:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": "/metrics", "raw_path": b"/metrics", "query_string": b"", "root_path": "",
        "headers": [(b"host", host) for host in hosts], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    await place.app(scope, receive, send)
    status: int = sent[0]["status"]
    return status


# -- what every answer has -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/healthz", "/v1/ledger", "/nowhere", "/v1/nearby"])
def test_answers_are_not_stored_and_not_sniffed(place: Running, path: str) -> None:
    headers = place.call("GET", path).headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers


# -- limits ------------------------------------------------------------------------------------------------------------


def test_a_person_who_asks_too_often_waits() -> None:
    with running(question_burst=3, questions_per_minute=1) as place:
        place.add("ann")
        token = place.token("ann")
        statuses = [place.call("POST", "/v1/nearby", json=HERE, key=token).status_code for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        refused = place.report("ann", key=token)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        # The platform's key has a limit of its own, and whoever it asks for shares theirs.
        assert place.call("POST", "/v1/nearby", json=HERE).status_code == 200
        assert place.call("POST", "/v1/nearby", json={**HERE, "asker": "ann"}).status_code == 429


def test_a_platform_that_asks_too_often_waits() -> None:
    with running(key_questions_per_s=2) as place:
        statuses = [place.call("GET", "/v1/guarantee").status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
        assert place.call("GET", "/healthz").status_code == 200


# -- at once -----------------------------------------------------------------------------------------------------------


def test_reports_at_once_share_transactions(place: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    people = [f"person-{number}" for number in range(200)]
    place.add(*people)
    sizes: list[int] = []
    receive = place.service.publisher.receive

    def counted(reports: Sequence[Report]) -> list[Answer]:
        sizes.append(len(reports))
        return receive(reports)

    monkeypatch.setattr(place.service.publisher, "receive", counted)

    async def all_at_once() -> list[int]:
        headers = {"Authorization": f"Bearer {place.key}"}
        sent = (place._send("PUT", f"/v1/people/{person}/location", headers, {"json": HERE}) for person in people)
        return [answer.status_code for answer in await asyncio.gather(*sent)]

    assert asyncio.run(all_at_once()) == [202] * 200
    assert sum(sizes) == 200
    assert len(sizes) < 200
    place.next_epoch()
    assert place.call("GET", "/v1/ledger").json()["published"] == 200
