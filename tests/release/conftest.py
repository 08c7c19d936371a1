"""Files in small batches, so that few rows make many of them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from nearveil.types import FloatArray

Batches = Callable[[int], None]


@pytest.fixture
def batches_of(monkeypatch: pytest.MonkeyPatch) -> Batches:
    """Make readers give so many rows at a time (CSV: so many bytes of some 30 a row)."""

    def set_rows(rows: int) -> None:
        monkeypatch.setattr("nearveil.io.parquet_file._BATCH_ROWS", rows)
        monkeypatch.setattr("nearveil.io.parquet_file._LEAST_BATCH_ROWS", 1)
        monkeypatch.setattr("nearveil.io.csv_file._BLOCK_BYTES", max(30 * rows, 200))

    return set_rows


def table_of(places: FloatArray) -> pa.Table:
    return pa.table({"id": np.arange(len(places)), "latitude": places[:, 0], "longitude": places[:, 1]})


def write_table(table: pa.Table, path: Path) -> Path:
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path, pyarrow.csv.WriteOptions(quoting_style="none"))
    else:
        pq.write_table(table, path, row_group_size=700)
    return path
