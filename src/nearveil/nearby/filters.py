"""Filters of questions: people's tags, and whom they blocked. A service and `Nearby` use the same.

The store has the tags and the blocks. Here are the names of the tags and all blocks, so that a question needs no store.
A change is written and then applied here, one after the other; of a change by another process only the person is told,
and the store is read again. So whatever the order in which changes arrive, all processes come to what the store has.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet

from nearveil.errors import DataError
from nearveil.nearby.index import Filter, NearbyIndex
from nearveil.nearby.stores.base import Store

MOST_BLOCKED = 5_000
"""Ids that a person blocks, at most."""

LONGEST_TAG = 64
TAG_PATTERN = r"[A-Za-z0-9_.:@+-]+"
_TAG = re.compile(TAG_PATTERN)
# A tag that nobody ever had is a bit that nobody has.
_NOBODY_HAS = 1 << 62


class TooManyBlockedError(DataError):
    """A person blocks as many others as they can."""


class Filters:
    """What the filters of questions are made of.

    Parameters
    ----------
    store, index
        Who is known, and who is on the map.
    """

    def __init__(self, store: Store, index: NearbyIndex[str]) -> None:
        self._store = store
        self._index = index
        self._changing = threading.Lock()
        self._bits: dict[str, int] = {}
        # Frozen sets: a question may be looking at one.
        self._blocked: dict[str, frozenset[str]] = {}
        self._blockers: dict[str, frozenset[str]] = {}

    def load(self) -> None:
        """Read everything from the store."""
        with self._changing:
            self._read_names()
            for person in list(self._blocked):
                self._put_blocked(person, ())
            for person, others in self._store.all_blocked().items():
                self._put_blocked(person, others)

    # -- changes -----------------------------------------------------------------------------------------------

    def set_tags(self, person: str, tags: Collection[str]) -> bool:
        """Give a person these tags in place of those before; whether the person is known.

        Raises `DataError` for what is no tag, and `TooManyTagsError` if there are too many different ones.
        """
        if any(len(tag) > LONGEST_TAG or not _TAG.fullmatch(tag) for tag in tags):
            raise DataError(f"a tag is 1 to {LONGEST_TAG} of the characters A-Z a-z 0-9 _ . : @ + -")
        with self._changing:
            bits = self._store.set_tags(person, tags)
            if bits is not None:
                self._apply(person, bits)
        return bits is not None

    def set_blocked(self, person: str, others: Collection[str]) -> bool:
        """Let these be all whom a person has blocked; whether the person is known."""
        if len(others) > MOST_BLOCKED:
            raise TooManyBlockedError(f"a person blocks at most {MOST_BLOCKED:,} others; block fewer")
        return self._change_blocked(person, lambda: self._store.set_blocked(person, others))

    def block(self, person: str, other: str) -> bool:
        """Block somebody for a person; whether both are known."""
        blocked = self._blocked.get(person, frozenset())
        if other not in blocked and len(blocked) >= MOST_BLOCKED:
            raise TooManyBlockedError(f"a person blocks at most {MOST_BLOCKED:,} others; unblock somebody first")
        return self._change_blocked(person, lambda: self._store.block(person, other))

    def unblock(self, person: str, other: str) -> bool:
        """Block somebody no more for a person; whether the person is known."""
        return self._change_blocked(person, lambda: self._store.unblock(person, other))

    def read_tags(self, people: Sequence[str]) -> None:
        """Take people's tags from the store: another process has changed them, or these are new on the map."""
        with self._changing:
            for person, bits in self._store.tags_of(people).items():
                self._apply(person, bits)

    def read_blocked(self, person: str) -> None:
        """Take from the store whom a person has blocked: another process has changed it."""
        self._change_blocked(person, lambda: True)

    def forget(self, person: str, erase: Callable[[], bool] = lambda: True) -> bool:
        """Forget the blocks of somebody, and by others, who is erased by this call or was before."""
        with self._changing:
            there = erase()
            self._put_blocked(person, ())
            for other in self._blockers.get(person, frozenset()):
                self._put_blocked(other, self._blocked[other] - {person})
        return there

    def _change_blocked(self, person: str, change: Callable[[], bool]) -> bool:
        with self._changing:
            known = change()
            if known:
                self._put_blocked(person, self._store.blocked(person) or ())
        return known

    def _apply(self, person: str, bits: int) -> None:
        if bits >> len(self._bits):
            self._read_names()
        self._index.tag(person, bits)

    def _read_names(self) -> None:
        self._bits = {name: 1 << bit for bit, name in enumerate(self._store.tag_names())}

    def _put_blocked(self, person: str, others: Collection[str]) -> None:
        before, now = self._blocked.get(person, frozenset()), frozenset(others)
        for other in before ^ now:
            _put(self._blockers, other, self._blockers.get(other, frozenset()) ^ {person})
        _put(self._blocked, person, now)

    # -- questions ---------------------------------------------------------------------------------------------

    def hidden_from(self, person: str) -> tuple[AbstractSet[str], ...]:
        """Return whom a person does not see: those they blocked, and those who blocked them."""
        found = self._blocked.get(person), self._blockers.get(person)
        return tuple(some for some in found if some is not None)

    def filter_of(
        self,
        *,
        asker: str | None = None,
        only: Sequence[Sequence[str]] = (),
        exclude: Collection[str] = (),
        after: str | None = None,
    ) -> Filter[str] | None:
        """Return whom a question may find; None for everybody.

        Parameters
        ----------
        asker : str, optional
            Those whom they blocked, or who blocked them, are not found.
        only : sequence of groups of tags
            Who is found has at least one tag of each group.
        exclude : collection of str
            Nobody of these is found.
        after : str, optional
            Only those are found who are ranked after this person.
        """
        hidden = () if asker is None else self.hidden_from(asker)
        if exclude:
            hidden = (*hidden, frozenset(exclude))
        if not (hidden or only or after):
            return None
        groups = {sum({self._bits.get(tag, _NOBODY_HAS) for tag in group}) for group in only}
        return Filter(only=tuple(sorted(groups)), hidden=hidden, after=after)


def _put(blocks: dict[str, frozenset[str]], person: str, others: frozenset[str]) -> None:
    if others:
        blocks[person] = others
    else:
        blocks.pop(person, None)
