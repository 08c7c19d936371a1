"""``nearveil serve``: users report and ask over HTTP; what comes out, and what is stored, is noisy."""

import re
import secrets
import signal
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.acceptance.helpers import (
    DEADLINE_S,
    REGION,
    Array,
    check_planar_laplace,
    command,
    distances_m,
    done,
    files_below,
)
from tests.waiting import until

# Tests publish when they like, and ask as much as they like.
OPTIONS = ("--test-hooks", "--questions-per-minute", "0")
HERE = {"latitude": 37.7654321, "longitude": -122.4321987}


class Service:
    """A service as a process of its own, and the calls that tests make; routes are named here and nowhere else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "service.log"
        self.receipts: dict[str, str] = {}
        self.start()

    def start(self) -> None:
        written = self.log.stat().st_size if self.log.exists() else 0
        arguments = ("serve", "--region", REGION, "--noise", "500m", "--port", 0, *OPTIONS)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command(*arguments), cwd=self.folder, stdout=log, stderr=log)
        found: list[str] = []

        def is_ready() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            found[:] = re.findall(r"http://127\.0\.0\.1:\d+", self.log.read_bytes()[written:].decode())
            try:
                return bool(found) and httpx.get(f"{found[0]}/healthz").status_code == 200
            except httpx.TransportError:
                return False

        until(is_ready)
        self.url = found[0]
        self.key_file = self.folder / "nearveil-data" / "platform-key.txt"
        self.client = httpx.Client(base_url=self.url, timeout=DEADLINE_S)
        until(lambda: self.call("GET", "/readyz").status_code == 200)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.client.close()
        self.process.send_signal(how)
        return self.process.wait(DEADLINE_S)

    def call(self, method: str, path: str, body: Any = None, key: str | None = None) -> httpx.Response:
        key = self.key_file.read_text().strip() if key is None else key
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return self.client.request(method, path, json=body, headers=headers)

    def ok(self, method: str, path: str, body: Any = None, key: str | None = None) -> Any:
        answer = self.call(method, path, body, key)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def report(self, *users: str, at: dict[str, float]) -> None:
        self.ok("POST", "/v1/people", {"ids": users})
        for user in users:
            body = {**at, "previous": self.receipts.get(user, secrets.token_hex(12))}
            self.receipts[user] = self.ok("PUT", f"/v1/people/{user}/location", body)["receipt"]

    def publish(self) -> None:
        self.ok("POST", "/v1/epoch")

    def published(self, user: str) -> tuple[float, float]:
        record = self.ok("GET", f"/v1/people/{user}")["published"]
        return record["latitude"], record["longitude"]

    def nearby(self, key: str | None = None, **options: Any) -> list[str]:
        ids: list[str] = self.ok("POST", "/v1/nearby", {**HERE, "k": 100, **options}, key)["ids"]
        return ids


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("service"))
    yield running
    assert running.stop() == 0


def test_users_who_report_are_listed_for_others(service: Service) -> None:
    service.report("ann", "bob", at=HERE)
    service.publish()
    assert {"ann", "bob"} <= set(service.nearby())
    assert "ann" not in service.nearby(asker="ann")
    far = {"latitude": 37.55, "longitude": -122.25}
    service.report("eve", at=far)
    service.publish()
    assert service.ok("POST", "/v1/nearby", {**far, "k": 1})["ids"] == ["eve"]


@pytest.mark.statistical
def test_locations_are_published_with_the_noise_that_is_stated(service: Service) -> None:
    """False alarms: 1.2e-6; the public grid of the service adds less than 1 %."""
    users = [f"n{number}" for number in range(900)]
    service.ok("POST", "/v1/people", {"ids": users})
    # Far from all others, whose lists have room for a hundred.
    locations = np.random.default_rng(5).normal((37.6, -122.5), 0.01, (len(users), 2)).round(7)
    reports = [{"id": u, "latitude": a, "longitude": b} for u, (a, b) in zip(users, locations.tolist(), strict=True)]
    service.ok("POST", "/v1/locations", {"reports": reports})
    service.publish()
    check_planar_laplace(distances_m(locations, [service.published(user) for user in users]), 500)
    guarantee = service.ok("GET", "/v1/guarantee")["guarantee"]
    assert guarantee["epsilon"] == pytest.approx(0.004, rel=0.01)


def test_true_locations_are_in_no_answer_and_in_no_file(service: Service) -> None:
    """Neither as text nor as the eight bytes of a number."""
    service.report("cem", at=HERE)
    service.publish()
    answers = [
        service.call("POST", "/v1/nearby", {"latitude": 37.76, "longitude": -122.43, "k": 100}).text,
        service.call("GET", "/v1/people/cem").text,
        service.call("GET", "/metrics").text,
        service.call("PUT", "/v1/people/cem/location", {**HERE, "latitude": "37.7654321x"}).text,
    ]
    for value in HERE.values():
        text = f"{abs(value)}"
        assert not [answer for answer in answers if text in answer]
        forms = [text.encode(), struct.pack("<d", value), struct.pack(">d", value)]
        for path in files_below(service.folder):
            content = path.read_bytes()
            assert not [form for form in forms if form in content], path.name


def test_the_same_place_is_published_the_same_for_good(service: Service) -> None:
    """Otherwise the mean of many reports would be the place."""
    service.report("ivy", at=HERE)
    service.publish()
    first = service.published("ivy")
    for _ in range(3):
        service.report("ivy", at=HERE)
        service.publish()
        assert service.published("ivy") == first


def test_scopes_refuse_with_403(service: Service) -> None:
    keys = {s: service.ok("POST", f"/v1/platform-keys/{s}", {"scopes": [s]})["key"] for s in ("ask", "report")}
    service.report("uma", at=HERE)
    assert service.nearby(keys["ask"]) is not None
    location = {**HERE, "previous": service.receipts["uma"]}
    assert service.call("PUT", "/v1/people/uma/location", location, keys["ask"]).status_code == 403
    assert service.call("PUT", "/v1/people/uma/location", location, keys["report"]).status_code == 202
    assert service.call("POST", "/v1/nearby", {**HERE, "k": 1}, keys["report"]).status_code == 403
    for key in keys.values():
        assert service.call("DELETE", "/v1/people/uma", key=key).status_code == 403
    service.ok("DELETE", "/v1/platform-keys/ask")
    assert service.call("POST", "/v1/nearby", {**HERE, "k": 1}, keys["ask"]).status_code == 401


def test_without_a_key_nothing_is_said(service: Service) -> None:
    for method, path in (("POST", "/v1/nearby"), ("GET", "/v1/people/ann"), ("GET", "/metrics"), ("GET", "/readyz")):
        for key in ("", "nvk_wrong"):
            assert service.call(method, path, HERE if method == "POST" else None, key).status_code == 401
    assert service.call("GET", "/healthz", key="").status_code == 200


def test_a_token_is_good_for_its_user_alone(service: Service) -> None:
    service.report("pat", "quinn", at=HERE)
    service.publish()
    token = service.ok("POST", "/v1/people/pat/tokens", {"expires_in_s": 3600})["token"]
    listed = service.nearby(token)
    assert "quinn" in listed
    assert "pat" not in listed
    assert service.call("GET", "/v1/people/pat", key=token).status_code == 200
    assert service.call("GET", "/v1/people/quinn", key=token).status_code == 403
    assert service.call("DELETE", "/v1/people/quinn", key=token).status_code == 403
    service.ok("DELETE", "/v1/people/pat/tokens")
    assert service.call("GET", "/v1/people/pat", key=token).status_code == 401


def test_tags_filter_and_blocks_work_both_ways(service: Service) -> None:
    service.report("tim", "tom", at=HERE)
    service.publish()
    service.ok("PUT", "/v1/people/tim/tags", {"tags": ["chess"]})
    assert service.nearby(only=[["chess"]]) == ["tim"]
    service.ok("PUT", "/v1/people/tim/blocked/tom")
    assert "tom" not in service.nearby(asker="tim")
    assert "tim" not in service.nearby(asker="tom")
    assert {"tim", "tom"} <= set(service.nearby(asker="ann"))


def test_an_erased_user_is_gone_at_once(service: Service) -> None:
    service.report("gil", at=HERE)
    service.publish()
    assert "gil" in service.nearby()
    service.ok("DELETE", "/v1/people/gil")
    assert "gil" not in service.nearby()
    assert service.call("GET", "/v1/people/gil").status_code == 404


def test_bad_requests_are_refused_and_not_repeated(service: Service) -> None:
    bodies = [{}, {**HERE, "k": 0}, {**HERE, "latitude": 91.25}, {**HERE, "longitude": "west"}, {**HERE, "surprise": 1}]
    for body in bodies:
        answer = service.call("POST", "/v1/nearby", body)
        assert answer.status_code == 422
        assert answer.headers["content-type"].startswith("application/problem+json")
        assert not [value for value in ("37.76", "122.43", "91.25", "west") if value in answer.text]


def test_the_console_and_the_description_of_the_routes_load(service: Service) -> None:
    page = service.call("GET", "/", key="")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src" in page.headers["content-security-policy"]
    described = service.ok("GET", "/openapi.json")
    assert described["openapi"].startswith("3.")
    assert "post" in described["paths"]["/v1/nearby"]
    metrics = service.call("GET", "/metrics").text
    assert not [user for user in ("ann", "bob", "cem") if f'"{user}"' in metrics]


def test_keys_and_store_are_for_their_owner_alone(service: Service) -> None:
    for path in files_below(service.folder / "nearveil-data"):
        assert path.stat().st_mode & 0o077 == 0, path.name
    assert (service.folder / "nearveil-data").stat().st_mode & 0o077 == 0


def test_an_attack_on_the_service_finds_the_published_location_only(service: Service) -> None:
    """Without noise the error is below a meter; with it, the median of three is below 20 m in 3 of 10^5 runs."""
    options = ("--url", service.url, "--key", service.key_file, "--targets", 3)
    service.publish()
    before = set(service.nearby())
    result = done("attack", *options, "--attack", "gi-lia", "--json").json
    assert (result["targets"], result["attacked"]) == (3, 3)
    assert result["median_error_m"] > 20
    assert set(service.nearby()) == before


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_published_locations_outlast_a_restart(tmp_path: Path, how: signal.Signals) -> None:
    service = Service(tmp_path)
    service.report("ann", "bob", at=HERE)
    service.publish()
    before = {user: service.published(user) for user in ("ann", "bob")}
    assert service.stop(how) == (0 if how == signal.SIGTERM else -how)
    service.start()
    try:
        assert {user: service.published(user) for user in before} == before
        assert set(service.nearby()) == {"ann", "bob"}
        service.report("ann", at=HERE)
        service.publish()
        assert service.published("ann") == before["ann"]
    finally:
        service.stop()


def test_users_are_imported_once_and_without_their_true_locations(
    tmp_path: Path, users: Array, users_csv: Path
) -> None:
    store = tmp_path / "nearveil-data" / "nearveil.db"
    for _ in range(2):
        done("import", users_csv, "--store", store, "--region", REGION, "--noise", "500m")
    for path in files_below(store.parent):
        content = path.read_bytes()
        for latitude, longitude in users[:20]:
            assert f"{latitude:.7f}".encode() not in content
            assert struct.pack("<d", latitude) not in content
            assert struct.pack("<d", longitude) not in content
    service = Service(tmp_path)
    try:
        service.publish()
        assert len(service.nearby()) == 100
        assert service.ok("GET", "/v1/ledger")["people"] == len(users)
    finally:
        service.stop()
