"""``nearveil attack`` on a service of your own, by an adapter or by its address."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from nearveil.client.http import Client
from tests.cli.conftest import Run
from tests.client.stub_service import KEY, TOWN, URL, StubService, populated

TRUTH = "52.4912,13.424"


def test_the_starter_file_runs_at_once(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "my_first_service.py"
    written = run("attack", "--init-adapter", path, names_region=False)
    assert written.code == 0
    (command,) = [line.split() for line in written.out.splitlines() if line.startswith("    nearveil attack")]
    picture = tmp_path / "attack.png"
    outcome = run(*command[1:], "--picture", picture, names_region=False)
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("Your service leaks: user found within ")
    assert "nearveil.Veil: docs/guides/veil.md" in outcome.out
    assert outcome.err.startswith("Your service answers with a distance, in whole numbers as it seems.")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert TRUTH[:5] not in outcome.out + outcome.err
    again = run("attack", "--init-adapter", path, names_region=False)
    assert (again.code, "exists already" in again.err) == (4, True)
    assert run("attack", "--init-adapter", path, "--force", names_region=False).code == 0
    assert run("attack", "--init-adapter", tmp_path / "my-service.txt", names_region=False).code == 2


LISTS = (
    f"TRUTH = ({TRUTH})"
    + """
accounts = ["mine"]
places = {f"u{n}": (52.47 + n * n % 97 / 2000, 13.38 + n * 37 % 101 / 1000) for n in range(150)} | {"me": TRUTH}

def nearby(latitude, longitude):
    print("What an adapter prints is not part of the result.")
    away = {each: (a - latitude) ** 2 + ((b - longitude) * 0.61) ** 2 for each, (a, b) in places.items()}
    return sorted(away, key=away.get)[:10]

def move(account, latitude, longitude):
    places.pop(account, None)
    if latitude is not None:
        places[account] = (latitude, longitude)
"""
)


def test_what_is_missing_is_asked_at_a_terminal(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "adapter_with_lists.py"
    path.write_text(LISTS, encoding="utf-8")
    for missing, options in (("--truth LAT,LON", ()), ("--target ID", ("--truth", TRUTH))):
        outcome = run("attack", "--adapter", path, *options, names_region=False)
        assert (outcome.code, outcome.out, len(outcome.err.splitlines())) == (2, "", 1)
        assert f"with {missing}" in outcome.err
    typed = iter(["here", TRUTH, "me"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _prompt: next(typed))
    outcome = run("attack", "--adapter", path, "--json", names_region=False)
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)
    assert (document["answers"], document["found"], next(typed, None)) == ("list", True, None)


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("return 3", 0, "The user was not found after"),
        ("raise_later(ValueError('52.4912'))\n    return 3", 4, "ended early, with what it knew by then: distance()"),
        ("raise_later(HTTPError('', 429, '', {}, None))\n    return 3", 0, "(no more queries allowed)"),
    ],
)
def test_the_end_is_one_sentence(run: Run, tmp_path: Path, body: str, code: int, said: str) -> None:
    path = tmp_path / f"adapter_that_ends_{len(body)}.py"
    later = "asked = []\ndef raise_later(error):\n    asked.append(1)\n    if len(asked) > 3: raise error\n"
    text = f"from urllib.error import HTTPError\n{later}def distance(latitude, longitude):\n    {body}\n"
    path.write_text(text, encoding="utf-8")
    outcome = run("attack", "--adapter", path, "--truth", TRUTH, names_region=False)
    assert outcome.code == code
    assert said in outcome.out + outcome.err
    assert "Traceback" not in outcome.err
    assert TRUTH[:5] not in outcome.out + outcome.err


# A running service of Nearveil.


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubService]:
    stub = populated()

    def client(url: str, key: str, **options: Any) -> Client:
        return Client(url, key, transport=httpx.MockTransport(stub.handle), **options)

    monkeypatch.setattr("nearveil.cli.attack_own.Client", client)
    monkeypatch.setenv("NEARVEIL_PLATFORM_KEY", KEY)
    yield stub
    assert len(stub.people) == 600, "test users were left behind"


def test_users_of_a_running_service_are_attacked(run: Run, service: StubService, tmp_path: Path) -> None:
    path = tmp_path / "platform-key.txt"
    path.write_text(KEY + "\n", encoding="utf-8")
    outcome = run("attack", "--url", URL, "--key", path, "--targets", 2, "--attack", "gi-lia")
    assert outcome.out.startswith("2 of 2 users found within 100 m, "), outcome.err
    assert outcome.out.endswith("All test users were removed.\n")
    latitude, longitude = TOWN.from_metres(np.array([service.published["person-3"]]))[0]
    own = ("--target", "person-3", f"--truth={latitude:.7f},{longitude:.7f}")
    document = json.loads(run("attack", "--url", URL, *own, "--json").out)
    assert (document["attack"], document["attacked"], document["found"]) == ("adaptive", 1, 1)
    assert KEY not in outcome.out + outcome.err


def test_a_stopped_attack_leaves_no_users(run: Run, service: StubService) -> None:
    def interrupt(request: httpx.Request) -> None:
        if request.url.path == "/v1/nearby" and len(service.requests) > 60:
            service.refuse = lambda _: None
            signal.raise_signal(signal.SIGINT)

    service.refuse = interrupt
    outcome = run("attack", "--url", URL, "--targets", 2)
    assert (outcome.code, outcome.out) == (130, "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--key", "nowhere.txt"), "which begins with nvk_, in a file"),
        (("--key", KEY), "which begins with nvk_, in a file"),
        (("--target", "ann"), "--target and --truth together"),
        (("--target", "ann", "--truth", "here"), "latitude and longitude"),
        (("--target", "ann", "--truth", "7.7,-122.4"), "--truth is outside the region"),
        (("--url", "http://example.org"), "in clear"),
    ],
)
def test_bad_input_is_one_sentence(run: Run, service: StubService, options: tuple[str, ...], said: str) -> None:
    outcome = run("attack", "--url", URL, *options)
    assert (outcome.code, outcome.out, len(outcome.err.splitlines())) == (2, "", 1)
    assert said in outcome.err
    assert KEY not in outcome.err
    assert all(each.method == "GET" for each in service.requests)
