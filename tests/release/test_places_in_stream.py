"""Answers about a file are those about its places in memory, kept or read again."""

from pathlib import Path

import numpy as np
import pytest

from nearveil.errors import DataError
from nearveil.io.files import open_people
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.fit_pic import PlacesInMemory
from nearveil.region import Region
from nearveil.release.fitting import PlacesInStream
from nearveil.release.unique_ids import PeopleWatch
from nearveil.types import FloatArray
from tests.release.conftest import Batches, table_of, write_table


@pytest.mark.parametrize("most_kept", [0, 1000, 10**6])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_same_whole_numbers(
    most_kept: int, suffix: str, city: FloatArray, san_francisco: Region, tmp_path: Path, batches_of: Batches
) -> None:
    batches_of(150)
    stream = open_people(write_table(table_of(city), tmp_path / f"in{suffix}"))
    found = PlacesInStream(stream, san_francisco, most_kept=most_kept)
    whole = PlacesInMemory(city, san_francisco)
    assert len(found) == len(whole)
    assert not found.all_in_one_place
    centres = np.random.default_rng(2).uniform(-0.7, 0.7, (30, 2))
    assert (found.sums_around(centres) == whole.sums_around(centres)).all()
    assert (found.counts_in_cells(20, 30) == whole.counts_in_cells(20, 30)).all()


@pytest.mark.parametrize("method", ["pic", "private-grid"])
def test_a_seeded_fit_is_the_same(
    method: str, city: FloatArray, san_francisco: Region, tmp_path: Path, batches_of: Batches
) -> None:
    batches_of(999)
    stream = open_people(write_table(table_of(city), tmp_path / "in.parquet"))
    fitted = [
        DPRS(centres=50, rounds=3, fit_method=method, seed=4, region="san-francisco").fit(people).intervals_  # type: ignore[arg-type]
        for people in (city, PlacesInStream(stream, san_francisco))
    ]
    assert (fitted[0].centres == fitted[1].centres).all()


def test_one_place_and_faults(city: FloatArray, san_francisco: Region, tmp_path: Path, batches_of: Batches) -> None:
    batches_of(100)
    one = open_people(write_table(table_of(np.tile(city[:1], (1000, 1))), tmp_path / "one.parquet"))
    assert PlacesInStream(one, san_francisco).all_in_one_place
    for apart in (slice(500, 1000), slice(350, 351)):
        places = np.tile(city[:1], (1000, 1))
        places[apart] = city[1]
        two = open_people(write_table(table_of(places), tmp_path / "two.parquet"))
        assert not PlacesInStream(two, san_francisco).all_in_one_place
    points = city.copy()
    points[[700, 4000]] = [40.0, -122.4]
    far = open_people(write_table(table_of(points), tmp_path / "far.parquet"))
    with pytest.raises(DataError, match=r"row 701 lies outside .*\(and 1 more row\)"):
        PlacesInStream(far, san_francisco)
    expected = PlacesInMemory(san_francisco.clip(points), san_francisco)
    centres = np.random.default_rng(2).uniform(-0.7, 0.7, (30, 2))
    for most_kept in (0, 10**6):
        clipped = PlacesInStream(far, san_francisco, clip=True, most_kept=most_kept)
        assert (clipped.counts_in_cells(9, 9) == expected.counts_in_cells(9, 9)).all()
        # Cells at the edge also count who is beyond; sums tell the difference.
        assert (clipped.sums_around(centres) == expected.sums_around(centres)).all()


def test_people_are_watched_on_the_way(
    city: FloatArray, san_francisco: Region, tmp_path: Path, batches_of: Batches
) -> None:
    batches_of(500)
    table = table_of(city).append_column("user_id", [[row // 2 for row in range(5000)]])
    stream = open_people(write_table(table, tmp_path / "in.csv"))
    watch = PeopleWatch(stream.carried, "user_id", per_row=False)
    PlacesInStream(stream, san_francisco, watch)
    with pytest.raises(DataError, match="row 2 has the same 'user_id' as row 1"):
        watch.finish()
