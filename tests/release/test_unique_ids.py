"""Ids that repeat are found wherever they are; ids that do not are not suspected."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearveil.release import unique_ids
from nearveil.release.unique_ids import first_repeat


def expected(values: list[object]) -> tuple[int, int] | None:
    seen: dict[object, int] = {}
    for row, value in enumerate(values, start=1):
        if value in seen:
            return seen[value], row
        seen[value] = row
    return None


def in_batches(ids: pa.Array, size: int) -> list[pa.ChunkedArray]:
    return [pa.chunked_array([ids[start : start + size]]) for start in range(0, len(ids), size)]


@given(
    values=st.lists(st.one_of(st.integers(-5, 20), st.integers(-(2**62), 2**62)), min_size=1, max_size=30),
    size=st.integers(1, 9),
    text=st.booleans(),
)
def test_as_a_dictionary_would_say(values: list[int], size: int, text: bool) -> None:
    ids = pa.array([str(value) for value in values]) if text else pa.array(values)
    assert first_repeat(in_batches(ids, size)) == expected(list(values))


def test_different_ids_with_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unique_ids, "_hashes", lambda ids: np.zeros(len(ids), dtype=np.int64))
    batches = in_batches(pa.array(["c", "b", "a", "e", "f"]), 2)
    assert first_repeat(batches) is None
    assert first_repeat([*batches, *in_batches(pa.array(["z", "a"]), 2)]) == (3, 7)


@pytest.mark.parametrize(
    "values",
    [
        [None, "a", "b", None],
        [1.5, 2.5, 1.5],
        [True, False, True],
        [b"x", b"y", b"x"],
        [Decimal("1.5"), Decimal("2.5"), Decimal("1.5")],
        [{"a": 1}, {"a": 2}, {"a": 1}],
        [[1, 2], [1, 3], [1, 2]],
        ["one"] * 40,
    ],
)
def test_ids_of_any_type(values: list[object]) -> None:
    again = next(row for row, value in enumerate(values) if value in values[:row])
    assert first_repeat(in_batches(pa.array(values), 2)) == (values.index(values[again]) + 1, again + 1)
    assert first_repeat(in_batches(pa.array(values[:again]), 2)) is None
