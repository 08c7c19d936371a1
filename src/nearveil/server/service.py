"""Service: the components behind the HTTP interface, and what the routes do with them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from nearveil.errors import UsageError
from nearveil.evaluation.year_curve import year_note
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.fit_cells import CellPlan
from nearveil.mechanisms.intervals import Intervals, intervals_from_document
from nearveil.nearby.filters import Filters
from nearveil.nearby.index import NearbyIndex
from nearveil.nearby.published_cells import cells_from_store
from nearveil.nearby.publishing.intervals_in_use import IntervalsInUse, next_safe_epoch, read_intervals_file
from nearveil.nearby.publishing.keys import SecretKeys
from nearveil.nearby.publishing.protection import Protection
from nearveil.nearby.publishing.publisher import Answer, Publisher, Report
from nearveil.nearby.publishing.store_identity import check_identity, redraw_noise, refuse_other_store, was_redrawn
from nearveil.nearby.stores import open_store
from nearveil.nearby.stores.base import Store, StoreError, Totals
from nearveil.nearby.stores.sqlite import SqliteStore
from nearveil.privacy.guarantee import Guarantee
from nearveil.release.guarantee import AS_STATED
from nearveil.server.audit_log import AuditLog
from nearveil.server.auth import Access, Caller, KnownPeople, new_platform_key
from nearveil.server.cursors import Cursors
from nearveil.server.frequent_askers import FrequentAskers
from nearveil.server.limits import Limits
from nearveil.server.logs import log_event
from nearveil.server.metrics import Metrics
from nearveil.server.problems import UnreadyReason, too_many_requests, unauthorised
from nearveil.server.reports import ReportWriter, RightOfWay
from nearveil.server.scheduler import Scheduler
from nearveil.server.scopes import Scope
from nearveil.server.setting_types import duration
from nearveil.server.settings import Settings
from nearveil.server.shared_limits import RedisState, SharedLimits
from nearveil.server.store_health import StoreHealth, StoreThreads
from nearveil.server.traces import Traces
from nearveil.server.warm_up import compile_kernels

_MOMENT_S = 1.0
_Result = TypeVar("_Result")


class Service:
    """The parts of a running service and what the routes do with them.

    Use `Service.open`, then `start`, and `close` at the end. What judges callers (`admit`, `spend`)
    is called from one thread alone, that of the event loop.

    Parameters
    ----------
    settings : Settings
        All that can be chosen.
    store : Store
        Opened; the service closes it.
    keys : SecretKeys
        Of the noise, the tokens and the order of equals.
    clock : callable, optional
        Seconds since 1970.
    """

    def __init__(
        self, settings: Settings, store: Store, keys: SecretKeys, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.settings = settings
        self.store = store
        self.keys = keys
        self.clock = clock
        protection = settings.protection()
        self.index: NearbyIndex[str] = NearbyIndex(protection.region)
        self.intervals = IntervalsInUse(store, protection.region)
        self._named_intervals = None if settings.intervals is None else read_intervals_file(settings.intervals)
        if self._named_intervals is not None:
            self.intervals.check(self._named_intervals)
        # Before the publisher, which calibrates the channel between cells and keeps it in the store.
        refuse_other_store(store, protection, keys, redraw=settings.redraw_noise)
        self.right_of_way = RightOfWay()
        # A database does most of it elsewhere.
        computing = self.right_of_way.taken if isinstance(store, SqliteStore) else nullcontext
        self.publisher = Publisher(
            protection,
            keys,
            store,
            clock=clock,
            check_noise=self._check_noise,
            computing=computing,
            always_chained=settings.chained_reports == "always",
        )
        self.protection = self.publisher.protection
        self.metrics = Metrics()
        grace_s = duration(settings.grace).total_seconds()
        self.people = KnownPeople(store, grace_s=grace_s)
        self.access = Access(store, keys.tokens, clock, grace_s=grace_s)
        self.health = StoreHealth(store, self.metrics)
        self._threads = StoreThreads()
        self._refreshing: Future[None] | None = None
        self.audit_log = AuditLog(keys.tokens, settings.audit_log, clock=clock)
        self.limits = Limits(
            key_per_s=settings.key_questions_per_s,
            person_per_minute=settings.questions_per_minute,
            person_burst=settings.question_burst,
        )
        self.frequent_askers = FrequentAskers()
        self.shared_limits = (
            None
            if settings.shared_limits is None
            else SharedLimits(RedisState(settings.shared_limits), self.limits, keys.tokens)
        )
        self.scheduler = Scheduler(
            publisher=self.publisher,
            store=store,
            index=self.index,
            intervals=self.intervals,
            keys=keys,
            metrics=self.metrics,
            clock=clock,
            at_epoch=self._at_epoch,
            health=self.health,
        )
        self._is_noise_checked = self._has_other_noise = False
        self.reports = ReportWriter(self._receive)
        self._by_operators = threading.Lock()
        self.filters = Filters(store, self.index)
        self.cursors = Cursors(keys.tokens)
        traces_to = settings.traces_to
        self.traces = None if traces_to is None else Traces(traces_to, settings.traces_share)

    @classmethod
    def open(cls, settings: Settings, *, clock: Callable[[], float] = time.time) -> Service:
        """Open the store and the keys that the settings name, and check that they belong together."""
        if settings.shared_limits is not None:
            with closing(RedisState(settings.shared_limits)) as state:
                state.refuse_cluster()
        keys = settings.secret_keys()
        store = open_store(settings.store, timeout_s=settings.store_timeout_s)
        try:
            service = cls(settings, store, keys, clock=clock)
            service.check()
        except BaseException:
            store.close()
            raise
        return service

    def check(self) -> None:
        """Let the store remember what it is used with, and take the intervals that the settings name."""
        epoch = self.publisher.epoch
        window = self.protection.schedule.window_of(epoch)
        if self.settings.redraw_noise and redraw_noise(
            self.store, self.protection, self.keys, _windows_in_use(self.protection, epoch)
        ):
            log_event("noise is drawn anew", level="warning", window=window)
        check_identity(self.store, self.protection, self.keys)
        if self._named_intervals is not None:
            self.intervals.put_file(self._named_intervals, epoch=epoch)

    def start(self) -> None:
        """Compile, publish what is overdue, begin to take reports, and load the index in the background."""
        compile_kernels(self.protection, self.intervals.remap(self.publisher.epoch))
        # Followed from before the index is read, so that nothing falls in between.
        self.store.follow(
            on_erased=self._erased,
            on_withdrawn=self._withdrawn,
            on_epoch=self._epoch_began,
            on_lost=self._lost_track,
            on_tagged=lambda person: self.filters.read_tags([person]),
            on_blocked=self.filters.read_blocked,
            on_away=self.health.away,
            on_back=self._database_is_back,
        )
        self.filters.load()
        self.scheduler.start()
        self.reports.start()
        if self.shared_limits is not None:
            self.shared_limits.start()

    def close(self) -> None:
        """Write what waits, stop the threads and let go of the store."""
        if self.shared_limits is not None:
            self.shared_limits.close()
        self.reports.close()
        self.scheduler.close()
        self._threads.close()
        self.store.close()
        if self.traces is not None:
            self.traces.close()

    @property
    def answers_questions(self) -> bool:
        """Whether questions of known callers are answered, also while the store is away."""
        return self.scheduler.epoch is not None and self.reports.is_running

    async def why_not_ready(self) -> UnreadyReason | None:
        """Return why reports or questions are not taken; None if they are, and the store was written lately."""
        if not self.answers_questions:
            return "starting"
        if self._has_other_noise:
            return "other-noise"
        if self.scheduler.is_store_ahead:
            return "clock"
        if self.health.is_probe_due:
            # What lasts longer than a moment is seen at the next call.
            await asyncio.wait([asyncio.wrap_future(self._threads.submit(self.health.probe))], timeout=_MOMENT_S)
        return self.health.reason

    async def in_store(self, call: Callable[..., _Result], *arguments: Any) -> _Result:
        """Call something that may have to wait for the store, in a thread that nobody else waits for."""
        return await self._threads.run(call, *arguments)

    # -- callers -----------------------------------------------------------------------------------------------

    async def admit(self, authorization: str | None) -> Caller:
        """Return the caller; raise a problem if the caller is unknown or asks too often."""
        caller = self.known_caller(authorization)
        if caller is None:
            # The store may be slow; other requests must not wait for it.
            caller = await self.in_store(self._identify, authorization)
        self.spend(caller)
        return caller

    def known_caller(self, authorization: str | None) -> Caller | None:
        """Return the caller, if the store is not needed for that."""
        caller = self.access.known(authorization)
        if caller is None or (caller.kind == "person" and not self.people.remembers(caller.name, caller.mark)):
            return None
        if self.access.is_refresh_due and (self._refreshing is None or self._refreshing.done()):
            # Ahead of time, so that a store that hangs is noticed before anybody has to wait for it.
            self._refreshing = self._threads.submit(self.access.refresh)
        return caller

    def _identify(self, authorization: str | None) -> Caller:
        caller = self.access.identify(authorization)
        if caller.kind == "person" and not self.people.has_mark(caller.name, caller.mark):
            # A token outlives the person it was made for, and a revocation.
            raise unauthorised()
        return caller

    def spend(self, caller: Caller) -> None:
        """Count a request of a caller; raise if it is one too many."""
        wait_s = self.limits.spend(caller)
        if wait_s is not None:
            raise too_many_requests(wait_s)

    def spend_for(self, person: str) -> None:
        """Count a request that a platform makes for a person as theirs; raise if it is one too many."""
        self.spend(Caller("person", person))

    def remembers(self, person: str) -> bool:
        """Whether it is known without the store that there is such a person."""
        return person in self.index or self.people.remembers(person)

    async def knows(self, person: str) -> bool:
        """Whether there is such a person."""
        return self.remembers(person) or await self.in_store(self.people.has, person)

    # -- platforms ---------------------------------------------------------------------------------------------

    async def make_platform_key(self, name: str, scopes: AbstractSet[Scope]) -> str | None:
        """Make a platform key and return it, to be shown once; None if there is one of that name."""
        secret, kept = new_platform_key(name, scopes)
        made = await self.in_store(self.store.add_new_key, kept)
        self.access.reread()
        return secret if made else None

    async def remove_platform_key(self, name: str) -> bool:
        """Let a platform key work no more, unless it is the last one; whether it was removed."""
        removed = await self.in_store(partial(self.store.remove_key_but_the_last, name, scope=Scope.ADMIN))
        self.access.reread()
        return removed

    # -- people ------------------------------------------------------------------------------------------------

    def add_people(self, people: Sequence[str]) -> list[str]:
        """Add people; return those who are new."""
        return self.publisher.add_people(list(dict.fromkeys(people)))

    async def erase(self, person: str) -> bool:
        """Erase somebody from the store, the map and memory; whether there was such a person."""
        there = await self.in_store(self.filters.forget, person, partial(self.publisher.erase, person))
        self.forget(person)
        return there

    async def withdraw(self, person: str) -> bool:
        """Take somebody off the map; whether there is such a person."""
        there = await self.in_store(self.store.withdraw, person)
        self.index.remove(person)
        return there

    async def revoke_tokens(self, person: str) -> bool:
        """Void the tokens made for somebody so far; whether there is such a person."""
        there = await self.in_store(self.store.renew_token_mark, person)
        self.people.forget(person)
        return there

    def forget(self, person: str) -> None:
        """Forget a person whom the store does not know any more."""
        self.index.remove(person)
        self.people.forget(person)
        self.frequent_askers.forget(person)

    # -- reports -----------------------------------------------------------------------------------------------

    def _receive(self, reports: Sequence[Report]) -> list[Answer]:
        try:
            self.scheduler.check_clock()
            if self.publisher.is_due:
                self.scheduler.soon()
            answers = self.publisher.receive(reports)
        except Exception as error:
            self.health.failed(error)
            raise
        self.health.written()
        self.metrics.reports(sum(answer.status.is_kept for answer in answers))
        return answers

    def _check_noise(self) -> None:
        """Take no report with noise that others on the store do not use: it would be drawn twice."""
        if self._is_noise_checked:
            return
        try:
            check_identity(self.store, self.protection, self.keys)
        except UsageError as error:
            self._has_other_noise = True
            log_event("noise differs from the one in use", level="error")
            raise StoreError(str(error)) from None
        self._is_noise_checked, self._has_other_noise = True, False

    # -- what other processes on the store did -------------------------------------------------------------------

    def _erased(self, person: str) -> None:
        self.filters.forget(person)
        self.forget(person)

    def _withdrawn(self, person: str) -> None:
        self.index.remove(person)

    def _epoch_began(self, _: int) -> None:
        self.publisher.read_advances()
        self.scheduler.soon()

    def _lost_track(self) -> None:
        self.publisher.read_advances()
        self.filters.load()
        self.people.doubt_all()
        self.scheduler.lost()

    def _database_is_back(self, seconds: float) -> None:
        self.health.back(seconds)
        self.scheduler.soon()

    # -- the operator ------------------------------------------------------------------------------------------

    def put_intervals(self, document: Any) -> int:
        """Let uploaded intervals hold from the next epoch on; return from which epoch."""
        intervals = intervals_from_document(document)
        self.intervals.check(intervals)
        with self._by_operators:
            epoch = self.publisher.epoch
            from_epoch = next_safe_epoch(self.publisher, self.clock())
            self.intervals.put(intervals, epoch=epoch, from_epoch=from_epoch)
        return from_epoch

    def make_cells(self, hide_among: int) -> Cells:
        """Make cells from what is published, for a service that hides among people."""
        return cells_from_store(self.store, self.protection, CellPlan(hide_among=hide_among))

    def advance(self) -> int:
        """Go to the next epoch at once: a test hook."""
        epoch = self.publisher.advance()
        self.scheduler.turn()
        return epoch

    def card(self) -> Guarantee:
        """Return the guarantee of this epoch."""
        epoch = self.publisher.epoch
        dated = self.intervals.at(epoch)
        card = service_card(self.publisher.promised, dated.intervals if dated else None)
        redrawn = was_redrawn(self.store, self.protection.schedule.window_of(epoch))
        return replace(card, notes=(_REDRAWN, *card.notes)) if redrawn else card

    def totals(self) -> Totals:
        """Return the ledger's state, and let the metrics know."""
        totals = self.store.totals()
        self.metrics.set_people(totals.people)
        return totals

    def _at_epoch(self, epoch: int) -> None:
        self.frequent_askers.begin_epoch(epoch)
        # Looked at again with the next report: another process may have been started with other noise.
        self._is_noise_checked = False
        check_identity(self.store, self.protection, self.keys)
        self.totals()


def _windows_in_use(protection: Protection, epoch: int) -> set[int]:
    """The windows in which places count now: what waits for the next epoch counts in that epoch's window."""
    return {protection.schedule.window_of(epoch), protection.schedule.window_of(epoch + 1)}


# The guarantee of a running service, and the cost of its intervals.


_FIT_DELTA = 1e-5
_REDRAWN = (
    "In this window everybody's noise was drawn anew (--redraw-noise). Before, places were published with another "
    "noise or other cells; each of them counts as a place of its own, and its loss adds up in its own unit."
)


def service_card(protection: Protection, intervals: Intervals | None) -> Guarantee:
    """Return the guarantee of a service, with what was measured of months of it."""
    card = protection.guarantee.with_note(year_note(protection))
    if protection.among is not None:
        card = card.with_note(AS_STATED.format("cells"))
    if intervals is None:
        return card
    return replace(card, also=(*card.also, intervals.guarantee(_FIT_DELTA)))
