"""Which of very many 64-bit words came before, in the same little memory however many there are."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator
from typing import IO, NamedTuple

import numpy as np

from nearveil.errors import OutputError
from nearveil.types import IntArray, WordArray

# 8 MiB in memory; fewer words than that are never written to disk.
_RUN_WORDS = 1 << 20
# 4 MiB, and some more to put them in order.
_WORDS_COMPARED = 1 << 19
_RANGE_BITS = 10
_WORD_BYTES = 8


class Repeats(NamedTuple):
    """Words that had come before, of the earliest run that has some; and the number of rows up to that run's end."""

    run: int
    rows: int
    words: WordArray


class WordRuns:
    """Words in the order of their rows, cut into runs of equal length and sorted within each.

    All runs but the last lie in a temporary file without a name, 8 bytes a word: 8 MB per million rows on disk, where
    ``TMPDIR`` says, and some 25 MB in memory. (Where that folder is in memory itself, so are the runs.)

    A word that is in a run more than twice is kept twice: that it repeats there is all that matters, and words that
    are all the same fall into one range, which is compared in memory as a whole.
    """

    def __init__(self) -> None:
        self._open: WordArray | None = None
        self._filled = 0
        self._file: IO[bytes] | None = None
        # For each run on disk, where each range of words begins and the last ends.
        self._borders: list[IntArray] = []

    def add(self, words: WordArray) -> None:
        """Take in the words of the next rows; raise OutputError where there is no room for them on disk."""
        taken = 0
        while taken < len(words):
            if self._open is None:
                self._open = np.empty(_RUN_WORDS, dtype=np.uint64)
            elif self._filled == len(self._open):
                self._put_away(self._open)
            part = words[taken : taken + len(self._open) - self._filled]
            self._open[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            taken += len(part)

    def repeats(self, first_run: int = 0) -> Repeats | None:
        """Return the words of the earliest run, from ``first_run`` on, that stand in it or before it already."""
        if self._open is None:
            return None
        self._open[: self._filled].sort()
        last = _twice_at_most(self._open[: self._filled])
        earliest, found = len(self._borders) + 1, list[WordArray]()
        for first, after in _grouped([*self._borders, _borders(last)]):
            run, words = _repeats_among(self._between(first, after, last, runs=earliest + 1), first_run)
            if run < earliest:
                earliest, found = run, []
            if run == earliest and len(words):
                found.append(words)
        if not found:
            return None
        rows = earliest * len(self._open) + (len(self._open) if earliest < len(self._borders) else self._filled)
        return Repeats(earliest, rows, np.concatenate(found))

    def _put_away(self, run: WordArray) -> None:
        run.sort()
        kept = _twice_at_most(run)
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="nearveil-", buffering=0)  # noqa: SIM115 - closed below
                weakref.finalize(self, self._file.close)
            self._file.seek(len(self._borders) * run.nbytes)
            left = kept.data.cast("B")
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            raise OutputError(
                f"the temporary folder cannot hold 8 bytes a row to compare ids ({error.strerror}); free some space, "
                "or name another folder in TMPDIR"
            ) from None
        self._borders.append(_borders(kept))
        self._filled = 0

    def _between(self, first: int, after: int, last: WordArray, runs: int) -> list[WordArray]:
        """Return the words of the first so many runs in these ranges."""
        parts = [self._read(run, own[first], own[after]) for run, own in enumerate(self._borders[:runs])]
        if runs > len(self._borders):
            own = _borders(last)
            parts.append(last[own[first] : own[after]])
        return parts

    def _read(self, run: int, start: np.int64, end: np.int64) -> WordArray:
        assert self._file is not None  # noqa: S101 - there are runs in it
        assert self._open is not None  # noqa: S101 - it was filled before
        self._file.seek((run * len(self._open) + int(start)) * _WORD_BYTES)
        words = np.empty(int(end - start), dtype=np.uint64)
        left = words.data.cast("B")
        while left:
            count = self._file.readinto(left)  # type: ignore[attr-defined]
            if not count:
                raise OutputError(
                    "the temporary file with ids to compare was cut short; free some space, and try again"
                )
            left = left[count:]
        return words


def _twice_at_most(run: WordArray) -> WordArray:
    """Return a sorted run without the third and later ones of equal words."""
    more = run[2:] == run[:-2]
    return run[np.append([True, True], ~more)] if more.any() else run


def _borders(run: WordArray) -> IntArray:
    """Where each range of words begins in a sorted run, and the last ends."""
    starts = np.arange(1 << _RANGE_BITS, dtype=np.uint64) << np.uint64(64 - _RANGE_BITS)
    return np.append(np.searchsorted(run, starts), len(run)).astype(np.int64)


def _grouped(borders: list[IntArray]) -> Iterator[tuple[int, int]]:
    """Give ranges that follow each other, as many at a time as may be compared in memory: the first, and the next."""
    ends = np.sum(borders, axis=0)
    first = 0
    while first < len(ends) - 1:
        after = max(int(np.searchsorted(ends, ends[first] + _WORDS_COMPARED, side="right")) - 1, first + 1)
        yield first, after
        first = after


def _repeats_among(parts: list[WordArray], first_run: int) -> tuple[int, WordArray]:
    """Return the earliest run with a word that came before, and its words that did; some of them several times."""
    words = np.concatenate(parts)
    # A stable sort merges what is in order already.
    rising = np.sort(words, kind="stable")
    nothing = len(parts), words[:0]
    if not (rising[1:] == rising[:-1]).any():
        return nothing
    # Equal words stay in the order of their runs.
    order = np.argsort(words, kind="stable")
    run_of = np.repeat(np.arange(len(parts)), [len(part) for part in parts])[order]
    again = np.flatnonzero((rising[1:] == rising[:-1]) & (run_of[1:] >= first_run)) + 1
    if not len(again):
        return nothing
    run = int(run_of[again].min())
    return run, rising[again[run_of[again] == run]]
