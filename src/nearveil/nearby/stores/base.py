"""Store: what every place to keep noisy locations and the ledger in can do. No true place ever reaches it.

What is kept of a person is the noisy location before it is moved to the intervals, in whole steps of a public grid.
Moving it looks at nothing else, so the intervals can be exchanged at an epoch boundary without new noise.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, TypedDict, Unpack

import numpy as np

from nearveil.errors import DataError, NearveilError
from nearveil.region import Region
from nearveil.types import IntArray, WordArray

STEP_M = 0.125
"""Noisy places are kept in whole steps of this length, so that no low-order bit of a sum survives."""


Reason = Literal["busy", "clock", "damaged", "database-away", "disk-failed", "disk-full", "failed", "read-only"]
"""Why a store cannot be used, for logs, metrics and readiness; a closed list, so that no value can be in it."""


class StoreError(NearveilError):
    """The store cannot be opened, read or written.

    Attributes
    ----------
    reason : Reason
        Why, in a word.
    code : str
        The name that the system, SQLite or PostgreSQL has for it, such as ENOSPC; empty if it has none.
    """

    exit_code = 4

    def __init__(self, message: str, *, reason: Reason = "failed", code: str = "") -> None:
        super().__init__(message)
        self.reason: Reason = reason
        self.code = code


class TooManyTagsError(DataError):
    """A service has as many different tags as it can have."""


class LeftError(DataError):
    """The person after whom a list was to go on is not on the map any more."""


class StoreInUseError(StoreError):
    """Another process has the store to itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyLocation:
    """One person's noisy place.

    Attributes
    ----------
    x_steps, y_steps : int
        The noisy place in steps of `STEP_M` metres east and north of the region's centre.
    tag : bytes
        By what the ledger recognises the place that was drawn for: a keyed tag.
    window : int
        The window that the location counts in.
    receipt : str
        Names the report; a person's last acknowledged report can be found by it.
    """

    person: str
    x_steps: int
    y_steps: int
    tag: bytes
    window: int
    receipt: str


Point = tuple[int, int]
"""A noisy place in steps of `STEP_M`."""

Computing = Callable[[], AbstractContextManager[None]]
"""Returns a context in which a store works out what it writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a person's last report left: a place that has not lasted yet, by its tag, and nothing about where.

    Attributes
    ----------
    receipt : str
        Names the last report.
    epoch : int
        The epoch in which it came.
    candidate : bytes or None
        Tag of the place that was reported and is not published.
    candidate_epoch, seen : int
        The last epoch in which it was reported, and in how many.
    chain : tuple of str
        What the last report brought, if anything, and the receipts given for it, its own last: the next report must
        bring one of them. Empty while no chain of reports has begun.
    """

    receipt: str
    epoch: int
    candidate: bytes | None = None
    candidate_epoch: int = -1
    seen: int = 0
    chain: tuple[str, ...] = ()

    @classmethod
    def from_row(cls, row: Sequence[Any] | None) -> Standing | None:
        """Return what a store keeps in this order, the chain as one text with spaces between; None if nothing."""
        if row is None or row[0] is None:
            return None
        receipt, epoch, candidate, candidate_epoch, seen, chain = row
        return cls(
            receipt=receipt,
            epoch=epoch,
            candidate=None if candidate is None else bytes(candidate),
            candidate_epoch=candidate_epoch,
            seen=seen,
            chain=tuple(chain.split()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What is held about one person that a new report is judged by.

    Attributes
    ----------
    pending, published : NoisyLocation or None
        The location that waits for the epoch boundary, and the one that is published.
    known : dict
        The noisy place of each place that was charged, by its tag, in the order in which they were first drawn.
    charged : int
        How many places were charged in the window asked about.
    standing : Standing or None
        What the last report left.
    """

    pending: NoisyLocation | None = None
    published: NoisyLocation | None = None
    known: Mapping[bytes, Point] = field(default_factory=dict)
    charged: int = 0
    standing: Standing | None = None


@dataclass(frozen=True, slots=True)
class ErasedMark:
    """What stays of somebody who is erased, until the window ends: a keyed hash, and how much of a budget is spent.

    Attributes
    ----------
    at_least : int
        So many places count as spent, if it was less.
    """

    mark: bytes
    window: int
    at_least: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The ledger's state, nobody named.

    Attributes
    ----------
    charged_by_window : dict
        How many places were charged in each window, those of erased people included.
    """

    people: int
    published: int
    charged_by_window: dict[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreExtent:
    """How large a store is: the version of its tables, and the bytes that they take.

    The bytes grow when a new place is charged, so that callers of a service see them coarsely or not at all.
    """

    version: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """What a store holds of epochs that have not begun, because a clock was ahead.

    Attributes
    ----------
    first_epoch, last_epoch : int or None
        Oldest and newest epoch that the store remembers to have published; None if none.
    epochs, published, pending : int
        Epochs that lie ahead, people published in them, and noisy locations that wait for one after the next.
    """

    first_epoch: int | None
    last_epoch: int | None
    epochs: int
    published: int
    pending: int


@dataclass(frozen=True, slots=True, eq=False)
class PublishedBatch:
    """Some published people: ids, noisy places in steps, shape (n, 2), and tags as bits; None if nobody has any."""

    people: list[str]
    steps: IntArray
    tags: WordArray | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformKey:
    """A platform's key as it is kept.

    Attributes
    ----------
    digest : bytes
        SHA-256 of the secret.
    scopes : frozenset of str
        What the key may do, as words without spaces.
    """

    name: str
    digest: bytes
    scopes: frozenset[str]

    @classmethod
    def from_row(cls, name: str, digest: bytes, scopes: str) -> PlatformKey:
        """Return what a store keeps as `row`."""
        return cls(name=name, digest=bytes(digest), scopes=frozenset(scopes.split()))

    @property
    def row(self) -> tuple[str, bytes, str]:
        """The key as a store keeps it: name, digest, and the scopes as one text with spaces between."""
        return self.name, self.digest, " ".join(sorted(self.scopes))


class Writing(Protocol):
    """A transaction: all of it is kept, durably, or nothing."""

    def held(self, people: Sequence[str], window: int) -> dict[str, Held]:
        """Return what is held about those of the people who are known, who stay locked until the end."""

    def settle_due(self, people: Sequence[str], epoch: int) -> None:
        """Publish what waits for this epoch or an earlier one of these people, if the epoch is not published yet.

        So a report after an epoch boundary does not change what was to be published at the boundary.
        """

    def put_pending(self, locations: Sequence[NoisyLocation], epoch: int) -> None:
        """Let locations wait for this epoch, each in place of what waited before."""

    def charge(self, locations: Sequence[NoisyLocation]) -> None:
        """Charge places, the oldest first, that were drawn and will not be published, if not charged before."""

    def put_standings(self, standings: Mapping[str, Standing]) -> None:
        """Keep what people's last reports left, in place of what was left before."""

    def drop_pending(self, people: Sequence[str]) -> None:
        """Forget what waits."""


class Handlers(TypedDict, total=False):
    """What a store calls, if it is given (see `Store.follow`)."""

    on_erased: Callable[[str], None]
    on_withdrawn: Callable[[str], None]
    on_epoch: Callable[[int], None]
    on_lost: Callable[[], None]
    on_tagged: Callable[[str], None]
    on_blocked: Callable[[str], None]
    on_away: Callable[[StoreError], None]
    on_back: Callable[[float], None]


class Store(Protocol):
    """Published and pending locations, the ledger, keys and a few settings."""

    def close(self) -> None:
        """Let go of files and connections, and follow nobody any more."""

    def follow(self, **handlers: Unpack[Handlers]) -> None:
        """Call the handlers, in a thread of the store, for what other processes on it do, not for what this one does.

        Follow before anything is loaded, so that nothing falls in between. ``on_tagged`` and ``on_blocked`` name who
        has other tags, or has blocked others: the store says whom. ``on_lost`` says that something may have
        been missed: load everything again. ``on_away`` says that a database cannot be reached, with the error, and
        ``on_back`` that it can again, with the seconds between. A store that nobody else can be on calls nothing.
        """

    # -- people ----------------------------------------------------------------------------------------------

    def add_people(self, people: Sequence[str], marks: Sequence[ErasedMark] | None = None) -> list[str]:
        """Add people; return those who were not there before. Ids are as `ids.check_ids` says.

        With a mark for each, who was erased in the same window has as much of the budget left as then.
        """

    def token_mark(self, person: str) -> int | None:
        """Return the number that a person's tokens bear; None if not known. Who is created anew has another one."""

    def renew_token_mark(self, person: str) -> bool:
        """Give a person another number for their tokens, so that those made before are void; whether known.

        What reports left and what waits is forgotten with them: the chain of reports ends, and no report after it is
        compared with one before.
        """

    def erase(self, person: str, mark: ErasedMark | None = None) -> bool:
        """Erase all that is held about a person but the anonymous total; whether there was such a person.

        With a mark, how much of the window's budget is spent is kept with it until the window ends.
        """

    def withdraw(self, person: str) -> bool:
        """Take a person off the map: forget what waits and what is published, and keep the charges; whether known.

        A chain of reports goes on: whoever has a token could end it otherwise, and report guesses after it.
        """

    def record(self, person: str) -> dict[str, Any] | None:
        """Return what callers may see of what is held about a person, as plain values; None if not known.

        Nothing about reports that are not published, and nothing about the ledger: a count that goes up, or does not,
        would tell whether a place was new.
        """

    # -- tags and blocks -----------------------------------------------------------------------------------------

    def tag_names(self) -> list[str]:
        """Return the name of each bit of people's tags; names are added at the end, and none is ever removed."""

    def set_tags(self, person: str, tags: Collection[str]) -> int | None:
        """Give a person these tags in place of those before; return them as bits, None if the person is not known.

        Raises TooManyTagsError if there would be more than `MOST_TAGS` names.
        """

    def tags_of(self, people: Sequence[str]) -> dict[str, int]:
        """Return the tags of those who are known, as bits."""

    def blocked(self, person: str) -> list[str] | None:
        """Return whom a person has blocked, in order; None if the person is not known."""

    def set_blocked(self, person: str, others: Collection[str]) -> bool:
        """Let these, but for those not known, be all whom a person has blocked; whether the person is known."""

    def block(self, person: str, other: str) -> bool:
        """Block somebody for a person; whether both are known. It goes with either of them."""

    def unblock(self, person: str, other: str) -> bool:
        """Block somebody no more for a person; whether the person is known."""

    def all_blocked(self) -> dict[str, list[str]]:
        """Return whom each person has blocked who has blocked anybody."""

    # -- reports and epochs ------------------------------------------------------------------------------------

    def writing(self, computing: Computing = nullcontext) -> AbstractContextManager[Writing]:
        """Begin a transaction; it is kept at the end of the block, and undone if the block raises.

        ``computing`` is entered for what this process works out itself, not while it waits for its turn or the disk.
        """

    def publish(self, epoch: int, *, window: int, computing: Computing = nullcontext) -> bool:
        """Publish what waits for this epoch or an earlier one; charge places not charged before.

        Some people at a time, so that reports do not wait long; the epoch counts as published after the last of them.
        If this fails in between, the next call goes on. ``window`` is the epoch's: what is kept of those erased in
        windows before it goes. ``computing`` is entered for each of the parts that this process works out itself.
        Returns whether this call did it: an epoch is published once, however many processes try.
        """

    def last_epoch(self) -> int | None:
        """Return the newest epoch that was published."""

    def set_back(self, epoch: int, *, window: int, dry_run: bool = False) -> Ahead:
        """Let this be the newest epoch, for a store that was used with a clock that was ahead; return what was ahead.

        ``window`` is the epoch's. What waits for later epochs is published in the next one. Published places and
        charges stay. Only for a store that nobody else uses: raises if a service does. A ``dry_run`` changes nothing.
        """

    def published(self, *, since_epoch: int | None = None) -> Iterator[PublishedBatch]:
        """Return everybody who is published, or those published in this epoch or later, in batches."""

    def totals(self) -> Totals:
        """Return the ledger's state."""

    def extent(self) -> StoreExtent:
        """Return how large the store is."""

    # -- keys and settings -------------------------------------------------------------------------------------

    def add_key(self, key: PlatformKey) -> None:
        """Keep a platform's key; one of the same name is replaced."""

    def add_new_key(self, key: PlatformKey) -> bool:
        """Keep a platform's key unless there is one of the same name; whether it was kept."""

    def remove_key(self, name: str) -> bool:
        """Forget a key; whether there was one."""

    def remove_key_but_the_last(self, name: str, *, scope: str) -> bool:
        """Forget a key if another one has this scope; whether it was forgotten."""

    def keys(self) -> list[PlatformKey]:
        """Return all keys."""

    def setting(self, name: str) -> str | None:
        """Return a setting kept before."""

    def keep_setting(self, name: str, value: str) -> None:
        """Keep a setting."""

    def settle(self, name: str, value: str) -> str:
        """Keep a setting unless there is one; return what is kept, which is the same for every process that asks."""


# Which ids people can have, in every store alike, and the mark of their tokens.


LONGEST_ID = 128
PERSON_PATTERN = r"\.*[A-Za-z0-9_:@-][A-Za-z0-9_.:@-]*"
"""What ids in a service look like, besides their length: of those that a store takes, the ones that a URL holds as
they are. Ids of dots alone are none: clients that tidy paths up make ``/v1/people/location`` of
``/v1/people/./location``, which is another person."""

_PERSON = re.compile(PERSON_PATTERN)
_MARK_BITS = 63


def is_id(person: str) -> bool:
    """Whether a store can know somebody by this id."""
    return 0 < len(person) <= LONGEST_ID and person.isprintable()


def is_person_id(person: str) -> bool:
    """Whether a person of a service can have this id; a service is stricter than a store."""
    return len(person) <= LONGEST_ID and _PERSON.fullmatch(person) is not None


def check_ids(people: Sequence[str]) -> None:
    """Refuse ids that are empty, too long, made of dots alone, or hold characters that cannot be printed."""
    for row, person in enumerate(people):
        if not is_id(person) or not person.strip("."):
            raise DataError(
                f"id number {row + 1} must be 1 to {LONGEST_ID} printable characters, not dots alone; nobody was added"
            )


def new_token_mark() -> int:
    """Return a number that no other call returns: tokens of an erased person do not fit a new one with the same id."""
    return secrets.randbits(_MARK_BITS)


# Tags: words that an app gives to people. (The tag of a noisy location is something else: a keyed hash of a place.)


MOST_TAGS = 60
"""Different tags that a service can have: they are bits of one number."""


def new_names(names: Sequence[str], tags: Iterable[str]) -> list[str]:
    """Return those of the tags that have no bit yet, in order; raise if there is no room for them."""
    new = [tag for tag in dict.fromkeys(tags) if tag not in names]
    if len(names) + len(new) > MOST_TAGS:
        raise TooManyTagsError(f"a service has at most {MOST_TAGS} different tags, and these would be more; use fewer")
    return new


def tag_bits(names: Sequence[str], tags: Collection[str]) -> int:
    """Return tags as bits."""
    return sum(1 << bit for bit, name in enumerate(names) if name in tags)


# A person's record: what callers may see of what a store holds about somebody.


_DEGREE_DECIMALS = 7
"""About a centimetre: a published place is in steps of more."""


def person_record(
    person: str, created_s: int, published: tuple[int, int] | None, *, tags: Sequence[str], blocked: Sequence[str]
) -> dict[str, Any]:
    """Write a record; the published place comes in steps. Who has blocked the person is not for them to know."""
    return {
        "id": person,
        "created": datetime.fromtimestamp(created_s, UTC).isoformat(),
        "published": None if published is None else {"x_m": published[0] * STEP_M, "y_m": published[1] * STEP_M},
        "tags": sorted(tags),
        "blocked": list(blocked),
    }


def in_degrees(record: dict[str, Any], region: Region) -> dict[str, Any]:
    """Return a record whose published place is in degrees too."""
    published = record["published"]
    if published is None:
        return record
    [[latitude, longitude]] = region.from_metres(np.array([[published["x_m"], published["y_m"]]]))
    degrees = {
        "latitude": round(float(latitude), _DEGREE_DECIMALS),
        "longitude": round(float(longitude), _DEGREE_DECIMALS),
    }
    return {**record, "published": {**degrees, **published}}
