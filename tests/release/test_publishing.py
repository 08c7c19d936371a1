"""A stream through a mechanism: what is published does not depend on how the file was cut."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nearveil.errors import DataError
from nearveil.io.files import open_people, people_writer, read_people
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.intervals import Intervals
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.mechanisms.srr import SRR
from nearveil.randomness import NumberedRows
from nearveil.region import Region
from nearveil.release.publishing import Published, publish_stream
from nearveil.release.unique_ids import PeopleWatch
from nearveil.types import FloatArray
from tests.release.conftest import Batches, table_of, write_table

KEY = b"sixteen bytes ok"


@pytest.fixture
def same_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearveil.release.publishing.stream_key", lambda _: KEY)


@pytest.fixture(scope="module")
def intervals(city: FloatArray) -> Intervals:
    return DPRS(centres=60, region="san-francisco", seed=1).fit(city).intervals_


def publish(source: Path, output: Path, mechanism: Mechanism, *, clip: bool = False, force: bool = False) -> Published:
    stream = open_people(source)
    watch = PeopleWatch(stream.carried, None, per_row=False)
    with people_writer(output, force=force) as writer:
        return publish_stream(stream, mechanism, writer, watch, shuffle=None, clip=clip)


@pytest.mark.parametrize("release", ["metric", "interval", "paper", "planar"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_batches_of_any_size_publish_what_one_would(
    release: str, suffix: str, city: FloatArray, intervals: Intervals, tmp_path: Path, batches_of: Batches,
    same_key: None,
) -> None:  # fmt: skip
    mechanism: Mechanism = PlanarLaplace(region="san-francisco")
    if release != "planar":
        mechanism = DPRS(release=release, intervals=intervals)  # type: ignore[arg-type]
    source = write_table(table_of(city), tmp_path / f"in{suffix}")
    expected = mechanism.perturb_rows(city, NumberedRows(KEY, 0, len(city)))
    for rows in (37, 701, 10**6):
        batches_of(rows)
        found = publish(source, tmp_path / f"{rows}{suffix}", mechanism)
        again = read_people(tmp_path / f"{rows}{suffix}")
        assert (again.points == expected).all()
        assert [int(value) for value in again.carried["id"].to_pylist()] == list(range(len(city)))
        assert (found.rows, found.clipped) == (len(city), 0)
    assert (again.points != city.round(6)).any(axis=1).mean() > 0.5


def test_a_seed_gives_what_perturb_gives(city: FloatArray, tmp_path: Path, batches_of: Batches) -> None:
    source = write_table(table_of(city), tmp_path / "in.parquet")
    for mechanism in (PlanarLaplace(seed=5), SRR(seed=5, region="san-francisco")):
        batches_of(300)
        output = tmp_path / f"{type(mechanism).__name__}.parquet"
        publish(source, output, mechanism)
        assert (read_people(output).points == mechanism.perturb(city)).all()


def test_two_releases_differ(city: FloatArray, tmp_path: Path) -> None:
    source = write_table(table_of(city), tmp_path / "in.parquet")
    for name in ("a.parquet", "b.parquet"):
        publish(source, tmp_path / name, PlanarLaplace())
    first, second = (read_people(tmp_path / name).points for name in ("a.parquet", "b.parquet"))
    assert (first != second).any(axis=1).mean() > 0.99


FAULTS = {
    "missing": ([np.nan, -122.4], "missing or infinite"),
    "off": ([99.0, -122.4], "latitude is not between -90 and 90"),
    "outside": ([40.0, -122.4], "lies outside the region"),
    "exchanged": ([-122.4, 37.7], "exchanged"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_faults_are_counted_over_the_whole_file(
    fault: str, suffix: str, city: FloatArray, tmp_path: Path, batches_of: Batches, san_francisco: Region
) -> None:
    place, words = FAULTS[fault]
    points = city.copy()
    points[[1234, 1235, 4999]] = place
    table = table_of(points)
    source = write_table(table, tmp_path / f"in{suffix}")
    for rows in (100, 10**6):
        batches_of(rows)
        with pytest.raises(DataError, match=rf"row 1235.*{words}.*\(and 2 more rows\)"):
            publish(source, tmp_path / "out.csv", PlanarLaplace(region=san_francisco))
    assert [path.name for path in tmp_path.iterdir()] == [source.name]


def test_exchanged_columns_are_noticed_though_people_outside_may_be_clipped(
    city: FloatArray, san_francisco: Region, tmp_path: Path, batches_of: Batches
) -> None:
    points = city.copy()
    points[::50] = points[::50, ::-1]
    source = write_table(table_of(points), tmp_path / "in.parquet")
    batches_of(100)
    with pytest.raises(DataError, match=r"row 1 .*exchanged \(and 99 more rows\)"):
        publish(source, tmp_path / "out.csv", PlanarLaplace(region=san_francisco), clip=True)


def test_clipped_people_are_counted(city: FloatArray, tmp_path: Path, batches_of: Batches) -> None:
    points = city.copy()
    points[[10, 3000]] = [39.0, -122.4]
    source = write_table(table_of(points), tmp_path / "in.parquet")
    batches_of(200)
    found = publish(source, tmp_path / "out.parquet", PlanarLaplace(region="san-francisco"), clip=True)
    assert found.clipped == 2


def test_progress_counts_everybody(city: FloatArray, tmp_path: Path, batches_of: Batches) -> None:
    batches_of(333)
    stream = open_people(write_table(table_of(city), tmp_path / "in.parquet"))
    seen: list[int] = []
    with people_writer(tmp_path / "out.parquet") as writer:
        watch = PeopleWatch(stream.carried, None, per_row=True)
        publish_stream(stream, PlanarLaplace(), writer, watch, shuffle=None, progress=seen.append)
    assert sum(seen) == len(city) == stream.rows
    assert len(seen) > 10
    assert watch.several_rows


def test_ids_that_repeat_across_batches(city: FloatArray, tmp_path: Path, batches_of: Batches) -> None:
    batches_of(100)
    table = table_of(city).set_column(0, "id", pa.array([*range(4999), 17]))
    stream = open_people(write_table(table, tmp_path / "in.parquet"))
    for person, per_row in (("id", False), ("id", True), (None, False)):
        watch = PeopleWatch(stream.carried, person, per_row=per_row)
        with people_writer(tmp_path / "out.parquet", force=True) as writer:
            if person and not per_row:
                with pytest.raises(DataError, match="row 5000 has the same 'id' as row 18"):
                    publish_stream(stream, PlanarLaplace(), writer, watch, shuffle=None)
                continue
            publish_stream(stream, PlanarLaplace(), writer, watch, shuffle=None)
        assert watch.several_rows
        assert bool(watch.warnings) is (person is None)
        assert len(watch.people_by_id().carried) == (5000 if person else 0)
