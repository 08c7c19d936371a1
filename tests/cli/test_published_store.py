"""``fit --published-store``: cells from what a service has published, read from its store and from nothing else."""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.cells import load_cells
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.nearby.publishing.keys import SecretKeys, new_keys
from nearveil.nearby.publishing.protection import Policy, Protection, Schedule
from nearveil.nearby.publishing.publisher import Publisher
from nearveil.nearby.publishing.stated_noise import STATED_SETTING, cells_from_store
from nearveil.nearby.publishing.store_identity import check_identity, redraw_noise
from nearveil.nearby.stores import open_store
from nearveil.nearby.stores.base import Store
from nearveil.region import Region
from tests.cli.conftest import Run
from tests.cli.test_bad_input import check
from tests.services.postgres import postgis_cluster, private_database, run_sql

__all__ = ["postgis_cluster"]

pytestmark = pytest.mark.usefixtures("one_core")

TOWN = Region(47.9, 11.0, 48.1, 11.3)
OTHER_TOWN = "47.8,11.0,48.1,11.3"
SCHEDULE = Schedule(epoch=timedelta(hours=1), window=timedelta(hours=10))
CITY = synthetic_city(900, TOWN, rng=1)
WITHIN = Protection(region=TOWN, noise_m=300.0, schedule=SCHEDULE)
AMONG = Protection(region=TOWN, among=HideAmong(60, cells=cells_from_points(CITY, TOWN)), schedule=SCHEDULE)
PLAN = CellPlan(hide_among=50)
FIT = ("fit", "--hide-among", 50, "--published-store")


@pytest.fixture(params=["sqlite", "postgis"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a store can be, of either kind; nothing else is in the folder."""
    (tmp_path / "data").mkdir()
    if request.param == "sqlite":
        yield str(tmp_path / "data" / "nearveil.db")
        return
    request.getfixturevalue("postgis_cluster")
    with private_database() as found:
        yield found


def serve(
    store: Store, protection: Protection, keys: SecretKeys, *, epoch: int, people: slice, waiting: slice | None = None
) -> None:
    """Do in an epoch what a service does: people report, and are published in the next one; others then wait."""
    hours = float(epoch)
    check_identity(store, protection, keys, SCHEDULE.window_of(epoch))
    publisher = Publisher(protection, keys, store, clock=lambda: hours * 3600, always_chained=False)
    for group in (people, waiting):
        if group is not None:
            numbers = range(len(CITY))[group]
            store.add_people([f"person-{number}" for number in numbers])
            publisher.receive([publisher.accept(f"person-{number}", *CITY[number].tolist()) for number in numbers])
            if group is people:
                hours += 1
                publisher.publish_due()


def test_cells_are_those_that_the_service_makes(run: Run, address: str, tmp_path: Path) -> None:
    """In the store's own region, without a key, of published places alone, and while a service has it open."""
    with closing(open_store(address)) as store:
        serve(store, WITHIN, new_keys(SCHEDULE), epoch=0, people=slice(600), waiting=slice(600, 900))
        outcome = run(*FIT, address, tmp_path / "cells.geojson")
        assert outcome.code == 0, outcome.err
        assert "places published before" in outcome.out
        expected = cells_from_store(store, WITHIN, PLAN)
    cells = load_cells(tmp_path / "cells.geojson")
    assert cells.region.same_edges(TOWN)
    assert (cells.source, cells.is_free) == ("published", True)
    assert cells.people.sum() == pytest.approx(600)
    np.testing.assert_array_equal(cells.depths, expected.depths)
    # The service can be started with them.
    assert Protection(region=TOWN, among=HideAmong(50, cells=cells)).guarantee.epsilon > 0


def test_nothing_is_written_to_the_store(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "data" / "nearveil.db"
    path.parent.mkdir()
    with closing(open_store(str(path))) as store:
        serve(store, WITHIN, new_keys(SCHEDULE), epoch=0, people=slice(600))
    (path.parent / "nearveil.db.lock").unlink()
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    assert run(*FIT, path, tmp_path / "cells.geojson").code == 0
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert [file.name for file in path.parent.iterdir()] == ["nearveil.db"]


def test_noise_that_was_drawn_anew_counts_from_then_on(run: Run, address: str, tmp_path: Path) -> None:
    """From people to metres: only what was published in metres. From metres to people: nothing to make cells from."""
    keys = new_keys(SCHEDULE)
    with closing(open_store(address)) as store:
        serve(store, AMONG, keys, epoch=0, people=slice(300))
        check(run(*FIT, address, tmp_path / "none.geojson"), 2, "published with hide-among")
        assert redraw_noise(store, WITHIN, keys, [0])
        serve(store, WITHIN, keys, epoch=1, people=slice(300, 900))
        assert run(*FIT, address, tmp_path / "cells.geojson").code == 0
        assert load_cells(tmp_path / "cells.geojson").people.sum() == pytest.approx(600)
        # A start that changes nothing states nothing new.
        serve(store, WITHIN, keys, epoch=3, people=slice(0))
        assert run(*FIT, address, tmp_path / "again.geojson").code == 0
        assert load_cells(tmp_path / "again.geojson").people.sum() == pytest.approx(600)
        assert redraw_noise(store, AMONG, keys, [0])
        serve(store, AMONG, keys, epoch=5, people=slice(0))
        check(run(*FIT, address, tmp_path / "none.geojson"), 2, "published with hide-among")
    assert not (tmp_path / "none.geojson").exists()


@pytest.mark.parametrize(
    ("protection", "people", "code", "words"),
    [
        (AMONG, 0, 2, "published with hide-among and state no planar noise"),
        (WITHIN, 0, 3, "two published people or more"),
        (WITHIN, 1, 3, "two published people or more"),
        (WITHIN, 40, 2, "fewer than the 50"),
        (Protection(region=TOWN, policy=Policy.OFF, schedule=SCHEDULE), 100, 2, "true places"),
    ],
    ids=["among", "nobody", "one", "few", "off"],
)
def test_stores_that_are_refused(
    run: Run, tmp_path: Path, protection: Protection, people: int, code: int, words: str
) -> None:
    path = tmp_path / "nearveil.db"
    with closing(open_store(str(path))) as store:
        serve(store, protection, new_keys(SCHEDULE), epoch=0, people=slice(people), waiting=slice(people, people + 200))
    check(run(*FIT, path, tmp_path / "cells.geojson"), code, words)
    assert not (tmp_path / "cells.geojson").exists()


def test_a_store_that_states_no_noise(run: Run, address: str, tmp_path: Path) -> None:
    """One of an earlier version states it when its service is started again."""
    keys = new_keys(SCHEDULE)
    with closing(open_store(address)) as store:
        store.add_people(["person-0"])
        check(run(*FIT, address, tmp_path / "cells.geojson"), 3, "start its service once", "--published-within")
        serve(store, WITHIN, keys, epoch=0, people=slice(600))
        assert run(*FIT, address, tmp_path / "cells.geojson").code == 0
        store.keep_setting(STATED_SETTING, "{}")
        check(run(*FIT, address, tmp_path / "other.geojson"), 3, "the version that wrote it")
        check_identity(store, WITHIN, keys, 0)
        assert '"noise_m": 300.0' in (store.setting(STATED_SETTING) or "")


def test_what_is_no_store_is_left_as_it_is(run: Run, tmp_path: Path) -> None:
    output, folder = tmp_path / "cells.geojson", tmp_path / "data"
    check(run(*FIT, folder / "missing.db", output), 4, "there is no Nearveil store")
    assert not folder.exists()
    folder.mkdir()
    for name, content in (("empty.db", b""), ("text.db", b"some text\n" * 200)):
        (folder / name).write_bytes(content)
        check(run(*FIT, folder / name, output), 4, "no Nearveil store")
        assert (folder / name).read_bytes() == content
    with closing(sqlite3.connect(folder / "other.db")) as other:
        other.execute("CREATE TABLE published (x_steps, y_steps, epoch)")
    check(run(*FIT, folder / "other.db", output), 4, "another program's database")
    assert sorted(file.name for file in folder.iterdir()) == ["empty.db", "other.db", "text.db"]
    assert not output.exists()


def test_a_database_without_a_store_gets_none(run: Run, tmp_path: Path, postgis_cluster: object) -> None:
    del postgis_cluster
    with private_database() as found:
        check(run(*FIT, found, tmp_path / "cells.geojson"), 4, "there is no Nearveil store")
        run_sql(found, "CREATE SCHEMA nearveil")  # would fail if it were there


def test_a_password_is_not_repeated(run: Run, tmp_path: Path) -> None:
    for address in ("postgresql://ann:hunter2@127.0.0.1:1/people", "postgresql://ann:hunter2@[::1"):
        outcome = run(*FIT, address, tmp_path / "cells.geojson")
        check(outcome, 4)
        assert "hunter2" not in outcome.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--published", "people.csv"), "--published and --published-store both say where the cells are from"),
        (("--density", "people.csv"), "--density and --published-store both say where the cells are from"),
        (("--published-within", "500m"), "the store states its noise; leave it out"),
        (("--region", OTHER_TOWN), "the store is of the region 47.9,11,48.1,11.3"),
        (("--scaling", "per-axis"), "isotropic scaling"),
        (("--latitude", "lat"), "a store has no columns"),
        (("--clip",), "a store has no columns"),
        (("--epsilon", 1), "such cells cost nobody anything"),
        (("--population", 900), "it is for --density"),
    ],
    ids=str,
)
def test_options_that_do_not_go_with_a_store(
    run: Run, people_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[object, ...], words: str
) -> None:
    monkeypatch.chdir(people_csv.parent)
    with closing(open_store("nearveil.db")) as store:
        serve(store, WITHIN, new_keys(SCHEDULE), epoch=0, people=slice(100))
    if "--scaling" in options:
        options = (*options, "--region", "47.9,11.0,48.1,11.3")
    check(run(*FIT, "nearveil.db", "cells.geojson", *options), 2, words)
    check(run(*FIT, "nearveil.db", people_csv, "cells.geojson"), 2, "--published-store takes the place of INPUT")
    assert not (tmp_path / "cells.geojson").exists()
    assert run(*FIT, "nearveil.db", "cells.geojson", "--region", "47.9,11.0,48.1,11.3").code == 0


def test_a_store_is_never_written_over(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "store.json"
    with closing(open_store(str(path))) as store:
        serve(store, WITHIN, new_keys(SCHEDULE), epoch=0, people=slice(100))
    check(run(*FIT, path, path, "--force"), 2, "OUTPUT is the same file as --published-store")
