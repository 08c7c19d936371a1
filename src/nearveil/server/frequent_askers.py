"""Frequent askers: who asked many questions within an epoch, by their number alone."""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass

MANY_QUESTIONS = 100
"""Somebody who asks so often within an epoch is listed. Attacks on one person may need fewer, those on many do not."""
EPOCHS_REMEMBERED = 24
_MOST_COUNTED = 100_000


@dataclass(frozen=True, slots=True)
class FrequentAsker:
    """Somebody who asked many questions: in how many epochs, and how many in these epochs together."""

    person: str
    epochs: int
    questions: int


class FrequentAskers:
    """Counts questions, and remembers who asked many within an epoch that has ended; in memory only.

    No place goes into it: questions from outside the region count too. Who adds questions in somebody's name learns
    how many the person asked in that epoch, and nothing about where.

    Parameters
    ----------
    most_counted : int
        Largest number of people counted at once; those with the fewest questions are dropped, and begin anew.

    Examples
    --------
    >>> askers = FrequentAskers()
    >>> askers.begin_epoch(1)
    >>> for _ in range(120):
    ...     askers.count("eve")
    >>> askers.listed()
    []
    >>> askers.begin_epoch(2)
    >>> askers.listed()
    [FrequentAsker(person='eve', epochs=1, questions=120)]
    """

    def __init__(self, *, most_counted: int = _MOST_COUNTED) -> None:
        self._most = most_counted
        self._epoch: int | None = None
        self._counts: dict[str, int] = {}
        self._ended: deque[dict[str, int]] = deque(maxlen=EPOCHS_REMEMBERED)
        # Epochs end, and people are erased, in other threads than the one that counts.
        self._changing = threading.Lock()

    def __repr__(self) -> str:
        return f"FrequentAskers({len(self._ended)} epochs)"

    @property
    def epochs(self) -> int:
        """Number of ended epochs that the list is about."""
        return len(self._ended)

    def count(self, person: str) -> None:
        """Count a question of a person."""
        with self._changing:
            self._counts[person] = self._counts.get(person, 0) + 1
            if len(self._counts) > self._most:
                self._make_room()

    def begin_epoch(self, epoch: int) -> None:
        """Close the epoch before, unless this one has begun already."""
        with self._changing:
            if epoch == self._epoch:
                return
            if self._epoch is not None:
                self._ended.append({who: number for who, number in self._counts.items() if number >= MANY_QUESTIONS})
            self._epoch, self._counts = epoch, {}

    def listed(self) -> list[FrequentAsker]:
        """Return who asked many questions in an ended epoch, who asked most first."""
        with self._changing:
            ended = [dict(counts) for counts in self._ended]
        epochs = Counter(person for counts in ended for person in counts)
        questions = {person: sum(counts.get(person, 0) for counts in ended) for person in epochs}
        found = [FrequentAsker(person, epochs[person], number) for person, number in questions.items()]
        return sorted(found, key=lambda asker: (-asker.questions, asker.person))

    def forget(self, person: str) -> None:
        """Forget a person."""
        with self._changing:
            for counts in (self._counts, *self._ended):
                counts.pop(person, None)

    def _make_room(self) -> None:
        few = 1
        while len(self._counts) > self._most * 3 // 4:
            self._counts = {person: number for person, number in self._counts.items() if number > few}
            few *= 2
