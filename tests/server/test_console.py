"""The console's routes: no data without a platform's key, no true place anywhere, and a whole story of an attack."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from benchmarks.console_prediction import HIDE_AMONG, NOISE_M, measure

from nearveil.io.synthetic import SEED, synthetic_city
from nearveil.mechanisms.dprs import DPRS
from nearveil.nearby.publishing.protection import Protection
from nearveil.region import Region, named_region
from nearveil.report.land import land_in
from nearveil.server.console.demonstration import (
    DemonstrationLock,
    DemonstrationOptions,
    attack_somebody,
    hidden_among,
    scene_to_dict,
)
from nearveil.server.console.prediction import predictions
from nearveil.server.console.routes import MOST_SHOWN, card_of, content_policy, tile_origin
from nearveil.server.problems import Problem
from tests.server.console_service import PEOPLE, Place, as_set, console_service, served
from tests.waiting import PATIENCE_S

ATTACKS = ("gi-lia", "zo-lia", "adaptive", "unfolding")
DATA_ROUTES = (
    ("GET", "/v1/console/map"),
    ("GET", "/v1/console/state"),
    ("GET", "/v1/console/prediction"),
    ("GET", "/v1/console/store"),
    ("GET", "/v1/console/askers"),
    ("POST", "/v1/console/demonstration"),
)
WISH: dict[str, Any] = {"attack": "gi-lia", "protected": False, "noise_m": 500, "k": 10, "seed": 1}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with console_service(tmp_path_factory.mktemp("service")) as place:
        yield place


@pytest.fixture(scope="module")
def client(place: Place) -> Iterator[httpx.Client]:
    with served(place.service) as address, httpx.Client(base_url=address, timeout=PATIENCE_S) as client:
        yield client


# -- the page ------------------------------------------------------------------------------------------------


def test_the_page_needs_no_key_and_holds_no_data(client: httpx.Client, place: Place) -> None:
    answer = client.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert not re.search(r"person-\d|\d{2}\.\d{3}", answer.text)
    assert place.key not in answer.text


def test_the_page_fits_its_content_policy(client: httpx.Client) -> None:
    answer = client.get("/")
    rules = answer.headers["content-security-policy"]
    assert "script-src 'self';" in rules
    assert "default-src 'none'" in rules
    assert "unsafe-eval" not in rules
    assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=", answer.text)


def test_every_file_that_the_page_and_its_scripts_name_is_there(client: httpx.Client) -> None:
    named = set(re.findall(r'(?:src|href)="(/console/[^"]+)"', client.get("/").text))
    assert len(named) == 4
    seen: set[str] = set()
    while named - seen:
        for path in named - seen:
            answer = client.get(path)
            assert answer.status_code == 200, path
            seen.add(path)
            if "plotly" not in path:
                named = named | {f"/console/{name}" for name in re.findall(r'from "\./([\w-]+\.js)"', answer.text)}
    assert "/console/scene.js" in seen


@pytest.mark.parametrize("name", ["nothing.js", "..%2fprediction.json", "%2e%2e%2froutes.py", "prediction.json", ""])
def test_nothing_else_is_served(client: httpx.Client, name: str) -> None:
    assert client.get(f"/console/{name}").status_code == 404


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("https://tiles.example.org/{z}/{x}/{y}.png", "https://tiles.example.org"),
        ("http://127.0.0.1:8080/{z}/{x}/{y}.png", "http://127.0.0.1:8080"),
        ("https://a.org;script-src * /{z}", None),
        ("https://a.org 'unsafe-inline'/{z}", None),
        ("javascript:alert(1)", None),
        ("https://a.org:port/{z}", None),
        (None, None),
    ],
)
def test_only_a_tile_server_s_host_joins_the_policy(address: str | None, origin: str | None) -> None:
    assert tile_origin(address) == origin
    images = "img-src 'self' data: blob:" + (f" {origin}" if origin else "") + ";"
    assert images in content_policy(address)


# -- who may look --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), DATA_ROUTES)
def test_data_needs_a_platform_s_key(client: httpx.Client, place: Place, method: str, path: str) -> None:
    token, _ = place.service.access.issue_token("person-1", place.service.store.token_mark("person-1") or 0, 3600)
    body = WISH if method == "POST" else None
    assert client.request(method, path, json=body).status_code == 401
    forged = {"Authorization": "Bearer nvk_" + "A" * 43}
    assert client.request(method, path, json=body, headers=forged).status_code == 401
    person = {"Authorization": f"Bearer {token}"}
    assert client.request(method, path, json=body, headers=person).status_code == 403
    answer = client.request(method, path, json=body, headers=place.headers)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"


# -- the map -------------------------------------------------------------------------------------------------


def test_the_map_has_published_places_and_no_true_one(client: httpx.Client, place: Place) -> None:
    answer = client.get("/v1/console/map", headers=place.headers)
    found = answer.json()
    assert found["number"] == PEOPLE == len(found["places"])
    _, published = place.service.index.sample(PEOPLE, np.random.default_rng(1))
    shown = as_set(np.array(found["places"]))
    assert shown == as_set(published)
    assert not shown & as_set(place.true)
    region = place.service.protection.region
    moved_m = np.hypot(*(region.to_metres(place.true)[:, None] - region.to_metres(found["places"])).T)
    # Whoever is nearest to a published place is rarely the one who is published there.
    assert np.median(moved_m.min(axis=0)) > 50
    assert "person-" not in answer.text


def test_no_row_of_the_map_is_a_person(client: httpx.Client, place: Place) -> None:
    """Two orders of so many people are the same by chance once in 10^100 times."""
    maps = [client.get("/v1/console/map", headers=place.headers).json()["places"] for _ in range(2)]
    assert maps[0] != maps[1]
    assert sorted(maps[0]) == sorted(maps[1])


def test_the_map_shows_at_most_a_sample(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from nearveil.server.console import routes

    monkeypatch.setattr(routes, "MOST_SHOWN", 30)
    found = routes.map_of(place.service)
    assert (len(found["places"]), found["number"]) == (30, PEOPLE)
    assert MOST_SHOWN == 3000


# -- the ledger and the card -----------------------------------------------------------------------------------


def test_the_state_is_the_ledger_s(client: httpx.Client, place: Place) -> None:
    answer = client.get("/v1/console/state", headers=place.headers)
    state = answer.json()
    assert state["ledger"] == {
        "people": PEOPLE,
        "published": PEOPLE,
        "budget_per_person": 20,
    }
    epoch = state["epoch"]
    assert epoch["number"] == place.service.publisher.epoch
    assert 0 < epoch["next_epoch_at"] - state["now"] <= 2 * epoch["length_s"]
    assert state["window"]["ends"] >= epoch["next_epoch_at"]
    assert "person-" not in answer.text


def test_questions_are_counted_and_suspects_are_not_shown(client: httpx.Client, place: Place) -> None:
    before = client.get("/v1/console/state", headers=place.headers).json()["questions"]
    question = {"latitude": 37.77, "longitude": -122.42, "k": 3}
    assert client.post("/v1/nearby", json=question, headers=place.headers).status_code == 200
    after = client.get("/v1/console/state", headers=place.headers).json()
    assert after["questions"] == before + 1
    assert set(after) == {
        "now", "noise_m", "hide_among", "epoch", "window", "ledger", "questions", "guarantee",
        "key", "scopes",
    }  # fmt: skip


def test_a_refuted_claim_is_said_to_protect_nobody(san_francisco: Region) -> None:
    refuted = card_of(DPRS(release="paper", epsilon=1.0, centres=10, region=san_francisco, seed=1)
                      .fit(synthetic_city(500, san_francisco, rng=SEED)).guarantee)  # fmt: skip
    assert refuted["holds"] is False
    assert not all(statement["holds"] for statement in refuted["statements"])
    json.dumps(refuted, allow_nan=False)


# -- the demonstration -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("attack", ATTACKS)
def test_without_protection_the_person_is_found_and_every_question_is_told(
    client: httpx.Client, place: Place, attack: str
) -> None:
    found = client.post("/v1/console/demonstration", json={**WISH, "attack": attack}, headers=place.headers).json()
    assert found["error_m"] <= 100
    assert found["published_place"] is None
    assert distance_m(found["inferred_place"], found["true_place"]) == pytest.approx(found["error_m"], abs=0.3)
    check_trace(found)


@pytest.mark.parametrize("attack", ATTACKS)
def test_with_protection_the_published_place_is_found_and_not_the_person(
    client: httpx.Client, place: Place, attack: str
) -> None:
    wish = {**WISH, "attack": attack, "protected": True}
    found = client.post("/v1/console/demonstration", json=wish, headers=place.headers).json()
    assert found["error_m"] > 100
    assert distance_m(found["inferred_place"], found["published_place"]) < 100
    verdict = re.sub(r"\s", " ", found["verdict"])
    assert re.fullmatch(r"Published location found, user missed by [\d.]+ k?m", verdict)
    assert f". {found['verdict']}." in found["result"]["text"]
    check_trace(found)


def check_trace(found: dict[str, Any]) -> None:
    steps = found["steps"]
    assert len(steps) == found["questions"] > 0
    for number, step in enumerate(steps, 1):
        assert step["text"].startswith(f"Query {number} of {len(steps)},")
        assert len(step["accounts"]) == len(step["account_ranks"])
        assert step["view"]["half_m"] >= 250
        assert -90 <= step["place"][0] <= 90
    if found["attack"] == "gi-lia":
        assert len(found["result"]["circles"]) == 2
        assert any(step["ring_m"] for step in steps)
        assert any(step["accounts"] for step in steps)
    if found["attack"] == "adaptive":
        assert all(0 < len(step["cells"]) <= 400 for step in steps)
    if found["attack"] == "unfolding":
        assert not any(step["accounts"] for step in steps)
        assert found["others"]
    assert 1000 < len(found["people"]) < 2000


def test_a_demonstration_leaves_the_service_alone(client: httpx.Client, place: Place) -> None:
    before = (place.service.store.totals(), len(place.service.index), place.service.metrics.exposition()[0])
    answer = client.post("/v1/console/demonstration", json=WISH, headers=place.headers)
    after = (place.service.store.totals(), len(place.service.index), place.service.metrics.exposition()[0])
    assert before[:2] == after[:2]
    assert b"nearveil" in after[2]
    _, published = place.service.index.sample(PEOPLE, np.random.default_rng(1))
    shown = as_set(np.array(answer.json()["people"]))
    assert not shown & (as_set(place.true) | as_set(published))


def test_the_same_seed_is_the_same_person_protected_or_not(san_francisco: Region) -> None:
    scenes = [
        attack_somebody(DemonstrationOptions(attack="gi-lia", protected=protected, seed=seed), san_francisco)
        for protected, seed in ((False, 4), (True, 4), (False, 5))
    ]
    assert scenes[0].truth == scenes[1].truth != scenes[2].truth


def test_one_at_a_time_for_a_key_and_few_in_all() -> None:
    lock = DemonstrationLock()
    with lock.held_by("a"):
        with pytest.raises(Problem) as refused, lock.held_by("a"):
            pass
        assert (refused.value.status, refused.value.headers["Retry-After"]) == (429, "2")
        with lock.held_by("b"), pytest.raises(Problem), lock.held_by("c"):
            pass
    with pytest.raises(RuntimeError, match="on purpose"), lock.held_by("a"):
        raise RuntimeError("on purpose")
    with lock.held_by("a"):
        pass


def test_an_attack_ends_when_its_time_is_up(san_francisco: Region) -> None:
    scene = attack_somebody(DemonstrationOptions(attack="gi-lia", protected=False), san_francisco, most_seconds=-1.0)
    story = scene_to_dict(scene)
    assert (story["questions"], story["error_m"], story["inferred_place"]) == (0, None, None)
    assert "gives up" in story["result"]["text"]


# -- small parts -----------------------------------------------------------------------------------------------


@pytest.mark.evidence
def test_predictions_are_those_of_the_code() -> None:
    shipped = predictions()
    points = {point["noise_m"]: point for point in shipped["points"]}
    assert tuple(points) == NOISE_M
    for name, falls in (("recall_10", True), ("recall_50", True), ("error_m", False), ("within_100_m", True)):
        values = [point[name] for point in points.values()]
        assert values == sorted(values, reverse=falls)
    region = named_region("san-francisco")
    # One run of five, whose noise is that of the shipped figures.
    places = synthetic_city(25_000, region, rng=SEED, land=land_in(region))
    found = measure(Protection(region=region, noise_m=500.0), places, 1)
    assert found["recall_10"] == pytest.approx(points[500.0]["recall_10"], abs=0.02)
    assert found["recall_50"] == pytest.approx(points[500.0]["recall_50"], abs=0.02)
    assert found["error_m"] == pytest.approx(points[500.0]["error_m"], rel=0.15)
    assert found["within_100_m"] == pytest.approx(points[500.0]["within_100_m"], abs=0.05)
    assert found["named_sparsest"] == pytest.approx(points[500.0]["named_sparsest"], abs=0.07)


@pytest.mark.evidence
def test_predictions_among_people_are_those_of_the_code() -> None:
    points = {point["hide_among"]: point for point in predictions()["among_points"]}
    assert tuple(points) == HIDE_AMONG
    for name, falls in (("recall_10", True), ("recall_50", True), ("error_m", False), ("named", True)):
        values = [point[name] for point in points.values()]
        assert values == sorted(values, reverse=falls)
    region = named_region("san-francisco")
    places = synthetic_city(25_000, region, rng=SEED, land=land_in(region))
    found = measure(Protection(region=region, among=hidden_among(500, region)), places, 1, attacked=50)
    assert found["recall_10"] == pytest.approx(points[500]["recall_10"], abs=0.02)
    assert found["recall_50"] == pytest.approx(points[500]["recall_50"], abs=0.02)
    # A mean of 50 shares, most of them 0 and none above a few per cent.
    assert found["named_sparsest"] == pytest.approx(points[500]["named_sparsest"], abs=0.03)


def distance_m(one: list[float], other: list[float]) -> float:
    north = (one[0] - other[0]) * 111_000
    east = (one[1] - other[1]) * 111_320 * np.cos(np.radians(one[0]))
    return float(np.hypot(north, east))
