"""A service that hides among people: what it answers, stores and promises, and what other cells cost."""

from pathlib import Path
from typing import Any

import pytest

from nearveil.errors import UsageError
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.fit_cells import cells_from_points
from nearveil.nearby.publishing.keys import new_keys, redraw_noise
from nearveil.region import named_region
from tests.server.running import HERE, Clock, Running, in_folder, running
from tests.services.leaks import leaks

SF = named_region("san-francisco")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two files of cells of the same region."""
    folder = tmp_path_factory.mktemp("cells")
    found = []
    for seed in (1, 2):
        path = folder / f"cells-{seed}.json"
        path.write_text(cells_from_points(synthetic_city(400, SF, rng=seed), SF).to_json())
        found.append(path)
    return found[0], found[1]


def point(place: Running) -> Any:
    return next((steps for batch in place.service.store.published() for steps in batch.steps.tolist()), None)


def charged(place: Running) -> int:
    return sum(place.service.store.totals().charged_by_window.values())


def report(place: Running) -> None:
    """Report in as many epochs as a place must last for."""
    for _ in range(place.service.protection.dwell_epochs):
        assert place.report("ann").status_code == 202
        place.next_epoch()


def test_reports_are_answered_and_nothing_true_is_stored(files: tuple[Path, Path], tmp_path: Path) -> None:
    with running(in_folder(tmp_path), hide_among=40, cells=files[0]) as place:
        place.add("ann")
        answer = place.report("ann").json()
        assert answer["status"] == "taken"
        place.next_epoch()
        assert place.nearby() == ["ann"]
        first = point(place)
        report(place)
        assert (point(place), charged(place)) == (first, 1)
        card = place.call("GET", "/v1/guarantee").json()
        assert (card["guarantee"]["notion"], card["guarantee"]["unit"]) == ("elastic", "per step")
        assert "taken as stated" in card["text"]
        exported = place.call("GET", "/v1/people/ann").content
        files_kept = [(file.name, file.read_bytes()) for file in tmp_path.iterdir() if file.is_file()]
        assert len(files_kept) > 0
        true = [(HERE["latitude"], HERE["longitude"])]
        assert leaks([("export", exported), ("card", card["text"].encode()), *files_kept], true, SF) == []


def test_other_cells_are_refused_unless_asked_for_and_are_charged(files: tuple[Path, Path], tmp_path: Path) -> None:
    keys, clock = new_keys(), Clock()
    options: dict[str, Any] = {"keys": keys, "clock": clock, "new_places": 2}
    with running(in_folder(tmp_path), hide_among=40, cells=files[0], **options) as place:
        place.add("ann")
        report(place)
        first = point(place)
    with (
        pytest.raises(UsageError, match=r"a further release of every place .* add --redraw-noise"),
        running(in_folder(tmp_path), hide_among=40, cells=files[1], **options),
    ):
        pass
    with running(in_folder(tmp_path), hide_among=40, cells=files[1], redraw_noise=True, **options) as place:
        # What is published stays until somebody reports, and then it counts as a new place.
        assert (point(place), charged(place)) == (first, 1)
        report(place)
        # A point that is drawn near the one before is replaced by it, so that the number alone tells.
        assert charged(place) == 2
        second = point(place)
        assert "drawn anew" in place.call("GET", "/v1/guarantee").json()["text"]
    # Back to a distance: one place too many. And back to the first cells: the first point.
    with running(in_folder(tmp_path), hide_within="500m", redraw_noise=True, **options) as place:
        report(place)
        assert (point(place), charged(place)) == (second, 2)
    with running(in_folder(tmp_path), hide_among=40, cells=files[0], redraw_noise=True, **options) as place:
        report(place)
        assert (point(place), charged(place)) == (first, 2)
    with running(in_folder(tmp_path), hide_among=40, cells=files[0], **options) as place:
        clock.now += place.service.protection.schedule.window.total_seconds()
        assert "drawn anew" not in place.call("GET", "/v1/guarantee").json()["text"]


def test_a_process_with_other_cells_takes_no_more_reports(files: tuple[Path, Path], tmp_path: Path) -> None:
    keys, clock = new_keys(), Clock()
    with running(in_folder(tmp_path), keys=keys, clock=clock, hide_among=40, cells=files[0]) as place:
        place.add("ann")
        report(place)
        other = place.service.settings.load(None, {}, {"hide_among": 40, "cells": files[1]}).protection()
        assert redraw_noise(place.service.store, other, keys, [0])
        with pytest.raises(UsageError, match="another hide-within"):
            place.next_epoch()
        assert place.report("ann").status_code == 503
        assert place.call("GET", "/readyz").status_code == 503


def test_cells_from_the_published_places_can_be_served(tmp_path: Path) -> None:
    keys, clock, made = new_keys(), Clock(), tmp_path / "made.json"
    people = [f"person-{number}" for number in range(200)]
    with running(in_folder(tmp_path), keys=keys, clock=clock) as place:
        place.add(*people)
        assert "two published people" in place.call("GET", "/v1/cells").json()["detail"]
        city = synthetic_city(len(people), SF, rng=1).tolist()
        publisher = place.service.publisher
        publisher.receive([publisher.accept(one, *where) for one, where in zip(people, city, strict=True)])
        place.next_epoch()
        for wrong in ("?hide_among=1", "?hide_among=many"):
            assert place.call("GET", f"/v1/cells{wrong}").status_code == 422
        assert place.call("GET", "/v1/cells", key=place.token("person-1")).status_code == 403
        made.write_text(place.call("GET", "/v1/cells?hide_among=50").text)
    with running(in_folder(tmp_path), keys=keys, clock=clock, hide_among=50, cells=made, redraw_noise=True) as place:
        assert "places published before" in place.call("GET", "/v1/guarantee").json()["text"]
        assert len(place.nearby()) == 10


@pytest.mark.parametrize("other", [{"region": "berlin"}, {"epoch": "30m"}, {"keys": new_keys()}], ids=str)
def test_what_a_store_is_counted_by_never_changes(tmp_path: Path, other: dict[str, Any]) -> None:
    options: dict[str, Any] = {"keys": new_keys(), "hide_within": "500m"}
    with running(in_folder(tmp_path), **options):
        pass
    with (
        pytest.raises(UsageError, match="this store was made with another key file, region"),
        running(in_folder(tmp_path), **{**options, **other, "redraw_noise": True}),
    ):
        pass
