"""No trace of a true location gets through: not in other columns, members or metadata."""

import base64
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearveil.errors import DataError
from nearveil.io import readers
from nearveil.io.readers import open_source
from tests.io.samples import MOVED, geojson, geoparquet, publish, write


@pytest.mark.parametrize("target", ["out.csv", "out.jsonl", "out.geojson", "out.parquet", "out.geoparquet"])
def test_nothing_of_the_input_but_the_columns_named(target: str, tmp_path: Path) -> None:
    """Boxes, metadata, members beside the properties and columns that nobody named stay behind."""
    traces = (b"bbox", b"secret", b"122.4", b"37.7", b"37.8", np.float64(37.7).tobytes(), np.float64(-122.5).tobytes())
    source = geoparquet(tmp_path / "in.parquet")
    assert all(trace in source.read_bytes() for trace in traces)
    published = publish(source, tmp_path / target, "id", points=MOVED).read_bytes()
    assert not any(trace in published for trace in traces)
    source = geojson(tmp_path / "in.geojson", {"id": 1, "home": "37.7"}, {"id": 2, "home": "37.8"}, secret=1)
    published = publish(source, tmp_path / target, "id", points=MOVED, force=True).read_bytes()
    assert not any(trace in published for trace in (*traces, b"home"))


def test_metadata_within_columns_is_left_out(tmp_path: Path) -> None:
    part = pa.field("n", pa.int64(), metadata={b"stats": b"centroid 37.7749"})
    near = pa.field("e", pa.struct([part]), metadata={b"near": b"37.7749"})
    tensor = pa.fixed_shape_tensor(pa.int64(), (2,), dim_names=["37.7749"])
    columns = {
        "struct": pa.array([{"n": 1}] * 2, pa.struct([part])),
        "list": pa.array([[{"n": 1}, {"n": 2}]] * 2, pa.list_(near)),
        "tensor": pa.ExtensionArray.from_storage(tensor, pa.array([[1, 2]] * 2, pa.list_(pa.int64(), 2))),
        "kind": pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["a", "at 37.7749"])),
        "view": pa.array(["a", "b"], pa.string_view()),
    }
    table = pa.table({**columns, "lat": [37.7, 37.8], "lon": [-122.4, -122.5]})
    pq.write_table(table.replace_schema_metadata({b"pandas": b'{"a": 37.7749}'}), tmp_path / "in.parquet")
    publish(tmp_path / "in.parquet", tmp_path / "out.parquet", *columns, points=MOVED)
    out = pq.read_table(tmp_path / "out.parquet")
    assert set(out.schema.metadata) == {b"nearveil"}
    assert b"37.7749" not in (tmp_path / "out.parquet").read_bytes()
    assert b"37.7749" not in base64.b64decode(pq.read_metadata(tmp_path / "out.parquet").metadata[b"ARROW:schema"])
    for name, column in columns.items():
        stored = column.storage if name == "tensor" else column
        assert out[name].to_pylist() == stored.to_pylist()


@pytest.mark.parametrize(
    "line",
    [
        "ann;37.7749°;-122.4194°", "ann,37.7749 N,122.4194 W", "ann,9q8yyk8ytpxr,12 Main St",
        "ann,u33dc0cppz7d,Main St", "ann~37.7749 N", "ann,POINT Z (-122.4194 37.7749 3)",
        "ann,37° 46′ 29″,122° 25′ 10″", "37.7749°|-122.4194°|ann",
    ],
)  # fmt: skip
def test_a_first_line_of_data_is_not_shown(tmp_path: Path, line: str) -> None:
    with pytest.raises(DataError, match="columns=") as caught:
        open_source(write(tmp_path / "in.csv", f"{line}\n{line}\n"))
    assert not any(part in str(caught.value) for part in ("37.77", "122.4", "46", "9q8", "u33", "Main", "ann"))


@pytest.mark.parametrize("block", [1 << 20, 90])
@pytest.mark.parametrize(
    "rows",
    [
        ['1,37.7,-122.4,"cut', "2,37.8,-122.5,b", '3,37.9,-122.6,"cut'],
        ['1,37.7,-122.4,"cut', '2,37.8,-122.5,"b"', '3,37.9,-122.6,"c'],
        ['1,37.7,-122.4,"cut ""a"" b', '2,37.8,-122.5,""', '3,37.9,-122.6,"c'],
    ],
)
def test_a_row_is_not_published_as_part_of_another(
    rows: list[str], block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two quotation marks without an end make one value of the rows between them, true locations and all."""
    monkeypatch.setattr(readers, "_BLOCK_BYTES", block)
    whole = ["0,37.7,-122.4,whole"] * 9
    text = "\n".join(["id,lat,lon,note", *whole, *rows, *whole])
    with pytest.raises(DataError, match="a quotation mark without an end"):
        list(open_source(write(tmp_path / "in.csv", text)).batches(["note"]))


def test_quotation_marks_that_are_right(tmp_path: Path) -> None:
    notes = ["two\nlines", 'say "no"', '"', 'a\n""b"\n', "", "end,", '\n"\n']
    lines = [
        "note,lat,lon",
        *('"' + note.replace('"', '""') + '",37.7,-122.4' for note in notes),
        'a "b" c,1,2',
        "5 ' x,1,2",
    ]
    (batch,) = open_source(write(tmp_path / "in.csv", "\r\n".join(lines))).batches(["note"])
    assert batch.table["note"].to_pylist() == [*notes, 'a "b" c', "5 ' x"]
