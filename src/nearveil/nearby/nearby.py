"""Nearby: a "people nearby" feature inside an app, without a server of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Self

from nearveil.errors import NearveilError, UsageError
from nearveil.lengths import meters
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.nearby.filters import Filters
from nearveil.nearby.index import NearbyIndex
from nearveil.nearby.publishing.intervals_in_use import IntervalsInUse
from nearveil.nearby.publishing.keys import SecretKeys, new_keys, read_keys, write_keys
from nearveil.nearby.publishing.protection import Protection, Schedule
from nearveil.nearby.publishing.publisher import Answer, Publisher, Status
from nearveil.nearby.publishing.store_identity import check_identity, refuse_other_store
from nearveil.nearby.stores import is_postgres, open_store
from nearveil.nearby.stores.base import in_degrees
from nearveil.privacy.guarantee import Guarantee
from nearveil.region import Region, as_region

_NO_KEYS = (
    "processes that share a database need the same keys: make a file of them with 'nearveil keys create' and name it "
    "(keys=…)"
)


class ChainBrokenError(NearveilError):
    """A report did not bring the receipt of the person's last report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NearbyLedger:
    """How many people there are, when it is, and what is drawn of a person at most.

    How many new places were drawn is not in it: that number grows only if a report was from a new place, so that
    whoever sees it and reports guesses in a person's name could tell where the person is.

    Attributes
    ----------
    people, published : int
        How many are known, and how many are on the map.
    epoch, window : int
        Those that it is now.
    new_places_per_window : int
        How many new places of one person are drawn in a window at most.
    """

    people: int
    published: int
    epoch: int
    window: int
    new_places_per_window: int


class Nearby:
    """People report where they are, everybody is published with noise on a schedule, and lists come from that alone.

    The same stores, keys and promises as `nearveil serve`, within a process of yours. Who may ask and who may report
    for whom is for your app to decide: there are no tokens and no limits here. All methods may be called from several
    threads. They take a millisecond or so; in an event loop call them in a thread.

    Parameters
    ----------
    store : str or Path
        A file, which one process uses at a time and which is made if it is not there; or the address of a PostgreSQL
        database (``postgresql://…``), which many processes share.
    region : Region or str
        Public: a region, its name, or its edges.
    noise_m : float or str, optional
        Mean length of the noise of a place; 500 if neither this nor ``hide_among`` is given.
    hide_among : HideAmong, optional
        Hides among people instead.
    keys : Path, optional
        File of secret keys; by default ``keys.json`` beside the store's file, made if it is not there.
    epoch, window : timedelta
        Time between two publications, and how long a budget of new places lasts.
    new_places : int
        Budget of new places of a person in a window.
    dwell_epochs : int
        In how many epochs a place must be reported before it counts.
    chained_reports : {"always", "if-sent"}
        Whether every report but the first must bring the receipt of the one before, or only those after one that did.
    clock : callable
        Seconds since 1970.

    Raises
    ------
    UsageError
        If a parameter is wrong, or the store was made with others.
    StoreError
        If the store cannot be used.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> folder = TemporaryDirectory()
    >>> now = [0.0]
    >>> app = Nearby(Path(folder.name) / "people.db", region="san-francisco", clock=lambda: now[0])
    >>> receipts = {name: app.report(name, 37.77, -122.42).receipt for name in ("ann", "bob")}
    >>> app.nearby(37.77, -122.42)
    []
    >>> now[0] += 3600.0
    >>> app.publish_due()
    True
    >>> sorted(app.nearby(37.77, -122.42, k=10)), app.nearby(37.77, -122.42, k=10, exclude="ann")
    (['ann', 'bob'], ['bob'])
    >>> app.forget("bob"), app.nearby(37.77, -122.42)
    (True, ['ann'])
    >>> app.close(); folder.cleanup()
    """

    def __init__(
        self,
        store: str | Path,
        *,
        region: Region | str,
        noise_m: float | str | None = None,
        hide_among: HideAmong | None = None,
        keys: Path | str | None = None,
        epoch: timedelta = timedelta(hours=1),
        window: timedelta = timedelta(days=30),
        new_places: int = 20,
        dwell_epochs: int = 2,
        chained_reports: Literal["always", "if-sent"] = "always",
        clock: Callable[[], float] = time.time,
    ) -> None:
        if chained_reports not in ("always", "if-sent"):
            raise UsageError("chained_reports is 'always' or 'if-sent'")
        protection = self._protection = Protection(
            region=as_region(region),
            noise_m=None if noise_m is None else meters(noise_m, "noise_m"),
            among=hide_among,
            new_places=new_places,
            dwell_epochs=dwell_epochs,
            schedule=Schedule(epoch=epoch, window=window),
        )
        self._keys = _keys(str(store), keys, protection.schedule)
        self._store = open_store(str(store))
        self._is_noise_checked = False
        self._loaded: tuple[int, str | None] | None = None
        self._missed_something = False
        self._turning = threading.Lock()
        self._index: NearbyIndex[str] = NearbyIndex(protection.region)
        self._filters = Filters(self._store, self._index)
        self._intervals = IntervalsInUse(self._store, protection.region)
        try:
            # Before the publisher, which keeps something in the store.
            refuse_other_store(self._store, protection, self._keys)
            self._publisher = Publisher(
                protection,
                self._keys,
                self._store,
                clock=clock,
                check_noise=self._check_noise,
                always_chained=chained_reports == "always",
            )
            self._check_noise()
            # Followed from before the index is read, so that nothing falls in between.
            self._store.follow(
                on_erased=self._erased,
                on_withdrawn=self._withdrawn,
                on_epoch=lambda _: self._publisher.read_advances(),
                on_lost=self._lose_track,
                on_tagged=lambda person: self._filters.read_tags([person]),
                on_blocked=self._filters.read_blocked,
            )
            self._filters.load()
            self.publish_due()
        except BaseException:
            self._store.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()

    def __len__(self) -> int:
        """How many people are published."""
        return len(self._index)

    # -- reports and epochs ------------------------------------------------------------------------------------

    def report(self, person: str, latitude: float, longitude: float, *, previous: str | None = None) -> Answer:
        """Take a report; when this returns, it is kept. Who is not known is added.

        The answer is the same wherever somebody is, but for a random receipt. Keep the receipt, and give it with the
        next report as ``previous``: so nobody else can report for this person, not even with a stolen password of
        your app, and find out where they are by guesses.

        Raises
        ------
        DataError
            If the place is outside the region, or the id is none.
        ChainBrokenError
            If ``previous`` is not the receipt of the last report; somebody else may have reported. Make sure that
            you talk to the right phone, call `end_chain`, and report again.
        StoreError
            If it could not be kept.
        """
        self._publisher.check_clock(self._loaded[0] if self._loaded else None)
        answer = self._publisher.report(person, latitude, longitude, previous=previous)
        if answer.status is Status.UNKNOWN_PERSON:
            self._publisher.add_people([person])
            answer = self._publisher.report(person, latitude, longitude, previous=previous)
        if answer.status is Status.CHAIN_BROKEN:
            raise ChainBrokenError(
                "this report does not bring the receipt of the person's last one; make sure who reports, then call "
                "end_chain and report again"
            )
        return answer

    def end_chain(self, person: str) -> bool:
        """Let somebody's next report be taken whatever receipt it brings: a new phone; whether there is such a person.

        What waits for the next epoch is dropped.
        """
        return self._store.renew_token_mark(person)

    def publish_due(self) -> bool:
        """Publish what waits if an epoch has begun, and let lists come from what was published last.

        Call it at least once in every epoch in every process, better every minute or so: it is cheap if there is
        nothing to do. Returns whether lists are of another epoch than before.
        """
        with self._turning:
            self._publisher.publish_due()
            newest = self._store.last_epoch()
            missed, self._missed_something = self._missed_something, False
            if newest is None or (self._loaded is not None and newest <= self._loaded[0] and not missed):
                return False
            try:
                self._load(newest, everything=missed)
            except BaseException:
                self._missed_something = self._missed_something or missed
                raise
        return True

    def _load(self, epoch: int, *, everything: bool) -> None:
        dated = self._intervals.at(epoch)
        fingerprint = dated.fingerprint if dated else None
        remap = self._intervals.remap(epoch)
        tie_key = self._keys.tie_key(epoch)
        if not everything and self._loaded is not None and self._loaded[1] == fingerprint:
            self._index.advance(self._store.published(since_epoch=self._loaded[0] + 1), remap, tie_key)
        else:
            self._index.load(self._store.published(), remap, tie_key)
        self._loaded = (epoch, fingerprint)
        # Looked at again with the next report: another process may have been started with other noise.
        self._is_noise_checked = False

    # -- questions ---------------------------------------------------------------------------------------------

    def nearby(
        self,
        latitude: float,
        longitude: float,
        k: int = 10,
        *,
        asker: str | None = None,
        only: Sequence[Sequence[str]] = (),
        exclude: str | Collection[str] = (),
        within_m: float | None = None,
    ) -> list[str]:
        """Return the ids of the k people who are published nearest to a place, nearest first.

        Parameters
        ----------
        asker : str, optional
            Who asks: left out, and so are those whom they blocked or who blocked them.
        only : sequence of groups of tags
            Who is found has at least one tag of each group: ``[["woman", "nonbinary"], ["25-35"]]``.
        exclude : str or collection of str
            Whom to leave out besides.
        within_m : float, optional
            Nobody who is published farther away.
        """
        if isinstance(only, str) or any(isinstance(group, str) for group in only):
            raise UsageError('each group is a list of tags, also a group of one: [["woman", "nonbinary"], ["25-35"]]')
        x_m, y_m = self._index.to_metres(latitude, longitude)
        hidden = [exclude] if isinstance(exclude, str) else exclude
        filtered = self._filters.filter_of(asker=asker, only=only, exclude=hidden)
        return self._index.ranked_metres(x_m, y_m, k, asker, within_m, filtered)

    # -- tags and blocks ---------------------------------------------------------------------------------------

    def set_tags(self, person: str, tags: Collection[str]) -> bool:
        """Give somebody these tags, and no others, by which lists find them; whether there is such a person.

        A tag is 1 to 64 letters, digits or any of ``_ . : @ + -``, and a store has at most 60 different ones. Whoever
        may ask can find out who near a place has a tag: never make tags from places.
        """
        return self._filters.set_tags(person, list(tags))

    def block(self, person: str, other: str) -> bool:
        """Block somebody for a person: from now on neither finds the other; whether both are known."""
        if person == other:
            raise UsageError("nobody can block themselves; name another person")
        return self._filters.block(person, other)

    def unblock(self, person: str, other: str) -> bool:
        """Block somebody no more for a person; whether the person is known. If the other blocks them, that stays."""
        return self._filters.unblock(person, other)

    def set_blocked(self, person: str, others: Collection[str]) -> bool:
        """Let these be all whom a person has blocked, ids that nobody has ignored; whether the person is known."""
        return self._filters.set_blocked(person, [other for other in others if other != person])

    def blocked(self, person: str) -> list[str]:
        """Return whom a person has blocked, in the order of ids."""
        return self._store.blocked(person) or []

    # -- people ------------------------------------------------------------------------------------------------

    def withdraw(self, person: str) -> bool:
        """Take somebody off the map until they report again; whether there is such a person."""
        there = self._store.withdraw(person)
        self._index.remove(person)
        return there

    def forget(self, person: str) -> bool:
        """Erase all that is held about somebody; whether there was such a person."""
        there = self._filters.forget(person, lambda: self._publisher.erase(person))
        self._index.remove(person)
        return there

    def export(self, person: str) -> dict[str, Any] | None:
        """Return what is held about somebody as plain values; None if not known."""
        record = self._store.record(person)
        return None if record is None else in_degrees(record, self.protection.region)

    # -- what is promised --------------------------------------------------------------------------------------

    @property
    def protection(self) -> Protection:
        """What is done to reports."""
        return self._publisher.promised

    @property
    def card(self) -> Guarantee:
        """What the published places promise, and what they do not; its ``card()`` is the text."""
        return self.protection.guarantee

    def ledger(self) -> NearbyLedger:
        """Return how many people there are and are published, the epoch, and the limit of new places; nobody named."""
        totals, epoch = self._store.totals(), self._publisher.epoch
        window = self.protection.schedule.window_of(epoch)
        return NearbyLedger(
            people=totals.people,
            published=totals.published,
            epoch=epoch,
            window=window,
            new_places_per_window=self._publisher.most_charges(window),
        )

    # -- inside ------------------------------------------------------------------------------------------------

    def _check_noise(self) -> None:
        """Draw nothing with noise that others on the store do not use: noise would be drawn twice."""
        if not self._is_noise_checked:
            check_identity(self._store, self._protection, self._keys)
            self._is_noise_checked = True

    def _erased(self, person: str) -> None:
        self._filters.forget(person)
        self._index.remove(person)

    def _withdrawn(self, person: str) -> None:
        self._index.remove(person)

    def _lose_track(self) -> None:
        self._publisher.read_advances()
        self._filters.load()
        self._missed_something = True


def _keys(store: str, path: Path | str | None, schedule: Schedule) -> SecretKeys:
    if path is not None:
        return read_keys(Path(path), schedule)
    if is_postgres(store):
        raise UsageError(_NO_KEYS)
    beside = Path(store).parent / "keys.json"
    if not beside.exists():
        write_keys(beside, new_keys(schedule))
    return read_keys(beside, schedule)
