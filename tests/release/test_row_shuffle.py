"""Rows come out in a random order: every order alike, nobody lost, in little memory, and nothing true on disk."""

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2

from nearveil.io.files import open_people, people_writer
from nearveil.io.people import Layout, LocationColumn, People, joined_people
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.release import row_shuffle
from nearveil.release.publishing import publish_stream
from nearveil.release.row_shuffle import RowShuffle
from nearveil.release.unique_ids import PeopleWatch
from nearveil.types import FloatArray
from tests.evidence import for_evidence
from tests.release.conftest import Batches, table_of, write_table

LAYOUT = Layout(latitude=LocationColumn("lat", 1), longitude=LocationColumn("lon", 2))
NOTHING_HELD = 0


def numbered(first: int, count: int) -> People:
    """People whose columns all say the same number."""
    rows = np.arange(first, first + count)
    carried = {
        "id": pa.array(rows),
        "name": pa.array([f"person {row}" for row in rows]),
        "half": pa.array([None if row % 2 else row for row in rows.tolist()], pa.int32()),
        "kind": pa.array([f"k{row % 3}" for row in rows]).dictionary_encode(),
    }
    return People(np.column_stack([rows / 1e6, -rows / 1e6]), pa.table(carried), LAYOUT)


def shuffled(batches: list[People], shuffle: RowShuffle) -> list[People]:
    for number, batch in enumerate(batches):
        shuffle.take(shuffle.dealt(batch, number))
    return [rows.ordered() for rows in shuffle.shuffled()]


@pytest.mark.parametrize("held_bytes", [None, NOTHING_HELD, 20_000])
def test_every_row_comes_out_once_and_whole(
    held_bytes: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_shuffle, "_BUCKETS", 32)
    batches = [numbered(first, 100) for first in range(0, 1000, 100)]
    parts = shuffled(batches, RowShuffle(tmp_path, held_bytes=held_bytes))
    ids = np.concatenate([np.asarray(part.carried["id"]) for part in parts])
    assert sorted(ids) == list(range(1000))
    for part in parts:
        wanted = numbered(0, 1000).carried.to_pylist()
        assert part.carried.to_pylist() == [wanted[row] for row in part.carried["id"].to_pylist()]
        assert (part.points == np.column_stack([part.carried["id"], -np.asarray(part.carried["id"])]) / 1e6).all()
    # Neighbors were neighbors no more often than chance has it: 2 of 1,000 expected, 20 once in 10¹³.
    assert (np.abs(np.diff(ids)) == 1).sum() < 20
    assert list(tmp_path.iterdir()) == []


def orders_of_four(held_bytes: int | None, folder: Path, times: int) -> Counter[tuple[int, ...]]:
    # Their order is all that matters: a column less to write and read is time saved 800 times.
    batches = [
        People(people.points, people.carried.select(["id"]), LAYOUT) for people in (numbered(0, 3), numbered(3, 1))
    ]
    seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(times):
        parts = shuffled(batches, RowShuffle(folder, held_bytes=held_bytes))
        seen[tuple(row for part in parts for row in part.carried["id"].to_pylist())] += 1
    return seen


def is_uniform(seen: Counter[tuple[int, ...]], times: int) -> bool:
    expected = times / 24
    statistic = sum((count - expected) ** 2 for count in seen.values()) / expected + (24 - len(seen)) * expected
    return bool(statistic < chi2.isf(1e-6, 23))


@pytest.mark.statistical
@pytest.mark.parametrize("held_bytes", [None, *for_evidence(NOTHING_HELD)])
def test_all_orders_are_alike(held_bytes: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four rows, by way of three buckets, in memory and on disk. False alarms: 1 in 10⁶ each."""
    monkeypatch.setattr(row_shuffle, "_BUCKETS", 3)
    assert is_uniform(orders_of_four(held_bytes, tmp_path, 800), 800)


@pytest.mark.statistical
@pytest.mark.parametrize("broken", ["one order within buckets", "uneven buckets in a group of one"])
def test_a_poor_shuffle_is_noticed(broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail. It misses either of these once in 10⁶ or less."""
    monkeypatch.setattr(row_shuffle, "_BUCKETS", 3)
    monkeypatch.setattr(row_shuffle, "_ROWS_AT_ONCE", 1)
    if broken == "one order within buckets":
        monkeypatch.setattr(row_shuffle.UnorderedRows, "ordered", lambda self: joined_people(self.parts))
    else:
        dealt = RowShuffle.dealt

        def last_stays_last(self: RowShuffle, people: People, first_row: int) -> row_shuffle.DealtRows:
            if len(people) > 1:
                return dealt(self, people, first_row)
            return row_shuffle.DealtRows(people.taken(np.array([0])), np.array([0, 0, 0, 1]))

        monkeypatch.setattr(RowShuffle, "dealt", last_stays_last)
    assert not is_uniform(orders_of_four(None, tmp_path, 800), 800)


def test_a_large_bucket_is_dealt_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No part that is worked on at once is large, whatever the file."""
    monkeypatch.setattr(row_shuffle, "_BUCKETS", 4)
    monkeypatch.setattr(row_shuffle, "_ROWS_AT_ONCE", 50)
    batches = [numbered(first, 500) for first in range(0, 8000, 500)]
    parts = shuffled(batches, RowShuffle(tmp_path, held_bytes=60_000))
    assert max(len(part) for part in parts) < 1000
    assert sorted(row for part in parts for row in part.carried["id"].to_pylist()) == list(range(8000))


def test_a_seed_repeats_the_order_and_two_runs_differ(tmp_path: Path) -> None:
    orders = []
    for seed in (5, 5, None, None):
        parts = shuffled([numbered(0, 500)], RowShuffle(tmp_path, seed))
        orders.append([row for part in parts for row in part.carried["id"].to_pylist()])
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in orders}) == 3


@pytest.mark.parametrize("held_bytes", [None, 20_000])
def test_a_seed_repeats_the_order_whichever_batch_is_dealt_first(
    held_bytes: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_shuffle, "_BUCKETS", 4)
    batches = [numbered(first, 50) for first in range(0, 2000, 50)]
    orders = []
    for forward in (True, False):
        shuffle = RowShuffle(tmp_path, 5, held_bytes)
        numbers = range(len(batches)) if forward else reversed(range(len(batches)))
        dealt = {number: shuffle.dealt(batches[number], 50 * number) for number in numbers}
        for number in range(len(batches)):
            shuffle.take(dealt[number])
        orders.append([row for rows in shuffle.shuffled() for row in rows.ordered().carried["id"].to_pylist()])
    assert orders[0] == orders[1]


def test_the_file_on_disk_holds_published_rows_and_no_true_place(
    city: FloatArray, tmp_path: Path, batches_of: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every byte that goes to disk meanwhile is looked at."""
    batches_of(2500)
    monkeypatch.setattr(row_shuffle, "_BUCKETS", 16)
    written: list[bytes] = []
    make = tempfile.TemporaryFile

    class Kept:
        def __init__(self, **named: object) -> None:
            self._file = make(**named)  # type: ignore[call-overload]

        def __getattr__(self, name: str) -> object:
            return getattr(self._file, name)

        def write(self, rows: object) -> int:
            written.append(bytes(rows))  # type: ignore[call-overload]
            return int(self._file.write(rows))

    monkeypatch.setattr(tempfile, "TemporaryFile", Kept)
    stream = open_people(write_table(table_of(city), tmp_path / "in.parquet"))
    watch = PeopleWatch(stream.carried, None, per_row=True)
    with people_writer(tmp_path / "out.parquet") as writer:
        publish_stream(stream, PlanarLaplace(), writer, watch, shuffle=RowShuffle(tmp_path, held_bytes=NOTHING_HELD))
    # Arrow aligns numbers, so that whatever is a coordinate shows.
    on_disk = np.unique(np.frombuffer(b"".join(written), dtype=np.float64))
    published = open_people(tmp_path / "out.parquet").read_all().points
    assert np.isin(published, on_disk).all()
    assert not np.isin(city, on_disk).any()
