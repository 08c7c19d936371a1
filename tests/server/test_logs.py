"""Logs are JSON lines without places, whoever logs, and whatever fails."""

import io
import json
import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from nearveil.region import Region
from nearveil.server.logs import log_event, log_exception, set_up_logs

PLACE = "37.774912"
LOGGERS = (None, "nearveil.service", "uvicorn", "uvicorn.error", "uvicorn.asgi", "uvicorn.access")


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """Take the logs over, and give everything back afterwards."""
    for module, hook in ((sys, "excepthook"), (sys, "unraisablehook"), (threading, "excepthook")):
        monkeypatch.setattr(module, hook, getattr(module, hook))
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(logger.handlers[:], logger.level, logger.propagate, logger.disabled) for logger in loggers]
    written = io.StringIO()
    set_up_logs("info", written)
    yield written
    logging.captureWarnings(False)
    for logger, (handlers, level, propagate, disabled) in zip(loggers, before, strict=True):
        logger.handlers[:], logger.propagate, logger.disabled = handlers, propagate, disabled
        logger.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    assert PLACE not in stream.getvalue()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def fail() -> None:
    # A foreign error, passing through a file of ours, with a place in its message.
    Region(37.5, -122.6, 37.9, -122.2).to_metres([[PLACE, "somewhere"]])


def caught() -> BaseException:
    try:
        fail()
    except Exception as error:
        return error
    raise AssertionError


def test_events_have_a_time_a_level_and_fields(stream: io.StringIO) -> None:
    log_event("request", method="POST", route="/v1/people/{id}/location", status=202, ms=1.25)
    log_event("border failed", level="warning", epoch=7)
    log_event("nothing to see", level="debug")
    first, second = lines(stream)
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "info", "event": "request", "method": "POST", "route": "/v1/people/{id}/location", "status": 202,
        "ms": 1.25,
    }  # fmt: skip
    assert (second["level"], second["event"], second["epoch"]) == ("warning", "border failed", 7)


def test_what_is_not_on_the_list_is_dropped(stream: io.StringIO) -> None:
    fields: dict[str, Any] = {
        "latitude": 37.774912, "body": PLACE, "person": "ann", "status": PLACE, "method": 37.774912,
        "ms": [37.774912], "epoch": float("nan"), "route": f"/v1/nearby?at={PLACE}", "host": "a\nb", "policy": "place",
    }  # fmt: skip
    log_event("request", **fields)
    (line,) = lines(stream)
    assert set(line) == {"time", "level", "event", "policy"}


def test_an_event_is_a_name_and_no_sentence_with_values(stream: io.StringIO) -> None:
    log_event(f"somebody at {PLACE}")
    assert lines(stream)[0]["event"] == "event without a proper name"


def test_errors_are_a_type_and_our_own_lines(stream: io.StringIO) -> None:
    log_exception("request failed", caught(), status=500)
    (line,) = lines(stream)
    assert (line["level"], line["event"], line["status"]) == ("error", "request failed", 500)
    assert line["error"] in ("ValueError", "DataError")
    assert all(part.split(":")[0].endswith(".py") for part in line["where"].split(" > "))
    assert "region.py:" in line["where"]
    assert "test_logs" not in line["where"]


def test_causes_and_codes_are_named_without_their_messages(stream: io.StringIO) -> None:
    class OddError(Exception):
        sqlstate = "40001"

    try:
        try:
            raise OddError(PLACE)
        except OddError as error:
            raise OSError(28, f"no space for {PLACE}") from error
    except OSError as error:
        log_exception("reports not kept", error)
    (line,) = lines(stream)
    assert (line["error"], line["caused_by"], line["code"], line["code_number"]) == (
        "OSError",
        "OddError",
        "ENOSPC",
        28,
    )


def test_no_access_line_of_uvicorn_is_written(stream: io.StringIO) -> None:
    access = logging.getLogger("uvicorn.access")
    access.info('%s - "%s %s HTTP/%s" %d', "127.0.0.1:5", "GET", f"/v1/nearby?at={PLACE}", "1.1", 404)
    access.error(PLACE)
    assert lines(stream) == []


def test_of_other_packages_only_known_sentences_are_repeated(stream: io.StringIO) -> None:
    uvicorn = logging.getLogger("uvicorn.error")
    uvicorn.info("Started server process [%d]", 5)
    uvicorn.info("Uvicorn running on %s", PLACE)
    uvicorn.error("Exception in ASGI application\n", exc_info=caught())
    logging.getLogger("psycopg.pool").warning("error connecting: %s", PLACE)
    logging.getLogger("somebody").error({"at": PLACE})
    logging.getLogger("somebody").info("too quiet")
    events = [(line["event"], line["logger"]) for line in lines(stream)]
    other = "message of another package"
    assert events == [
        ("Started server process", "uvicorn.error"), (other, "uvicorn.error"),
        ("Exception in ASGI application", "uvicorn.error"), (other, "psycopg.pool"), (other, "somebody"),
    ]  # fmt: skip
    assert "region.py" in lines(stream)[2]["where"]


def test_a_foreign_logger_cannot_pass_for_ours(stream: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").error("no", extra={"nearveil_fields": {"at": PLACE}})
    logging.getLogger("nearveil.service").error("at %s", PLACE)
    assert [line["event"] for line in lines(stream)] == ["message of another package"] * 2


def test_a_record_that_cannot_be_written_is_not_printed(
    stream: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    stream.close()
    log_event("request", status=200)
    logging.getLogger("uvicorn.error").error("at %s", PLACE)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_threads_and_processes_that_fail(stream: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    error = caught()
    sys.excepthook(type(error), error, None)
    sys.unraisablehook(type("Args", (), {"exc_value": error})())  # type: ignore[arg-type]
    assert [line["event"] for line in lines(stream)] == ["thread failed", "process failed", "cleaning up failed"]
    assert PLACE not in capsys.readouterr().err
