"""``nearveil serve-demo``: what it starts, what it leaves in its folder, and what it refuses."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nearveil.cli.serve_demo as demo
from nearveil.errors import UsageError
from nearveil.mechanisms.cells import load_cells
from nearveil.nearby.publishing.publisher import Status
from nearveil.server import run
from nearveil.server.console import demonstration
from nearveil.server.service import Service

PEOPLE = 600


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the demo would have served: the protection and the published points of each start."""
    found: list[Any] = []

    def record(service: Service, listening: Any, **_: object) -> None:
        listening.close()
        points = {
            person: tuple(place)
            for batch in service.store.published()
            for person, place in zip(batch.people, batch.steps.tolist(), strict=True)
        }
        found.append((service.protection, points))
        service.close()

    monkeypatch.setattr(run, "run", record)
    monkeypatch.setattr(demo, "PEOPLE", PEOPLE)
    monkeypatch.setattr(demonstration, "PEOPLE", PEOPLE)
    return found


def start(folder: Path, **options: Any) -> None:
    assert demo.serve_demo.callback is not None
    demo.serve_demo.callback(
        out=folder / "demo", port=0, **{"noise": None, "hide_among": None, "epoch": "1m", **options}
    )


def test_it_hides_among_people(started: list[Any], tmp_path: Path) -> None:
    """A second start has the same cells, the same points, and nobody new."""
    for _ in range(2):
        start(tmp_path, hide_among=50)
    (first, points), (second, again) = started
    assert (first.noise_m, first.among.hide_among) == (None, 50)
    assert len(points) == PEOPLE
    assert again == points
    cells = load_cells(tmp_path / "demo" / "cells-50.geojson")
    assert (cells.source, cells.is_free, cells.hide_among) == ("public", True, 50)
    assert cells.people.sum() == pytest.approx(PEOPLE)
    assert first.fixed == second.fixed


def test_its_noise_is_in_metres_unless_told_otherwise(started: list[Any], tmp_path: Path) -> None:
    start(tmp_path)
    start(tmp_path / "other", noise="300m")
    assert [(protection.among, protection.noise_m) for protection, _ in started] == [(None, 500.0), (None, 300.0)]


def test_the_report_to_try_is_taken_as_often_as_it_is_tried(
    monkeypatch: pytest.MonkeyPatch, started: list[Any], tmp_path: Path
) -> None:
    taken: list[Status] = []

    def try_it(service: Service, listening: Any, *, when_ready: Callable[[], None]) -> None:
        listening.close()
        said: list[str] = []
        monkeypatch.setattr(demo, "say", said.append)
        when_ready()
        [person], [body] = (
            re.findall(found, said[0]) for found in (r"people/(\S+)/location", r"location --json '(.*)'")
        )
        for _ in range(2):
            place = json.loads(body)
            report = service.publisher.report(person, place.pop("latitude"), place.pop("longitude"), **place)
            taken.append(report.status)
        service.close()

    monkeypatch.setattr(run, "run", try_it)
    start(tmp_path)
    assert taken == [Status.TAKEN] * 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hide_among": 50, "noise": "300m"}, "give --noise or --hide-among"),
        ({"hide_among": 1}, "from 2 to"),
        ({"hide_among": 9_000}, "fewer than the 9,000 to hide among"),
    ],
    ids=str,
)
def test_what_is_refused_starts_nothing(
    started: list[Any], tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        start(tmp_path, **options)
    assert started == []
    assert list(tmp_path.glob("demo/*")) == []


@pytest.mark.parametrize("options", [{"hide_among": 60}, {"noise": "500m"}], ids=str)
def test_a_folder_of_another_demo_is_refused(started: list[Any], tmp_path: Path, options: dict[str, Any]) -> None:
    """The sentence names no option that the demo does not have."""
    start(tmp_path, hide_among=50)
    with pytest.raises(UsageError, match=r"was started with --hide-among 50 and cells .* with --out$"):
        start(tmp_path, **options)
    start(tmp_path, hide_among=50)
    assert len(started) == 2
