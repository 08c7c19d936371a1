"""A service that hides among people: what it answers, stores and promises, and what other cells cost."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import nearveil.mechanisms.hide_among as hide_among_module
from nearveil.errors import NearveilError, UsageError
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.fit_cells import cells_from_points
from nearveil.mechanisms.step_channel import StepChannel, channel_for_people
from nearveil.nearby.publishing.keys import SecretKeys, new_keys
from nearveil.nearby.publishing.store_identity import redraw_noise
from nearveil.region import named_region
from nearveil.server.settings import Settings
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
        assert (card["guarantee"]["definition"], card["guarantee"]["unit"]) == ("elastic", "per step")
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
    # Back to a distance, or to the first cells: one place too many, and so nothing changes, though the place is known.
    with running(in_folder(tmp_path), noise="500m", redraw_noise=True, **options) as place:
        report(place)
        assert (point(place), charged(place)) == (second, 2)
    with running(in_folder(tmp_path), hide_among=40, cells=files[0], redraw_noise=True, **options) as place:
        report(place)
        assert (point(place), charged(place)) == (second, 2)
    with running(in_folder(tmp_path), hide_among=40, cells=files[0], **options) as place:
        clock.now += place.service.protection.schedule.window.total_seconds()
        assert "drawn anew" not in place.call("GET", "/v1/guarantee").json()["text"]


def settings_kept(folder: Path) -> dict[str, str]:
    """Everything that a store remembers beside people."""
    with closing(sqlite3.connect(folder / "nearveil.db")) as connection:
        return dict(connection.execute("SELECT name, value FROM settings").fetchall())


def calibrates(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by a number of people whenever a channel is calibrated for it."""
    found: list[int] = []

    def watched(cells: Cells, people: int) -> StepChannel:
        found.append(people)
        return channel_for_people(cells, people)

    monkeypatch.setattr(hide_among_module, "channel_for_people", watched)
    return found


def other_noise_key(keys: SecretKeys) -> SecretKeys:
    return replace(new_keys(), tokens=keys.tokens)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"cells": 1}, r"--hide-among 40 and cells of SHA-256 \w{12}, .* given --hide-among 40 and cells of"),
        ({"hide_among": 50}, r"made with --hide-among 40 .* given --hide-among 50 .* or add --redraw-noise"),
        ({"epoch": "30m", "redraw_noise": True}, "made with --epoch 1h, and the service is given --epoch 30m"),
        ({"hide_among": 50, "redraw_noise": True, "keys": other_noise_key}, "the key of the noise is not the one"),
        ({"hide_among": 50, "redraw_noise": True, "intervals": Path("none.json")}, "the intervals file none.json"),
    ],
    ids=["cells", "people", "epoch", "noise key", "intervals"],
)
def test_a_store_that_is_refused_stays_as_it_is(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any], words: str
) -> None:
    """Neither another identity nor another channel is kept, and the channel is not even calibrated."""
    options: dict[str, Any] = {"keys": new_keys(), "clock": Clock(), "hide_among": 40, "cells": files[0]}
    with running(in_folder(tmp_path), **options):
        pass
    before, calibrated = settings_kept(tmp_path), calibrates(monkeypatch)
    changed = {**options, **other, "cells": files[other.get("cells", 0)]}
    changed["keys"] = other["keys"](options["keys"]) if "keys" in other else options["keys"]
    with pytest.raises(NearveilError, match=words), running(in_folder(tmp_path), **changed):
        pass
    assert calibrated == []
    assert settings_kept(tmp_path) == before
    # With what it was made with, it goes on, and the channel of the store is used.
    with running(in_folder(tmp_path), **options) as place:
        assert "drawn anew" not in place.call("GET", "/v1/guarantee").json()["text"]


def test_a_number_that_the_cells_do_not_hold_leaves_a_new_store_free(files: tuple[Path, Path], tmp_path: Path) -> None:
    options: dict[str, Any] = {"keys": new_keys(), "cells": files[0]}
    with (
        pytest.raises(UsageError, match="fewer than the 5,000"),
        running(in_folder(tmp_path), hide_among=5000, **options),
    ):
        pass
    assert settings_kept(tmp_path) == {}
    with running(in_folder(tmp_path), hide_among=40, **options):
        pass


def test_a_process_with_other_cells_takes_no_more_reports(files: tuple[Path, Path], tmp_path: Path) -> None:
    keys, clock = new_keys(), Clock()
    with running(in_folder(tmp_path), keys=keys, clock=clock, hide_among=40, cells=files[0]) as place:
        place.add("ann")
        report(place)
        settings = Settings.load(None, {}, {"hide_among": 40, "cells": files[1], "region": "san-francisco"})
        other = settings.protection()
        assert redraw_noise(place.service.store, other, keys, [0])
        with pytest.raises(UsageError, match="made with --hide-among 40"):
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
        assert "locations published before" in place.call("GET", "/v1/guarantee").json()["text"]
        assert len(place.nearby()) == 10
