"""An outcome as files: the numbers are right, for machines and for people."""

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot as plt

from nearveil.errors import OutputError
from nearveil.evaluation.results import Value
from nearveil.evaluation.stats import Mean, Share
from nearveil.report.files import format_value, table_cells, table_csv, table_markdown, write_outcome
from nearveil.report.text_table import text_table
from tests.report.outcome_samples import EVIL, OUTCOME, TABLE


def test_csv_has_all_digits_and_intervals_beside_means() -> None:
    headers, *rows = csv.reader(io.StringIO(table_csv(TABLE)))
    assert headers == ["mechanism", "epsilon", "users: recall", "users: recall ±95", "users: paper", "people"]
    assert rows == [
        ["DPRS", "0.5", "0.4642", "0.0101", "0.434", "13931"],
        ["SRR", "1", "0.05", "", "", "900"],
        [EVIL, "10", "", "", "0.398", "25000"],
        ["a|b", "3", "0.4", "0.2", repr(1 / 3), "900"],
    ]


def test_csv_has_both_ends_of_the_intervals_of_shares() -> None:
    rows: tuple[tuple[Value, ...], ...] = (
        ("DPRS", 0.5, Share(0.02, 0.0065, 0.046), Mean(1.5, 0.25), 13931),
        ("SRR", 1, None, Mean(2.0, None), 900),
    )
    headers, *found = csv.reader(io.StringIO(table_csv(replace(TABLE, rows=rows))))
    share, mean = "users: recall", "users: paper"
    assert headers == [
        "mechanism",
        "epsilon",
        share,
        f"{share} 95 low",
        f"{share} 95 high",
        mean,
        f"{mean} ±95",
        "people",
    ]
    assert found == [
        ["DPRS", "0.5", "0.02", "0.0065", "0.046", "1.5", "0.25", "13931"],
        ["SRR", "1", "", "", "", "2.0", "", "900"],
    ]


def test_numbers_of_numpy_are_written_as_any_others() -> None:
    row: tuple[Any, ...] = ("x", np.float64(0.1), Mean(np.float64(0.25), np.float64(0.5)), None, np.int64(7))
    table = replace(TABLE, rows=(row,))
    assert table_csv(table).splitlines()[1] == "x,0.1,0.25,0.5,,7"
    assert table_cells(table)[1] == [["x", "0.1", "0.250 ± 0.500", "", "7"]]


@pytest.mark.parametrize(
    ("value", "form", "words"),
    [
        (Mean(0.4642, 0.0101), ".3f", "0.464 ± 0.010"),
        (Mean(0.4642, None), ".2f", "0.46"),
        (Mean(1234.5, 20.2), ",d", "1,234 ± 20"),
        (Share(0.95, 0.7513, 0.9987), ".3f", "0.950 (0.751–0.999)"),
        (Share(0.25, 0.1, 0.5), ".0%", "25% (10%–50%)"),
        (10, ".3f", "10"),
        (13931, ",.1f", "13,931"),
        (13931, ",d", "13,931"),
        (0.5, "g", "0.5"),
        (0.25, ".0%", "25%"),
        (float("inf"), ".3f", "∞"),
        (0, ".3f", "0"),
        (0.0, ".1f", "0.0"),
        ("0.5 ± 1", ".3f", "0.5 ± 1"),
        (None, ".3f", ""),
    ],
)
def test_values_as_people_read_them(value: Value, form: str, words: str) -> None:
    assert format_value(value, form) == words


def test_markdown_tells_the_whole_story() -> None:
    text = table_markdown(OUTCOME, TABLE)
    lines = text.splitlines()
    assert lines[0] == "# Table 3: recall"
    assert "Recall of <everything>" in lines
    assert "| mechanism | epsilon | users: recall | users: paper | people |" in lines
    assert "| DPRS | 0.5 | 0.464 ± 0.010 | 0.434 | 13,931 |" in lines
    # A bar in a cell is no border, and None is nothing.
    assert "| a\\|b | 3 | 0.400 ± 0.200 | 0.333 | 900 |" in lines
    assert "| SRR | 1 | 0.050 |  | 900 |" in lines
    assert lines.index("5 runs; k = 10.") < lines.index("- DPRS keeps most.")


def test_cells_can_be_printed() -> None:
    assert "DPRS" in text_table(*table_cells(TABLE))


def test_everything_is_written_and_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    written = write_outcome(OUTCOME, folder)
    assert [path.name for path in written] == ["recall.csv", "recall.md", "recall_chart.png", "city_map.png"]
    assert sorted(folder.iterdir()) == sorted(written)
    assert written[0].read_bytes() == table_csv(TABLE).encode()
    for path in written[2:]:
        assert plt.imread(path).std() > 0.05
    before = [path.read_bytes() for path in written]
    written[0].write_text("old", encoding="utf-8")
    assert [path.read_bytes() for path in write_outcome(OUTCOME, folder)] == before


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="choose another"):
        write_outcome(OUTCOME, tmp_path / "file")
