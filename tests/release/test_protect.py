"""`protect_file` and `protect_frame`: what ``nearveil protect`` does, from Python."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from nearveil import (
    DPRS,
    CellPlan,
    HideAmong,
    PlanarLaplace,
    ReadOptions,
    Region,
    cells_from_points,
    fit_cells,
    fit_intervals,
    protect_file,
    protect_frame,
)
from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.base import Mechanism
from nearveil.privacy.guarantee import Notion
from nearveil.privacy.ledger import Budget, Ledger
from nearveil.privacy.ledger.budget import OverspentError
from nearveil.release import publishing
from nearveil.sphere import great_circle_m
from nearveil.types import FloatArray
from tests.release.conftest import Batches, write_table
from tests.release.conftest import table_of as table_of_places

KINDS = ["arrow", "pandas", "polars", "geopandas"]


@pytest.fixture
def table(city: FloatArray) -> pa.Table:
    places = city[:400]
    names = [f"person {number}" for number in np.random.default_rng(1).permutation(len(places))]
    return pa.table({"name": names, "latitude": places[:, 0], "age": [30] * len(places), "longitude": places[:, 1]})


@pytest.fixture
def people_csv(table: pa.Table, tmp_path: Path) -> Path:
    table.rename_columns(["id", *table.column_names[1:]]).to_pandas().to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def frame_of(table: pa.Table, kind: str) -> Any:
    if kind == "arrow":
        return table
    if kind == "polars":
        return pl.DataFrame(table)
    frame = table.to_pandas()
    if kind == "pandas":
        return frame
    points = geopandas.points_from_xy(frame.pop("longitude"), frame.pop("latitude"), crs="EPSG:4326")
    return geopandas.GeoDataFrame(frame, geometry=points).to_crs("EPSG:3857").rename_geometry("home")


def table_of(frame: Any) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pl.DataFrame):
        return frame.to_arrow()
    if isinstance(frame, geopandas.GeoDataFrame):
        degrees = frame.geometry.to_crs("EPSG:4326")
        frame = pd.DataFrame(frame.drop(columns=frame.geometry.name)).assign(latitude=degrees.y, longitude=degrees.x)
    return pa.Table.from_pandas(frame, preserve_index=False)


def places_by_name(table: pa.Table) -> dict[str, tuple[float, float]]:
    return {row["name"]: (row["latitude"], row["longitude"]) for row in table.to_pylist()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_comes_back_as_its_kind_with_its_columns(kind: str, table: pa.Table) -> None:
    frame = frame_of(table, kind)
    published = protect_frame(frame, PlanarLaplace(noise_m=500))
    assert type(published) is type(frame)
    assert list(getattr(published, "column_names", published.columns)) == list(
        getattr(frame, "column_names", frame.columns)
    )
    true, moved = places_by_name(table), places_by_name(table_of(published))
    assert true.keys() == moved.keys()
    apart = great_circle_m(np.array(list(true.values())), np.array([moved[name] for name in true]))
    # The mean of 400 lengths of mean 500 m and standard deviation 354 m: outside by chance once in 10^8.
    assert 400 < apart.mean() < 600
    assert apart.min() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_a_frame_is_random_unless_it_is_kept(kind: str, table: pa.Table) -> None:
    frame, names = frame_of(table, kind), table.column("name").to_pylist()
    assert table_of(protect_frame(frame)).column("name").to_pylist() != names
    with pytest.warns(UserWarning, match="order of the rows is kept"):
        assert table_of(protect_frame(frame, keep_order=True)).column("name").to_pylist() == names


def test_a_pandas_index_tells_no_order(table: pa.Table) -> None:
    frame = table.to_pandas().set_index(np.arange(1000, 1400))
    assert list(protect_frame(frame).index) == list(range(400))
    with pytest.warns(UserWarning, match="order of the rows is kept"):
        kept = protect_frame(frame, keep_order=True)
    assert list(kept.index) == list(range(1000, 1400))
    assert list(kept.columns) == list(frame.columns)


@pytest.mark.parametrize("kind", ["pandas", "geopandas"])
def test_an_index_that_is_kept_is_checked_as_a_column_is(kind: str, table: pa.Table) -> None:
    frame, places = frame_of(table, kind), table.to_pandas()
    frame.index = pd.MultiIndex.from_arrays([places["latitude"], places["age"]], names=["a", "b"])
    with pytest.raises(DataError, match="'index level 0' holds a second exact location"):
        protect_frame(frame, keep_order=True)
    assert list(protect_frame(frame).index) == list(range(400))
    frame.index = pd.MultiIndex.from_arrays([places["name"], places["age"]], names=["a", "b"])
    with pytest.warns(UserWarning, match="order of the rows is kept"):
        kept = protect_frame(frame, keep_order=True)
    assert kept.index.equals(frame.index)
    assert kept.index.names == ["a", "b"]


@pytest.mark.parametrize("column", ["latitude", "note"])
def test_what_cannot_be_carried_is_said_without_a_place(column: str, table: pa.Table) -> None:
    frame = table.to_pandas()
    frame[column] = pd.Series([37.771111, "37.752222N", *[37.7] * 398], dtype=object)
    with pytest.raises(DataError, match=f"column '{column}' mixes types") as caught:
        protect_frame(frame)
    assert "752222" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_slice_brings_no_other_rows_along(table: pa.Table) -> None:
    with pytest.warns(UserWarning, match="order of the rows is kept"):
        kept = protect_frame(table.slice(3, 5), keep_order=True)
    others = set(table.column("name").to_pylist()) - set(kept.column("name").to_pylist())
    assert not any(name.encode() in pickle.dumps(kept) for name in others if len(name) == len("person 100"))


def test_coordinates_of_a_projection_are_a_second_location(table: pa.Table) -> None:
    frame = frame_of(table, "geopandas").head(3)
    with pytest.raises(DataError, match="'x_m' holds a second exact location"):
        protect_frame(frame.assign(x_m=frame.geometry.x))


def test_what_is_not_covered_is_said_of_a_frame_too(table: pa.Table) -> None:
    with pytest.warns(UserWarning, match="this protects nobody"):
        protect_frame(table, PlanarLaplace(seed=1))
    with pytest.warns(UserWarning, match="the paper claims for this does not hold"):
        protect_frame(table, DPRS(release="paper", centres=5, region="san-francisco").fit(table))
    with pytest.warns(UserWarning, match="was left out unread"):
        protect_frame(table.rename_columns(["user_id", *table.column_names[1:]]), read=ReadOptions(drop=("user_id",)))


def test_a_mechanism_that_publishes_somebody_elses_place_is_refused(table: pa.Table) -> None:
    class FirstForAll(PlanarLaplace):
        def draw(self, x: FloatArray, rows: Any) -> FloatArray:
            return np.tile(x[:1], (len(x), 1))

    with pytest.raises(UsageError, match="rows draw different places"):
        protect_frame(table, FirstForAll())


def test_a_frame_in_another_crs_comes_back_in_it(table: pa.Table) -> None:
    frame = frame_of(table, "geopandas")
    published = protect_frame(frame)
    assert published.crs == frame.crs
    assert published.geometry.name == "home"


def test_a_frame_says_what_is_suspicious_about_it(table: pa.Table) -> None:
    twice = table.append_column("user_id", pa.array([1] * table.num_rows))
    with pytest.warns(UserWarning, match="looks like a person's id and repeats"):
        protect_frame(twice)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        protect_frame(table)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda table: [[37.7, -122.4]], "not a frame that Nearveil knows"),
        (lambda table: table.slice(0, 0), "no rows"),
        (lambda table: table.drop_columns(["latitude", "longitude"]), "no coordinate columns"),
        (lambda table: table.append_column("home_latitude", table.column("latitude")), "a second exact location"),
    ],
)
def test_frames_that_cannot_be_protected(change: Any, sentence: str, table: pa.Table) -> None:
    with pytest.raises((DataError, UsageError), match=sentence):
        protect_frame(change(table))


def test_geo_frames_that_cannot_be_protected(table: pa.Table) -> None:
    frame = frame_of(table, "geopandas")
    with pytest.raises(DataError, match="'work' holds a second exact location"):
        protect_frame(frame.assign(work=frame.geometry))
    assert len(protect_frame(frame.assign(work=frame.geometry), read=ReadOptions(drop=("work",)))) == 400
    with pytest.raises(DataError, match=r"row 1: .*something else than a point"):
        protect_frame(frame.set_geometry(frame.geometry.buffer(10)))


def test_a_file_is_protected_in_another_region(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,latitude,longitude\nann,52.52,13.40\n")
    result = protect_file(tmp_path / "in.csv", tmp_path / "out.csv", region="52.3,13.0,52.7,13.8")
    assert result.rows == 1
    assert result.mechanism.resolved_region == Region(52.3, 13.0, 52.7, 13.8)
    assert result.to_dict()["mechanism"] == "planar-laplace"


def test_a_file_is_charged_before_it_is_there(tmp_path: Path, people_csv: Path) -> None:
    budget = Budget(notion=Notion.METRIC, epsilon=0.005, delta=1e-9, window=timedelta(days=30))
    ledger, read = Ledger(tmp_path / "ledger", [budget]), ReadOptions(person="id")
    protect_file(people_csv, tmp_path / "first.csv", read=read, ledger=ledger)
    with pytest.raises(OverspentError):
        protect_file(people_csv, tmp_path / "second.csv", read=read, ledger=ledger)
    assert not (tmp_path / "second.csv").exists()
    with pytest.raises(UsageError, match="a ledger charges people"):
        protect_file(people_csv, tmp_path / "third.csv", ledger=ledger)
    with pytest.raises(UsageError, match="a ledger charges people"):
        fit_intervals(people_csv, centres=5, ledger=ledger, region="san-francisco")
    with pytest.raises(UsageError, match="a seed protects nobody"):
        protect_file(people_csv, tmp_path / "third.csv", PlanarLaplace(seed=1), read=read, ledger=ledger)
    with pytest.raises(UsageError, match="a seed protects nobody"):
        fit_intervals(people_csv, centres=5, read=read, ledger=ledger, seed=1, region="san-francisco")


def test_seeded_intervals_are_said_on_the_card_and_hold_for_nobody(people_csv: Path, tmp_path: Path) -> None:
    for release in ("metric", "interval"):
        fitted = fit_intervals(people_csv, centres=5, seed=1, region="san-francisco").intervals
        mechanism = DPRS(release=release, intervals=fitted)
        result = protect_file(people_csv, tmp_path / f"{release}.csv", mechanism, read=ReadOptions(clip=True))
        assert "The intervals were drawn from a seed." in result.guarantee.card()
        assert result.to_dict()["holds_for_these_people"] is None


# A few largest boxes, so that the noise of their sum cannot hide that there are 400 people.
WIDE: dict[str, Any] = {"hide_among": 100, "largest_cell_m": 20_000.0, "region": "san-francisco"}


def test_cells_are_paid_for_before_they_are_refused(people_csv: Path, tmp_path: Path) -> None:
    budget = Budget(notion=Notion.CENTRAL, epsilon=1.5, delta=1e-6, window=timedelta(days=1))
    ledger, read = Ledger(tmp_path / "ledger", [budget]), ReadOptions(person="id")
    for refusal in (UsageError, OverspentError):
        with pytest.raises(refusal):
            fit_cells(people_csv, hide_among=100_000, read=read, ledger=ledger, region="san-francisco")


@pytest.fixture
def fits_ledger(tmp_path: Path) -> Ledger:
    """A budget for one fit at 1 and not for two, and for releases at up to 0.5 per step."""
    central = Budget(notion=Notion.CENTRAL, epsilon=1.5, delta=1e-6, window=timedelta(days=1))
    elastic = Budget(notion=Notion.ELASTIC, epsilon=0.5, delta=1e-6, window=timedelta(days=1))
    return Ledger(tmp_path / "ledger", [central, elastic])


FEW_CELLS = 8
REFUSED_AFTER_THE_FIT: list[tuple[str, Callable[[], Mechanism]]] = [
    ("fewer than the 100,000 to hide among", lambda: HideAmong(100_000, region="san-francisco")),
    (f"more than {FEW_CELLS} cells", lambda: HideAmong(**{**WIDE, "hide_among": 2})),
    ("the elastic budget", lambda: HideAmong(**WIDE)),
    ("fewer than two intervals", lambda: DPRS(epsilon=1, centres=5, least_radius_m=9e4, region="san-francisco")),
]


@pytest.mark.parametrize(("sentence", "mechanism"), REFUSED_AFTER_THE_FIT)
def test_what_is_refused_after_a_fit_is_paid_for_first(
    people_csv: Path, tmp_path: Path, fits_ledger: Ledger, monkeypatch: pytest.MonkeyPatch, sentence: str,
    mechanism: Callable[[], Mechanism],
) -> None:  # fmt: skip
    """The refusal tells something of the people; the second time there is no budget for that, and it is not told."""
    if "cells" in sentence:
        monkeypatch.setattr("nearveil.mechanisms.fit_cells.MOST_CELLS", FEW_CELLS)
    arguments: dict[str, Any] = {"read": ReadOptions(person="id"), "ledger": fits_ledger}
    with pytest.raises((UsageError, OverspentError), match=sentence):
        protect_file(people_csv, tmp_path / "out.csv", mechanism(), **arguments)
    assert [event.epsilon for event in fits_ledger.history("person 3")] == [1.0]
    with pytest.raises(OverspentError, match="the central budget") as refused:
        protect_file(people_csv, tmp_path / "out.csv", mechanism(), **arguments)
    assert refused.value.__context__ is None
    assert len(fits_ledger.history("person 3")) == 1
    assert not (tmp_path / "out.csv").exists()


def test_a_fit_that_makes_too_many_cells_is_paid_for(
    people_csv: Path, fits_ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearveil.mechanisms.fit_cells.MOST_CELLS", FEW_CELLS)
    with pytest.raises(UsageError, match=f"more than {FEW_CELLS} cells"):
        fit_cells(people_csv, **{**WIDE, "hide_among": 2}, read=ReadOptions(person="id"), ledger=fits_ledger)
    assert [event.epsilon for event in fits_ledger.history("person 3")] == [1.0]


def test_what_is_refused_before_noise_is_drawn_costs_nothing(
    people_csv: Path, tmp_path: Path, fits_ledger: Ledger
) -> None:
    """One place for everybody, ids that repeat or a notion without a budget: nothing was learned of anybody."""
    same = tmp_path / "same.csv"
    same.write_text("id,latitude,longitude\nann,37.71,-122.41\nben,37.71,-122.41\n")
    twice = tmp_path / "twice.csv"
    twice.write_text("id,latitude,longitude\nann,37.71,-122.41\nann,37.72,-122.42\n")
    mechanism, read = HideAmong(2, region="san-francisco"), ReadOptions(person="id")
    for source, sentence in ((same, "all rows hold the same location"), (twice, "has the same 'id' as row 1")):
        with pytest.raises(DataError, match=sentence):
            protect_file(source, tmp_path / "out.csv", mechanism, read=read, ledger=fits_ledger)
    central = Budget(notion=Notion.CENTRAL, epsilon=1.5, delta=1e-6, window=timedelta(days=1))
    ledger = Ledger(tmp_path / "other ledger", [central])
    with pytest.raises(UsageError, match="no budget for the elastic notion"):
        protect_file(people_csv, tmp_path / "out.csv", HideAmong(**WIDE), read=read, ledger=ledger)
    assert ledger.history("person 3") == fits_ledger.history("ann") == ()


def test_a_refused_release_whose_cost_was_known_leaves_the_fit_unpaid(people_csv: Path, tmp_path: Path) -> None:
    """The loss per step is given, so the refusal tells nothing of the cells, which nobody will see."""
    budgets = [
        Budget(notion=notion, epsilon=1.5, delta=1e-6, window=timedelta(days=1))
        for notion in (Notion.CENTRAL, Notion.ELASTIC)
    ]
    ledger = Ledger(tmp_path / "ledger", budgets)
    with pytest.raises(OverspentError, match="the elastic budget"):
        protect_file(
            people_csv, tmp_path / "out.csv", HideAmong(**WIDE, epsilon=2), read=ReadOptions(person="id"), ledger=ledger
        )
    assert ledger.history("person 3") == ()


def test_cells_are_fitted_charged_and_used(people_csv: Path, city: FloatArray, tmp_path: Path) -> None:
    """One fit at 1 fits into a central budget of 1.5; seeded or anonymous people are not charged."""
    budget = Budget(notion=Notion.CENTRAL, epsilon=1.5, delta=1e-6, window=timedelta(days=1))
    ledger, read = Ledger(tmp_path / "ledger", [budget]), ReadOptions(person="id")
    fitted = fit_cells(people_csv, read=read, ledger=ledger, **WIDE)
    assert fitted.guarantee == fitted.cells.guarantee()
    assert (fitted.guarantee.epsilon, fitted.cells.unit) == (1.0, "person")
    with pytest.raises(OverspentError):
        fit_cells(people_csv, read=read, ledger=ledger, **WIDE)
    with pytest.raises(UsageError, match="a ledger charges people"):
        fit_cells(people_csv, ledger=ledger, region="san-francisco")
    with pytest.raises(UsageError, match="a seed protects nobody"):
        fit_cells(people_csv, read=read, ledger=ledger, seed=1, region="san-francisco")
    with pytest.raises(UsageError, match="fewer than the 100,000 to hide among"):
        fit_cells(people_csv, hide_among=100_000, region="san-francisco")
    assert fit_cells(people_csv, read=ReadOptions(per_row=True), **WIDE).guarantee.unit == "per row"
    result = protect_file(people_csv, tmp_path / "out.csv", HideAmong(100, cells=fitted.cells), read=read)
    # A file of cells does not say whose they are, so that what holds for anyone includes their cost.
    assert result.to_dict()["holds_for_these_people"]["offset"] == 2.0


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_frame_hides_among_people(table: pa.Table, city: FloatArray, san_francisco: Region) -> None:
    cells = cells_from_points(city, san_francisco, CellPlan(hide_among=500))
    for mechanism in (HideAmong(500, cells=cells), HideAmong(**WIDE).fit(table)):
        published = protect_frame(table, mechanism)
        assert sorted(published["name"].to_pylist()) == sorted(table["name"].to_pylist())
        assert mechanism.guarantee.notion is Notion.ELASTIC


def test_true_figures_are_not_among_what_travels(people_csv: Path, tmp_path: Path) -> None:
    result = protect_file(people_csv, tmp_path / "out.csv")
    assert "clipped" not in repr(result)
    assert not {"clipped", "left_out"} & result.to_dict().keys()


def test_a_seed_repeats_a_file_of_many_batches_whichever_thread_comes_first(
    city: FloatArray, tmp_path: Path, batches_of: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches_of(50)
    source = write_table(table_of_places(city[:1000]), tmp_path / "in.csv")
    protect_file(source, tmp_path / "first.csv", PlanarLaplace(seed=1))

    def last_comes_first(work: Callable[[Any], Any], items: Iterator[Any]) -> Iterator[Any]:
        return reversed([work(item) for item in reversed(list(items))])

    monkeypatch.setattr(publishing, "mapped_in_order", last_comes_first)
    protect_file(source, tmp_path / "second.csv", PlanarLaplace(seed=1))
    assert (tmp_path / "first.csv").read_bytes() == (tmp_path / "second.csv").read_bytes()


def test_a_region_in_a_file_is_read_once(city: FloatArray, tmp_path: Path) -> None:
    """It may change, or go, while people are moved; all of them are to be moved within one region."""
    area = tmp_path / "area.geojson"
    corners = [[-122.6, 37.5], [-122.3, 37.5], [-122.3, 37.9], [-122.6, 37.9], [-122.6, 37.5]]
    area.write_text(json.dumps({"type": "Polygon", "coordinates": [corners]}))
    mechanism = PlanarLaplace(region=str(area))
    box = mechanism.resolved_region
    area.unlink()
    inside = city[box.contains(city)]
    assert box.contains(mechanism.perturb(inside)).all()
    assert copy.copy(mechanism).resolved_region == box
