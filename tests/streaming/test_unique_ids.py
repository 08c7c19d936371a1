"""Ids that repeat are found wherever they are; ids that do not are not suspected."""

from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearveil.nearby.siphash import split_key
from nearveil.streaming import unique_ids
from nearveil.streaming.id_words import id_words, in_order
from nearveil.streaming.unique_ids import UniqueIds

KEY = split_key(bytes(range(16)))


def first_repeat(batches: list[pa.Array]) -> tuple[int, int] | None:
    found, reads = UniqueIds(), []

    def again() -> Iterator[pa.ChunkedArray]:
        reads.append(1)
        return iter([pa.chunked_array([batch]) for batch in batches])

    for column in again():
        found.take(found.look(column))
    return found.first_repeat(again)


def expected(values: list[object]) -> tuple[int, int] | None:
    seen: dict[object, int] = {}
    for row, value in enumerate(values, start=1):
        if value in seen:
            return seen[value], row
        seen[value] = row
    return None


@given(
    values=st.lists(st.one_of(st.integers(-5, 20), st.integers(-(2**62), 2**62)), min_size=1, max_size=30),
    size=st.integers(1, 9),
    text=st.booleans(),
)
def test_as_a_dictionary_would_say(values: list[int], size: int, text: bool) -> None:
    ids = pa.array([str(value) for value in values]) if text else pa.array(values)
    batches = [ids[start : start + size] for start in range(0, len(ids), size)]
    assert first_repeat(batches) == expected(list(values))


@pytest.mark.parametrize("kind", ["int64", "uint64", "string", "large_string", "binary", "float64"])
def test_order_across_batches_is_not_taken_for_granted(kind: str) -> None:
    """Each batch rises, the file does not: the last batch repeats an id of the first."""
    values = [[1, 5, 9], [10, 20, 30], [2, 3, 5]]
    batches = [pa.array(part).cast(pa.int64()) for part in values]
    if kind in ("string", "large_string", "binary"):
        batches = [pa.array([str(value) for value in part]).cast(kind) for part in values]
    else:
        batches = [batch.cast(kind) for batch in batches]
    assert first_repeat(batches) == (2, 9)
    assert first_repeat(batches[:2]) is None


def test_other_types_and_missing_ids() -> None:
    decimals = pa.array([Decimal("1.10"), Decimal("2.20"), Decimal("1.10")])
    assert first_repeat([decimals]) == (1, 3)
    assert first_repeat([pa.array(["a", None]), pa.array(["b", None])]) == (2, 4)
    assert first_repeat([pa.array([3, None, 1])]) is None
    coded = pa.array(["x", "y", "x"]).dictionary_encode()
    assert first_repeat([coded]) == (1, 3)
    assert first_repeat([pa.array([{"a": 1}, {"a": 2}, {"a": 3}])]) is None


def test_the_same_bits_by_chance_are_no_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unique_ids, "id_words", lambda ids, _key: np.zeros(len(ids), dtype=np.uint64))
    batches = [pa.array(["c", "b"]), pa.array(["a", "e"]), pa.array(["f", "d"])]
    assert first_repeat(batches) is None
    assert first_repeat([*batches, pa.array(["z", "a"])]) == (3, 8)


def test_text_in_order_costs_nothing() -> None:
    """Shorter first, then by letter: what counts up is in order, with leading zeros or without."""
    for texts in (["9", "10", "11", "100"], ["007", "008", "010"], ["a", "b", "aa"], ["ä", "ö"]):
        assert in_order(pa.array(texts))
    for mixed in (["10", "9"], ["a", "a"], ["b", "a"], ["a", None]):
        assert not in_order(pa.array(mixed))
    assert in_order(pa.array(["x", "9", "10", "y"])[1:3])


def test_equal_ids_have_equal_bits_whatever_array_they_are_in() -> None:
    texts = ["", "a", "long enough to fill words", "ü"]
    whole = id_words(pa.array(texts), KEY)
    assert (id_words(pa.array(["x", *texts])[1:], KEY) == whole).all()
    assert (id_words(pa.array(texts, pa.large_string()), KEY) == whole).all()
    assert len(set(whole.tolist())) == 4
