"""``nearveil attack --url`` as a person runs it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from nearveil.client.http import Client
from nearveil.region import Region
from tests.cli.conftest import Run
from tests.client.stub_service import KEY, URL, StubService

TOWN = Region(37.745, -122.455, 37.79, -122.398)
HERE = ("attack", "--url", URL)
SMALL = (*HERE, "--region=37.745,-122.455,37.79,-122.398", "--attack", "gi-lia", "--targets", 2)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubService]:
    stub = StubService(TOWN)
    rng = np.random.default_rng(4)
    stub.populate(TOWN.from_metres(rng.uniform(-0.95, 0.95, (400, 2)) * np.array(TOWN.half_extent_m)))

    def client(url: str, key: str, **options: Any) -> Client:
        return Client(url, key, transport=httpx.MockTransport(stub.handle), **options)

    monkeypatch.setattr("nearveil.cli.attack_service.Client", client)
    monkeypatch.delenv("NEARVEIL_PLATFORM_KEY", raising=False)
    yield stub
    assert len(stub.people) == 400, "accounts were left behind"


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "platform-key.txt"
    path.write_text(KEY + "\n", encoding="utf-8")
    return path


def test_table(run: Run, service: StubService, key_file: Path) -> None:
    service.at_once = False
    outcome = run(*SMALL, "--key", key_file)
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert lines[1].split()[:4] == ["gi-lia", "1", "2", "1.000"]
    assert f"advanced the service by {service.epoch - 100} epochs" in outcome.out
    made = [json.loads(one.content)["ids"] for one in service.requests if one.url.path == "/v1/people"]
    assert f"All {sum(map(len, made))} accounts of the audit were removed." in outcome.out
    assert KEY not in outcome.out + outcome.err


def test_the_key_of_the_environment(run: Run, service: StubService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARVEIL_PLATFORM_KEY", KEY)
    assert run(*SMALL).code == 0
    assert service.requests


def test_one_account_of_ones_own(run: Run, service: StubService, key_file: Path) -> None:
    latitude, longitude = TOWN.from_metres(np.array([service.published["person-3"]]))[0]
    truth = f"{latitude:.7f},{longitude:.7f}"
    outcome = run(
        *HERE, "--key", key_file, "--region=37.745,-122.455,37.79,-122.398", "--attack", "adaptive", "--json",
        "--target", "person-3", f"--truth={truth}",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    [row] = json.loads(outcome.out)["attacks"]
    assert (row["attack"], row["attacked"], row["found"]) == ("adaptive", 1, 1)
    assert "person-3" in service.published


BAD = [
    ((), 2, "only a service of your own can be attacked"),
    (("--key", "nowhere.txt"), 2, "the file of --key cannot be read"),
    (("--key", KEY), 2, "can see a key on the command line"),
    (("--dataset", "gaussian"), 2, "--dataset cannot be used with --url"),
    (("--k", "10,20"), 2, "--k takes one number"),
    (("--target", "ann"), 2, "--target and --truth together"),
    (("--target", "ann", "--truth", "here"), 2, "latitude and longitude"),
    (("--target", "ann", "--truth", "37.7,-122.4", "--targets", "3"), 2, "give one of them"),
    (("--target", "ann", "--truth", "7.7,-122.4", "--region", "san-francisco"), 2, "--truth is outside the region"),
    (("--url", "http://example.org"), 2, "in clear"),
]


@pytest.mark.parametrize(("options", "code", "says"), BAD, ids=[says for _, _, says in BAD])
def test_bad_input_is_one_sentence(
    run: Run,
    service: StubService,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    code: int,
    says: str,
) -> None:
    if options:
        monkeypatch.setenv("NEARVEIL_PLATFORM_KEY", KEY)
    outcome = run(*HERE, *options)
    assert (outcome.code, outcome.out) == (code, "")
    assert outcome.err.startswith("error: ")
    assert says in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert KEY not in outcome.err
    assert all(request.method == "GET" for request in service.requests)


def test_a_key_that_the_service_does_not_know(run: Run, service: StubService, tmp_path: Path) -> None:
    path = tmp_path / "key.txt"
    path.write_text("nvk_wrong", encoding="utf-8")
    outcome = run(*HERE, "--key", path)
    assert (outcome.code, "does not accept this platform key" in outcome.err) == (2, True)
    assert all(request.method == "GET" for request in service.requests)


def test_stopped_by_hand(run: Run, service: StubService, key_file: Path) -> None:
    """Ctrl-C while it attacks: exit code 130, and the fixture sees that no account is left."""
    import signal

    def interrupt(request: httpx.Request) -> None:
        if request.url.path == "/v1/nearby" and len(service.requests) > 60:
            service.refuse = lambda _: None
            signal.raise_signal(signal.SIGINT)

    service.refuse = interrupt
    outcome = run(*SMALL, "--key", key_file)
    assert (outcome.code, outcome.out) == (130, "")
    assert len(service.requests) > 60


def test_no_test_hook_and_long_epochs(run: Run, service: StubService, key_file: Path) -> None:
    service.at_once = service.test_hooks = False
    service.publishes_at = 9e9
    outcome = run(*SMALL, "--key", key_file)
    assert (outcome.code, outcome.out) == (4, "")
    assert "--test-hooks" in outcome.err
