"""Words that came before are found in whichever run they are, and in a file where memory ends."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearveil.errors import OutputError
from nearveil.release import unique_ids
from nearveil.release.unique_ids import HashRuns
from nearveil.types import WordArray

WORDS = st.one_of(st.integers(0, 9), st.integers(0, 2**64 - 1), st.just(2**64 - 1))


@pytest.fixture
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unique_ids, "_RUN_HASHES", 4)
    monkeypatch.setattr(unique_ids, "_HASHES_COMPARED", 3)


def added(words: list[int], size: int = 5) -> HashRuns:
    runs, array = HashRuns(), np.array(words, dtype=np.uint64)
    for start in range(0, len(array), size):
        runs.add(array[start : start + size])
    return runs


def expected(words: list[int], first_run: int) -> tuple[int, int, set[int]] | None:
    for run in range(first_run, (len(words) + 3) // 4):
        own = words[4 * run : 4 * run + 4]
        found = {word for place, word in enumerate(own) if word in words[: 4 * run + place]}
        if found:
            return run, 4 * run + len(own), found
    return None


@given(words=st.lists(WORDS, max_size=40), size=st.integers(1, 9), first_run=st.integers(0, 3))
def test_the_earliest_run_with_a_repeat(words: list[int], size: int, first_run: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unique_ids, "_RUN_HASHES", 4)
        patch.setattr(unique_ids, "_HASHES_COMPARED", 3)
        repeats = added(words, size).repeats(first_run)
    found = repeats and (repeats.run, repeats.rows, set(repeats.hashes.tolist()))
    assert found == expected(words, first_run)


def test_asking_twice_gives_the_same(small_runs: None) -> None:
    runs = added([7, 1, 9, 3, 8, 2, 9, 5, 6, 7])
    for _ in range(2):
        assert [int(word) for word in (runs.repeats() or pytest.fail()).hashes] == [9]
        assert [int(word) for word in (runs.repeats(2) or pytest.fail()).hashes] == [7]
        assert runs.repeats(3) is None


def test_few_words_need_no_disk_and_many_no_name(
    small_runs: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert added([1, 2, 3, 4]).repeats() is None
    with pytest.raises(OutputError, match="temporary folder cannot hold 8 bytes a row"):
        added([1, 2, 3, 4, 5])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runs = added([5, 4, 3, 2, 1, 0])
    assert list(tmp_path.iterdir()) == []
    assert runs.repeats() is None


def test_a_full_disk_is_said(small_runs: None, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def seek(self, _place: int) -> None: ...

        def close(self) -> None: ...

        def write(self, _data: WordArray) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_options: Full())
    with pytest.raises(OutputError, match=r"No space left on device.*TMPDIR"):
        added(list(range(5)))


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many words were sorted at once, each time."""
    monkeypatch.setattr(unique_ids, "_RUN_HASHES", 1000)
    monkeypatch.setattr(unique_ids, "_HASHES_COMPARED", 1000)
    seen = []
    among = unique_ids._repeats_among

    def watched(parts: list[WordArray], first_run: int) -> tuple[int, WordArray]:
        seen.append(sum(map(len, parts)))
        return among(parts, first_run)

    monkeypatch.setattr(unique_ids, "_repeats_among", watched)
    return seen


def test_memory_is_bounded_by_what_is_compared(sizes: list[int]) -> None:
    """However many runs there are, the words that are sorted at once are few."""
    words = np.random.default_rng(3).integers(0, 2**64, 50_000, dtype=np.uint64)
    assert added(words.tolist(), 700).repeats() is None
    assert sum(sizes) == 50_000
    assert max(sizes) <= 1000


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("first_run", [0, 49, 50])
def test_words_that_are_mostly_the_same_are_few_to_compare(sizes: list[int], share: float, first_run: int) -> None:
    """They fall into one range, whose words are all compared at once: two of each run, not all of them."""
    random = np.random.default_rng(4)
    words = random.integers(0, 2**64, 50_500, dtype=np.uint64)
    words[random.random(len(words)) < share] = 7
    found = added(words.tolist(), 700).repeats(first_run)
    assert found is not None
    assert (found.run, found.rows) == (first_run, min(1000 * (first_run + 1), len(words)))
    assert set(found.hashes.tolist()) == {7}
    assert len(found.hashes) <= 2
    assert max(sizes) <= 1000


@pytest.mark.parametrize("count", range(1, 8))
def test_the_third_of_a_run_changes_nothing(small_runs: None, count: int) -> None:
    """Whether the last run has one, two or more of a word, in a file or in memory."""
    runs = added([1, 2, 3, 4] + [9] * count)
    found = runs.repeats()
    assert (found is None) == (count == 1)
    again = runs.repeats()
    assert (again and again.hashes.tolist()) == (found and found.hashes.tolist())
