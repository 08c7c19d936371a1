"""Every change is in the audit log before it is done, without an id or a secret; what cannot be logged is not done."""

import asyncio
import fcntl
import io
import json
import logging
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from nearveil.errors import OutputError
from nearveil.nearby.publishing.keys import new_keys, write_keys
from nearveil.nearby.stores.base import StoreError
from nearveil.server.audit_log import PEOPLE_PER_LINE, AuditLog, audit_id
from nearveil.server.auth import Caller
from nearveil.server.scopes import ROUTES
from tests.cli.key_commands import run
from tests.server.running import HERE, Running, in_folder, running
from tests.server.test_abuse import captured_log
from tests.server.test_scopes import BODIES, in_path
from tests.waiting import PATIENCE_S

KEYS = new_keys()
SECONDS = "2025-06-11T00:01:00Z"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


@pytest.fixture
def here(path: Path) -> Iterator[Running]:
    with running(keys=KEYS, audit_log=path, console=True, test_hooks=True) as service:
        yield service


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def name_of(person: str) -> str:
    return audit_id(KEYS.tokens, person)


AUDITED = [route for route, rule in ROUTES.items() if rule.action]


def test_what_is_logged_is_every_change_and_export_but_no_report_or_question() -> None:
    unlogged = {route for route in ROUTES if route[0] != "GET"} - set(AUDITED)
    assert unlogged == {
        ("POST", "/v1/nearby"),
        ("PUT", "/v1/people/{id}/location"),
        ("POST", "/v1/locations"),
        ("POST", "/v1/console/demonstration"),
    }
    assert ("GET", "/v1/people/{id}") in AUDITED


@pytest.mark.parametrize("route", AUDITED, ids=" ".join)
def test_every_change_has_its_entry(here: Running, path: Path, route: tuple[str, str]) -> None:
    here.service.store.add_people(["ann"])
    method, template = route
    answer = here.call(method, in_path(template, "ann", "shop"), json=BODIES.get(route))
    first, *rest = entries(path)
    assert (first["event"], first["action"], first["by"]) == ("audit", ROUTES[route].action, "key tests")
    assert first["time"].endswith(":00Z")
    if "{id}" in template or template == "/v1/people":
        assert first["people"] == [name_of("ann")]
    if "{name}" in template:
        assert first["key"] == "shop"
    # What was refused after all is said to be.
    assert [line["result"] for line in rest] == ([] if answer.status_code < 300 else ["not done"])
    assert all(line["entry"] == first["entry"] for line in rest)


def test_a_token_s_changes_are_the_person_s(here: Running, path: Path) -> None:
    here.add("ann")
    token = here.token("ann")
    here.report("ann", key=token)
    here.nearby(key=token)
    here.call("GET", "/v1/people/ann", key=token)
    assert here.call("DELETE", "/v1/people/bob", key=token).status_code == 403
    here.call("DELETE", "/v1/people/ann", key=token)
    done = [(line["action"], line["by"]) for line in entries(path)]
    assert done == [
        ("create people", "key tests"),
        ("sign token", "key tests"),
        ("export person", f"person {name_of('ann')}"),
        ("erase person", f"person {name_of('ann')}"),
    ]


def test_nobody_is_named_and_no_secret_is_in_it(here: Running, path: Path) -> None:
    here.add("somebody-long-enough-to-find")
    token = here.token("somebody-long-enough-to-find")
    here.report("somebody-long-enough-to-find", key=token)
    made = here.call("POST", "/v1/platform-keys/shop", json={"scopes": ["ask"]}).json()["key"]
    here.call("DELETE", "/v1/people/somebody-long-enough-to-find")
    text = path.read_text()
    secrets = [token, made, here.key, KEYS.tokens.hex(), KEYS.noise.hex()]
    for trace in ("somebody", *secrets, *(str(value).lstrip("-") for value in HERE.values())):
        assert trace not in text
    assert json.loads(text.splitlines()[2])["scopes"] == ["ask"]


def test_ids_are_hashed_with_the_service_s_keys(tmp_path: Path) -> None:
    write_keys(tmp_path / "keys.json", KEYS)
    assert run("audit-id", tmp_path / "keys.json", "ann").stdout.strip() == name_of("ann")
    assert len({name_of("ann"), name_of("bob"), audit_id(new_keys().tokens, "ann")}) == 3


def test_many_people_are_one_entry_on_several_lines(here: Running, path: Path) -> None:
    people = [f"person-{number}" for number in range(2 * PEOPLE_PER_LINE + 1)]
    here.add(*people)
    lines = entries(path)
    assert [len(line["people"]) for line in lines] == [PEOPLE_PER_LINE, PEOPLE_PER_LINE, 1]
    assert len({line["entry"] for line in lines}) == 1
    assert [each for line in lines for each in line["people"]] == [name_of(person) for person in people]


class TestFile:
    def test_only_its_owner_can_read_it(self, here: Running, path: Path) -> None:
        before = os.umask(0)
        try:
            path.unlink()
            here.add("ann")
        finally:
            os.umask(before)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_it_can_be_renamed_at_any_time(self, here: Running, path: Path) -> None:
        here.add("ann")
        path.rename(path.with_suffix(".1"))
        here.add("bob")
        assert [line["people"] for line in entries(path)] == [[name_of("bob")]]
        assert [line["people"] for line in entries(path.with_suffix(".1"))] == [[name_of("ann")]]

    def test_a_line_that_was_cut_spoils_no_other(self, here: Running, path: Path) -> None:
        path.write_text('{"time": "2025-')
        here.add("ann")
        assert json.loads(path.read_text().splitlines()[1])["people"] == [name_of("ann")]

    def test_a_place_where_no_file_can_be_is_said_at_the_start(self, tmp_path: Path) -> None:
        with pytest.raises(OutputError, match=r"cannot be written .*--audit-log"):
            AuditLog(KEYS.tokens, tmp_path / "missing" / "audit.jsonl")

    def test_an_entry_is_on_disk_before_anything_is_done(
        self, here: Running, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[str] = []
        add, fsync = here.service.store.add_people, os.fsync

        def noted(what: str, function: Any) -> Any:
            def noting(*arguments: Any) -> Any:
                seen.append(what)
                return function(*arguments)

            return noting

        monkeypatch.setattr(os, "fsync", noted("on disk", fsync))
        monkeypatch.setattr(here.service.store, "add_people", noted("added", add))
        here.add("ann")
        assert seen == ["on disk", "added"]


def _full(*_: Any) -> int:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("failure", [_full, lambda _, text: len(text) - 1], ids=["refused", "cut"])
@pytest.mark.parametrize("route", AUDITED, ids=" ".join)
def test_what_cannot_be_logged_is_not_done(
    here: Running, monkeypatch: pytest.MonkeyPatch, route: tuple[str, str], failure: Any
) -> None:
    here.service.store.add_people(["ann"])
    before, mark, epoch = here.state(), here.service.store.token_mark("ann"), here.service.publisher.epoch
    method, template = route
    monkeypatch.setattr(os, "write", failure)
    # Somebody new where people are created, and a key that is there where one is removed.
    person = "eve" if ROUTES[route].action == "create people" else "ann"
    target = in_path(template, person, "shop" if method == "POST" else "tests")
    body = {"ids": ["eve"]} if template == "/v1/people" else BODIES.get(route)
    answer = here.call(method, target, json=body)
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:nearveil:problem:not-logged")
    assert (here.state(), here.service.store.token_mark("ann")) == (before, mark)
    assert here.service.publisher.epoch == epoch
    monkeypatch.undo()
    # Reports and questions go on.
    assert here.report("ann").status_code == 202
    here.nearby()


def test_what_fails_is_said_to_have_failed(here: Running, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store may have done it, or not."""

    def broken(*_: object) -> None:
        raise StoreError("gone")

    monkeypatch.setattr(here.service.store, "erase", broken)
    assert here.call("DELETE", "/v1/people/ann").status_code == 503
    assert [line.get("result") for line in entries(path)] == [None, "failed"]


def test_a_slow_disk_lets_others_be_answered(here: Running, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line that says what became of an entry waits for the file's lock and for the disk: not in the event loop."""
    begun, allowed = threading.Event(), threading.Event()
    write = here.service.audit_log._write

    def slow(lines: Sequence[dict[str, Any]]) -> None:
        if "result" in lines[0]:
            begun.set()
            assert allowed.wait(PATIENCE_S)
        write(lines)

    monkeypatch.setattr(here.service.audit_log, "_write", slow)
    headers = {"Authorization": f"Bearer {here.key}"}

    async def scene() -> tuple[int, int]:
        missing = asyncio.create_task(here._send("GET", "/v1/people/nobody", headers, {}))
        assert await asyncio.to_thread(begun.wait, PATIENCE_S)
        meanwhile = await here._send("GET", "/healthz", headers, {})
        still_waits = not missing.done()
        allowed.set()
        assert still_waits
        return meanwhile.status_code, (await missing).status_code

    assert asyncio.run(scene()) == (200, 404)
    assert [line.get("result") for line in entries(path)] == [None, "not done"]


def test_what_a_client_that_left_has_cancelled_is_in_the_log(path: Path) -> None:
    log, begun = AuditLog(KEYS.tokens, path), asyncio.Event()

    async def scene() -> None:
        async def act() -> None:
            async with log.recorded(Caller("platform", "tests"), "erase a person", people=["ann"]):
                begun.set()
                await asyncio.Event().wait()

        acting = asyncio.create_task(act())
        await begun.wait()
        acting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await acting

    asyncio.run(scene())
    assert [line.get("result") for line in entries(path)] == [None, "failed"]


class TestInTheLog:
    @pytest.fixture
    def logged(self) -> Iterator[io.StringIO]:
        with captured_log("error") as stream:
            yield stream

    def test_without_a_file_entries_are_in_the_log_at_every_level(self, logged: io.StringIO) -> None:
        with running(keys=KEYS) as here:
            here.add("ann")
        (line,) = [json.loads(line) for line in logged.getvalue().splitlines()]
        assert line.pop("entry")
        assert line == {
            "time": SECONDS, "event": "audit", "action": "create people", "by": "key tests", "people": [name_of("ann")],
        }  # fmt: skip

    def test_a_log_that_cannot_be_written_lets_nothing_be_done(self, logged: io.StringIO) -> None:
        with running(keys=KEYS) as here:
            before = here.state()
            logged.close()
            answer = here.call("PUT", "/v1/people/ann")
            assert (answer.status_code, answer.json()["type"]) == (503, "urn:nearveil:problem:not-logged")
            assert here.state() == before


def test_the_access_log_names_the_caller_and_no_person(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "nearveil.service")
    with running(in_folder(tmp_path), keys=KEYS, access_log=True) as here:
        here.add("ann")
        token = here.token("ann")
        caplog.clear()
        here.report("ann", key=token)
        here.nearby(key=token)
        here.nearby()
        here.call("DELETE", "/v1/platform-keys/shop")
        here.call("GET", "/v1/ledger", key=None)
    fields = [record.__dict__["nearveil_fields"] for record in caplog.records if record.msg == "request"]
    ann = f"person {name_of('ann')}"
    assert [(line["route"], line.get("caller"), line["status"]) for line in fields] == [
        ("/v1/people/{id}/location", ann, 202),
        ("/v1/nearby", ann, 200),
        ("/v1/nearby", "key tests", 200),
        ("/v1/platform-keys/{name}", "key tests", 404),
        ("/v1/ledger", None, 401),
    ]


def test_a_line_that_another_process_is_writing_is_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long entry may be in the file in part, for a moment: that is not a line that a full disk has cut."""
    log, arrived, flock = AuditLog(KEYS.tokens, path), threading.Event(), fcntl.flock

    def arrive(descriptor: int, operation: int) -> None:
        arrived.set()
        flock(descriptor, operation)

    def append() -> None:
        log._append(b"entry\n")
        arrived.set()

    writer = threading.Thread(target=append)
    with path.open("ab", buffering=0) as other:
        flock(other, fcntl.LOCK_EX)
        other.write(b"half a line, ")
        monkeypatch.setattr(fcntl, "flock", arrive)
        writer.start()
        assert arrived.wait(PATIENCE_S)
        other.write(b"and the other half\n")
        flock(other, fcntl.LOCK_UN)
    writer.join()
    assert path.read_bytes() == b"half a line, and the other half\nentry\n"
