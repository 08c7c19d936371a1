"""Filters of questions: people's tags, whom they blocked, and the cursors that lists go on from.

The store has the tags and the blocks. Here are the names of the tags and all blocks, so that a question needs no store.
A change is written and then applied here, one after the other; of a change by another process only the person is told,
and the store is read again. So whatever the order in which changes arrive, all processes come to what the store has.
"""

from __future__ import annotations

import binascii
import hmac
import json
import struct
import threading
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet

from nearveil.nearby.index import Filter, ServiceIndex
from nearveil.nearby.publishing.keys import keyed_bytes
from nearveil.nearby.stores.base import Store, TooManyTagsError
from nearveil.server.auth import Caller
from nearveil.server.models import MOST_IDS, Question
from nearveil.server.problems import cursor_expired, invalid

_EPOCH_BYTES = 8
_MAC_BYTES = 16


class Filters:
    """What the filters of a service's questions are made of.

    Parameters
    ----------
    store, index
        Of the service.
    key : bytes
        Makes cursors that nobody else can make.
    """

    def __init__(self, store: Store, index: ServiceIndex, key: bytes) -> None:
        self._store = store
        self._index = index
        self._key = key
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
        """Give a person these tags in place of those before; whether the person is known."""
        with self._changing:
            try:
                bits = self._store.set_tags(person, tags)
            except TooManyTagsError as error:
                raise invalid(f"tags: {error}.") from None
            if bits is not None:
                self._apply(person, bits)
        return bits is not None

    def set_blocked(self, person: str, others: Collection[str]) -> bool:
        """Let these be all whom a person has blocked; whether the person is known."""
        return self._change_blocked(person, lambda: self._store.set_blocked(person, others))

    def block(self, person: str, other: str) -> bool:
        """Block somebody for a person; whether both are known."""
        if other not in self._blocked.get(person, ()) and len(self._blocked.get(person, ())) >= MOST_IDS:
            raise invalid(f"A person blocks at most {MOST_IDS:,} others; unblock somebody first.")
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

    def filter_of(self, question: Question, caller: Caller, asker: str | None, epoch: int) -> Filter[str] | None:
        """Return whom a question may find; None for everybody."""
        hidden = () if asker is None else self.hidden_from(asker)
        if question.exclude:
            hidden = (*hidden, frozenset(question.exclude))
        after = None if question.after is None else self._read_cursor(question.after, question, caller, asker, epoch)
        if not (hidden or question.only or after):
            return None
        # A tag that nobody ever had is a bit that nobody has.
        nobody_has = 1 << 62
        groups = {sum({self._bits.get(tag, nobody_has) for tag in group}) for group in question.only}
        return Filter(only=tuple(sorted(groups)), hidden=hidden, after=after)

    # -- cursors -----------------------------------------------------------------------------------------------

    def cursor(self, last: str, question: Question, caller: Caller, asker: str | None, epoch: int) -> str:
        """Return what lets this question, of this caller and in this epoch, go on after somebody."""
        mac = self._mac(last, question, caller, asker, epoch)
        return urlsafe_b64encode(struct.pack(">q", epoch) + mac + last.encode()).rstrip(b"=").decode()

    def _read_cursor(self, text: str, question: Question, caller: Caller, asker: str | None, epoch: int) -> str:
        """Return after whom a question goes on."""
        try:
            content = b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            [made_in] = struct.unpack(">q", content[:_EPOCH_BYTES])
            mac, last = content[_EPOCH_BYTES:][:_MAC_BYTES], content[_EPOCH_BYTES + _MAC_BYTES :].decode()
        except (binascii.Error, struct.error, UnicodeDecodeError):
            raise _not_a_cursor() from None
        if not hmac.compare_digest(mac, self._mac(last, question, caller, asker, made_in)):
            raise _not_a_cursor()
        if made_in != epoch:
            raise cursor_expired()
        return last

    def _mac(self, last: str, question: Question, caller: Caller, asker: str | None, epoch: int) -> bytes:
        # All but k, so that pages may differ in length: nobody begins in the middle of a list of their choice.
        asked = (question.within_m, question.only, sorted(set(question.exclude)))
        return keyed_bytes(
            self._key,
            "nearveil cursor",
            struct.pack(">qdd", epoch, question.latitude, question.longitude),
            *(part.encode() for part in (last, caller.kind, caller.name, asker or "", json.dumps(asked))),
            size=_MAC_BYTES,
        )


def _put(blocks: dict[str, frozenset[str]], person: str, others: frozenset[str]) -> None:
    if others:
        blocks[person] = others
    else:
        blocks.pop(person, None)


def _not_a_cursor() -> Exception:
    return invalid("after: This is no cursor of this question; send the question of the page before, with its 'next'.")
