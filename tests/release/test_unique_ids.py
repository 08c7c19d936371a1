"""Ids that repeat are found wherever they are; ids that do not are not suspected."""

from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearveil.hashing import split_key
from nearveil.release import unique_ids
from nearveil.release.unique_ids import UniqueIds, id_hashes, in_order

KEY = split_key(bytes(range(16)))


def first_repeat(batches: list[pa.Array], ahead: int = 1) -> tuple[int, int] | None:
    """Look at so many batches before what was seen of them is taken in, as several cores would."""
    found, reads = UniqueIds(), []

    def again() -> Iterator[pa.ChunkedArray]:
        reads.append(1)
        return iter([pa.chunked_array([batch]) for batch in batches])

    columns = list(again())
    for start in range(0, len(columns), ahead):
        for look in [found.look(column) for column in columns[start : start + ahead]]:
            found.take(look)
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
    ahead=st.integers(1, 4),
    run=st.sampled_from([2, 5, 1000]),
)
def test_as_a_dictionary_would_say(values: list[int], size: int, text: bool, ahead: int, run: int) -> None:
    ids = pa.array([str(value) for value in values]) if text else pa.array(values)
    batches = [ids[start : start + size] for start in range(0, len(ids), size)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unique_ids, "_RUN_HASHES", run)
        assert first_repeat(batches, ahead) == expected(list(values))


def test_a_run_that_ends_within_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ids occur again in the second of three runs, and the third batch goes beyond it."""
    monkeypatch.setattr(unique_ids, "_RUN_HASHES", 5)
    batches = [[2, 1, 30, 20], [11, 2, 1, 12], [14, 13, 16, 15], [18, 17]]
    assert first_repeat([pa.array(batch) for batch in batches]) == (1, 6)


@pytest.mark.parametrize("ahead", [1, 2, 3, 4])
def test_a_file_that_fell_once_does_not_rise_again(ahead: int) -> None:
    """The third batch is above the second, and repeats an id of the first."""
    batches = [pa.array(part) for part in ([1, 5], [2, 3], [4, 5], [6, 7])]
    assert first_repeat(batches, ahead) == (2, 6)
    assert first_repeat([pa.array([str(value) for value in batch.to_pylist()]) for batch in batches], ahead) == (2, 6)


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
    assert first_repeat([pa.array([{"a": 1}, {"a": 2}]), pa.array([{"a": 3}, {"a": 2}])]) == (2, 4)
    assert first_repeat([pa.array([[1], [2], [1]])]) == (1, 3)


@pytest.mark.parametrize("run", [1, 2, 3, 5, 100])
def test_the_same_bits_by_chance_are_no_repeat(run: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unique_ids, "_RUN_HASHES", run)
    monkeypatch.setattr(unique_ids, "id_hashes", lambda ids, _key: np.zeros(len(ids), dtype=np.uint64))
    batches = [pa.array(["c", "b"]), pa.array(["a", "e"]), pa.array(["f", "d"])]
    assert first_repeat(batches) is None
    assert first_repeat([*batches, pa.array(["z", "a"])]) == (3, 8)


@pytest.mark.parametrize("ids", [[None] * 40, ["one"] * 40, [5] * 40, ["a", "b", *[None] * 38]])
def test_a_column_that_is_mostly_one_value(ids: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unique_ids, "_RUN_HASHES", 6)
    column = pa.array(ids)
    assert first_repeat([column[start : start + 7] for start in range(0, 40, 7)]) == expected(ids)


def test_batches_of_text_are_in_the_same_order_as_their_rows() -> None:
    """Shorter first across batches, too: by letters alone, "5" would come after "10" and not be compared."""
    assert first_repeat([pa.array(["5", "10"]), pa.array(["5", "70"])]) == (1, 3)
    assert first_repeat([pa.array(["5", "10"]), pa.array(["11", "9"])]) is None


def test_text_in_order_costs_nothing() -> None:
    """Shorter first, then by letter: what counts up is in order, with leading zeros or without."""
    for texts in (["9", "10", "11", "100"], ["007", "008", "010"], ["a", "b", "aa"], ["ä", "ö"]):
        assert in_order(pa.array(texts))
    for mixed in (["10", "9"], ["a", "a"], ["b", "a"], ["a", None]):
        assert not in_order(pa.array(mixed))
    assert in_order(pa.array(["x", "9", "10", "y"])[1:3])


def test_equal_ids_have_equal_bits_whatever_array_they_are_in() -> None:
    texts = ["", "a", "long enough to fill words", "ü"]
    whole = id_hashes(pa.array(texts), KEY)
    assert (id_hashes(pa.array(["x", *texts])[1:], KEY) == whole).all()
    assert (id_hashes(pa.array(texts, pa.large_string()), KEY) == whole).all()
    assert len(set(whole.tolist())) == 4


def test_numbers_are_spread_evenly_and_stay_different() -> None:
    """Else all would fall into one range of those that are compared in memory."""
    for ids in (pa.array(range(20_000)), pa.array(range(0, 1 << 54, 1 << 40))):
        words = id_hashes(ids, split_key(b"\x8d\x13 any sixteen!!"))
        assert len(np.unique(words)) == len(ids)
        counts = np.bincount((words >> np.uint64(60)).astype(np.int64), minlength=16)
        assert counts.max() < 1.5 * len(ids) / 16
