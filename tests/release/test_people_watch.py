"""Rows without a person are refused by their number in the file, and rows that are refused are not released."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from nearveil.errors import DataError
from nearveil.io.files import open_people, people_writer
from nearveil.io.people import People, PeopleWriter
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.region import Region
from nearveil.release.fitting import PlacesInStream
from nearveil.release.publishing import publish_stream
from nearveil.release.unique_ids import PeopleWatch
from nearveil.types import FloatArray
from tests.release.conftest import Batches, table_of, write_table


@pytest.mark.parametrize("missing", ["", None])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_row_without_a_person_in_a_later_batch(
    missing: str | None, suffix: str, city: FloatArray, san_francisco: Region, tmp_path: Path, batches_of: Batches
) -> None:
    batches_of(100)
    ids = [f"p{row}" for row in range(5000)]
    table = table_of(city).set_column(0, "id", pa.array([*ids[:3456], missing, *ids[3457:]]))
    stream = open_people(write_table(table, tmp_path / f"in{suffix}"))
    with (
        pytest.raises(DataError, match="row 3457 has no 'id'"),
        people_writer(tmp_path / "out.csv") as writer,
    ):
        publish_stream(stream, PlanarLaplace(), writer, PeopleWatch(stream.carried, "id", per_row=False), shuffle=None)
    with pytest.raises(DataError, match="row 3457 has no 'id'"):
        PlacesInStream(stream, san_francisco, PeopleWatch(stream.carried, "id", per_row=False))
    assert not (tmp_path / "out.csv").exists()


def test_kept_ids_are_those_of_everybody_in_order(city: FloatArray, tmp_path: Path, batches_of: Batches) -> None:
    batches_of(100)
    stream = open_people(write_table(table_of(city), tmp_path / "in.parquet"))
    watch = PeopleWatch(stream.carried, "id", per_row=False)
    with people_writer(tmp_path / "out.parquet") as writer:
        publish_stream(stream, PlanarLaplace(), writer, watch, shuffle=None)
    assert watch.people_by_id().carried["id"].to_pylist() == list(range(5000))


def test_one_row_each_is_said_though_several_are_accepted(
    city: FloatArray, tmp_path: Path, batches_of: Batches
) -> None:
    batches_of(100)
    stream = open_people(write_table(table_of(city), tmp_path / "in.parquet"))
    watch = PeopleWatch(stream.carried, "id", per_row=True)
    with people_writer(tmp_path / "out.parquet") as writer:
        publish_stream(stream, PlanarLaplace(), writer, watch, shuffle=None)
    assert not watch.several_rows


def test_structures_are_told_apart_only_if_they_are_named() -> None:
    schema = pa.schema([("id", pa.struct([("a", pa.int64())])), ("user_id", pa.int64())])
    assert PeopleWatch(schema, None, per_row=False).positions == [1]
    assert PeopleWatch(schema, "id", per_row=False).positions == [0]


class _Counted(PeopleWriter):
    """Writes nothing, and counts what it was given to prepare."""

    def __init__(self) -> None:
        self.rows = 0

    def prepared(self, people: People) -> Any:
        self.rows += len(people)

    def write(self, batch: Any) -> None: ...

    def finish(self) -> None: ...

    def abandon(self) -> None: ...


def test_nothing_is_released_once_a_row_was_refused(city: FloatArray, tmp_path: Path, batches_of: Batches) -> None:
    batches_of(100)
    points = city.copy()
    points[1] = [40.0, -122.4]
    stream, writer = open_people(write_table(table_of(points), tmp_path / "in.parquet")), _Counted()
    with pytest.raises(DataError, match="row 2 lies outside"):
        watch = PeopleWatch(stream.carried, None, per_row=False)
        publish_stream(stream, PlanarLaplace(region="san-francisco"), writer, watch, shuffle=None)
    # Batches that were begun at the same time on other cores may still be done.
    assert writer.rows < 4000
