"""Publisher: perturbs reports on receipt, keeps only noisy locations, and publishes them at epoch boundaries."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from nearveil.errors import DataError
from nearveil.mechanisms.cells import Calibration
from nearveil.nearby.publishing.keys import (
    KEY_BYTES,
    SecretKeys,
    erased_mark,
    introduced_tag,
    keyed_bytes,
    place_tags,
    service_key,
)
from nearveil.nearby.publishing.noise import ReportNoise, Wanted
from nearveil.nearby.publishing.protection import Protection, Schedule, cells_digest, least_new_places
from nearveil.nearby.publishing.store_identity import OTHER_NOISE, KeptSettings, settle_noise
from nearveil.nearby.stores.base import (
    Computing,
    ErasedMark,
    Held,
    NoisyLocation,
    Point,
    Standing,
    Store,
    StoreError,
    Writing,
)

OFFSET_SETTING = "epoch_offset"
BUDGET_SETTING = "most new places of window"

RECEIPT_BYTES = 12

MOST_GIVEN = 4
"""So many receipts that were given for one report, sent again and again, fit."""


class Status(StrEnum):
    """What became of a report: nothing that depends on where the person is, or was."""

    TAKEN = "taken"
    """It was kept. What is published at the next epoch boundary takes it into account."""
    UNKNOWN_PERSON = "unknown person"
    """Nobody of this id is known; nothing was kept."""
    CHAIN_BROKEN = "chain broken"
    """It does not bring the receipt of the last report: somebody else, or another phone, reported. Nothing was kept."""

    @property
    def is_kept(self) -> bool:
        """Whether the report was kept."""
        return self is Status.TAKEN


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a report.

    Attributes
    ----------
    receipt : str
        Names the report, at random.
    publishes_at : float or None
        The next epoch boundary, in seconds since 1970.
    """

    status: Status
    receipt: str = ""
    publishes_at: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A report as it waits for the store, in memory only; it never prints where.

    Attributes
    ----------
    previous : str or None
        The receipt of the last report that this reporter got an answer to; with the first one, any.
    """

    person: str
    x_m: float = field(repr=False)
    y_m: float = field(repr=False)
    previous: str | None = field(default=None, repr=False)


class Publisher:
    """Between people and a store: true places in, noisy locations out.

    Usable inside anybody's own service: `report` and `publish_due` are all it takes.

    Parameters
    ----------
    protection : Protection
        What is done to places.
    keys : SecretKeys
        Of the noise.
    store : Store
        Where noisy locations are kept.
    clock : callable, optional
        Seconds since 1970.
    check_noise : callable, optional
        Called before reports are drawn; raises if they must not be.
    computing : callable, optional
        Returns a context in which reports and epochs are worked out, within a transaction.
    always_chained : bool
        Whether a person's first report begins a chain: every later one must then bring the receipt of the one before.
        If not, the first one that brings a receipt begins it, and until then everybody's reports are taken.

    Examples
    --------
    >>> from nearveil.nearby.publishing.keys import new_keys
    >>> from nearveil.nearby.stores.sqlite import SqliteStore
    >>> from nearveil.region import named_region
    >>> store = SqliteStore.in_memory()
    >>> _ = store.add_people(["ann"])
    >>> publisher = Publisher(Protection(region=named_region("san-francisco")), new_keys(), store)
    >>> import secrets
    >>> first = publisher.report("ann", 37.77, -122.42, previous=secrets.token_hex(12))
    >>> publisher.report("ann", 37.77, -122.42, previous=first.receipt).status.value
    'taken'
    """

    def __init__(
        self,
        protection: Protection,
        keys: SecretKeys,
        store: Store,
        *,
        clock: Callable[[], float] = time.time,
        check_noise: Callable[[], None] | None = None,
        computing: Computing = nullcontext,
        always_chained: bool = True,
    ) -> None:
        self.protection = with_settled_channel(protection, store)
        self._keys = keys
        self._store = store
        self._clock = clock
        self._check_noise = check_noise
        self._computing = computing
        self._always_chained = always_chained
        self._grid = self.protection.grid
        self._noise = ReportNoise(self.protection)
        self._published_epoch = -1
        self._most_charges: dict[int, int] = {}
        self._place_key: bytes | None = None
        self._offset = _epoch_offset(store)

    # -- time ------------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The epoch that it is now, advanced as often as a test has asked."""
        return self.protection.schedule.epoch_at(self._clock()) + self._offset

    def starts_at(self, epoch: int) -> float:
        """Return when an epoch begins or began, in seconds since 1970."""
        return self.protection.schedule.starts_at(epoch - self._offset)

    def check_clock(self, newest: int | None) -> None:
        """Raise if what is reported now could not be published at the next boundary: the store's newest epoch is ahead.

        One epoch ahead is what a process may be whose clock is a moment ahead of ours.
        """
        if newest is not None and newest > self.epoch + 1:
            raise StoreError(
                "the store is ahead of the clock; set the clock right, or run 'nearveil store repair-clock'",
                reason="clock",
            )

    def advance(self) -> int:
        """Go to the next epoch at once and publish: for tests and audits of one's own service."""
        self.read_advances()
        self._store.keep_setting(OFFSET_SETTING, str(self._offset + 1))
        self._offset += 1
        self.publish_due()
        return self.epoch

    def read_advances(self) -> None:
        """Take from the store how often a test has advanced the epoch: another process may have."""
        self._offset = _epoch_offset(self._store)

    def most_charges(self, window: int) -> int:
        """Return how many new places of a person are drawn in a window at most: what was set when it was first used.

        All processes on a store agree on it, and a promise that was given for a window is not changed within it.
        """
        if window not in self._most_charges:
            wanted, name = self.protection.new_places, f"{BUDGET_SETTING} {window}"
            self._most_charges[window] = int(self._store.settle(name, str(wanted)))
        return self._most_charges[window]

    def _charges_of(self, person: str, window: int) -> int:
        """Return how many new places of a person are drawn in a window: a keyed number from the least to the most."""
        most = self.most_charges(window)
        drawn = keyed_bytes(self._key, "nearveil budget", person.encode(), str(window).encode())
        return most - int.from_bytes(drawn, "big") % (most - least_new_places(most) + 1)

    @property
    def _key(self) -> bytes:
        """The key of places, which belongs to this service alone; raises if the store was used with another."""
        if self._place_key is None:
            if not settle_noise(self._store, self._keys):
                raise StoreError(OTHER_NOISE)
            self._place_key = service_key(self._keys.noise, self.protection)
        return self._place_key

    @property
    def promised(self) -> Protection:
        """The protection with the budget that the present window has."""
        window = self.protection.schedule.window_of(self.epoch)
        return replace(self.protection, new_places=self.most_charges(window))

    # -- reports ---------------------------------------------------------------------------------------------

    def report(self, person: str, latitude: float, longitude: float, *, previous: str | None = None) -> Answer:
        """Take one report; see `receive`.

        ``previous`` is the receipt of the last report that was answered. A first report may bring one of the reporter's
        own choosing (``secrets.token_hex(12)``): with the same one it can be sent again if its answer was lost.
        """
        return self.receive([self.accept(person, latitude, longitude, previous=previous)])[0]

    def accept(self, person: str, latitude: float, longitude: float, *, previous: str | None = None) -> Report:
        """Check a place; the error of a place outside the region names no coordinate."""
        region = self.protection.region
        place = np.array([[latitude, longitude]], dtype=np.float64)
        if not (np.isfinite(place).all() and region.contains(place)[0]):
            raise DataError(f"the place lies outside the service's region {region}")
        x_m, y_m = region.to_metres(place)[0]
        return Report(person, float(x_m), float(y_m), previous)

    def receive(self, reports: Sequence[Report]) -> list[Answer]:
        """Take reports in one transaction; when it returns, what they lead to is kept durably.

        The same is written and answered whatever the places are, so that neither tells anything about them. A report
        that breaks a chain changes nothing, and its place is not looked at.
        """
        now = self.epoch
        window = self._prepared_window(now)
        with self._store.writing(self._computing) as writing:
            people = sorted({report.person for report in reports})
            if self._published_epoch < now:
                writing.settle_due(people, now)
            held = writing.held(people, window)
            stays = {person: Stay(person, one, now, window) for person, one in held.items()}
            answers = [
                self._answer(stays.get(report.person), report, answer)
                for report, answer in zip(reports, self._acknowledgements(len(reports), now), strict=True)
            ]
            self._keep([stay for stay in stays.values() if stay.receipt], writing, now + 1)
        return answers

    def _prepared_window(self, now: int) -> int:
        """Return the window that reports count in, with all that must be known before a transaction begins."""
        if self._check_noise is not None:
            self._check_noise()
        _ = self._key
        window = self.protection.schedule.window_of(now + 1)
        self.most_charges(window)
        return window

    def _acknowledgements(self, count: int, now: int) -> list[Answer]:
        # All at once: every call of the system gives other threads the interpreter.
        random = secrets.token_hex(RECEIPT_BYTES * count)
        receipts = [random[at : at + 2 * RECEIPT_BYTES] for at in range(0, len(random), 2 * RECEIPT_BYTES)]
        return [Answer(Status.TAKEN, receipt, self.starts_at(now + 1)) for receipt in receipts]

    def introduce(self, reports: Sequence[Report]) -> int:
        """Take the places of people of whom nothing is held yet, in one transaction; return of how many.

        For those whom an app knew before: they are published at the next epoch boundary. Nobody's chain of reports
        begins by this, and who has reported or was introduced before is left alone. So it can be done again.

        Anybody who may report can then begin the chain, with a guess. So the place has noise and a tag of its own, with
        which no report is compared: it is published whatever is reported, and the first place reported is drawn anew.
        """
        now = self.epoch
        window = self._prepared_window(now)
        first = {report.person: report for report in reversed(reports)}
        key = secrets.token_bytes(KEY_BYTES)
        with self._store.writing(self._computing) as writing:
            stays = [
                Stay(person, held, now, window)
                for person, held in writing.held(sorted(first), window).items()
                if held.pending is held.published is None and held.standing is None and not held.known
            ]
            for stay in stays:
                stay.receipt = secrets.token_hex(RECEIPT_BYTES)
                self._introduce(stay, first[stay.person], key)
            self._keep(stays, writing, now + 1, keep_standings=False)
        return len(stays)

    def _introduce(self, stay: Stay, report: Report, key: bytes) -> None:
        if stay.held.charged < self._charges_of(report.person, stay.window):
            cell = self._grid.cells_near(report.x_m, report.y_m)[0]
            tag = introduced_tag(self._keys.tokens, report.person)
            stay.draw(Wanted(report.person, *self._grid.centre_of(cell), cell, tag, key))

    def _answer(self, stay: Stay | None, report: Report, kept: Answer) -> Answer:
        """Take a report, unless there is no such person or it breaks the chain of their reports."""
        if stay is None:
            return Answer(Status.UNKNOWN_PERSON)
        if not stay.follow(report.previous, kept.receipt, always=self._always_chained):
            return Answer(Status.CHAIN_BROKEN)
        self._observe(stay, report)
        return kept

    def _observe(self, stay: Stay, report: Report) -> None:
        cells = self._grid.cells_near(report.x_m, report.y_m)
        tags = place_tags(self._key, report.person, cells, self._grid.identity)
        tag = stay.observe(
            tags,
            introduced=introduced_tag(self._keys.tokens, report.person),
            dwell_epochs=self.protection.dwell_epochs,
            most_charges=self._charges_of(report.person, stay.window),
        )
        row = 0 if tag is None else tags.index(tag)
        drawn = Wanted(report.person, *self._grid.centre_of(cells[row]), cells[row], tags[row], self._key)
        if tag is None:
            # Drawn and dropped: how long an answer takes must not tell whether a place is new.
            stay.decoys.append(drawn)
        else:
            stay.draw(drawn)

    def _keep(self, stays: Sequence[Stay], writing: Writing, epoch: int, *, keep_standings: bool = True) -> None:
        """Draw what is to be drawn, and write."""
        earlier = {stay.person: stay.earlier_points for stay in stays}
        wanted_by_all = [wanted for stay in stays for wanted in stay.wanted]
        decoys = [wanted for stay in stays for wanted in stay.decoys]
        drawn = iter(self._noise.perturb([*wanted_by_all, *decoys], earlier))
        waiting: list[NoisyLocation] = []
        unpublished: list[NoisyLocation] = []
        for stay in stays:
            # Drawn before all that these reports draw.
            unpublished += stay.cancelled
            for wanted in stay.wanted:
                location = stay.location(next(drawn), wanted.tag)
                (waiting if wanted is stay.pending else unpublished).append(location)
            if isinstance(stay.pending, NoisyLocation) and stay.pending is not stay.held.pending:
                waiting.append(stay.pending)
        writing.put_pending(waiting, epoch)
        writing.charge(unpublished)
        writing.drop_pending([stay.person for stay in stays if stay.held.pending and stay.pending is None])
        if keep_standings:
            writing.put_standings({stay.person: stay.standing for stay in stays})

    # -- people ------------------------------------------------------------------------------------------------

    def add_people(self, people: Sequence[str]) -> list[str]:
        """Add people; return those who are new. Who was erased in this window has no budget left in it."""
        window = self.protection.schedule.window_of(self.epoch + 1)
        return self._store.add_people(people, [self._mark(person, window) for person in people])

    def erase(self, person: str) -> bool:
        """Erase somebody; whether there was such a person. Created anew, they are published from the next window on."""
        window = self.protection.schedule.window_of(self.epoch + 1)
        mark = replace(self._mark(person, window), at_least=self.most_charges(window))
        return self._store.erase(person, mark)

    def _mark(self, person: str, window: int) -> ErasedMark:
        return ErasedMark(erased_mark(self._keys.tokens, person), window)

    # -- epochs ----------------------------------------------------------------------------------------------

    @property
    def is_due(self) -> bool:
        """Whether an epoch has begun that is not known to be published yet."""
        return self._published_epoch < self.epoch

    def publish_due(self) -> bool:
        """Publish if an epoch has begun that was not published yet, cheap if not; whether this call did it."""
        epoch = self.epoch
        if self._published_epoch >= epoch:
            return False
        last = self._store.last_epoch()
        done = last is None or last < epoch
        if done:
            window = self.protection.schedule.window_of(epoch)
            done = self._store.publish(epoch, window=window, computing=self._computing)
        # Somebody else may have done it; either way it is done.
        self._published_epoch = epoch
        return done


def current_epoch(schedule: Schedule, store: KeptSettings, now_s: float) -> int:
    """Return the epoch of a moment on a store, advanced as often as a test has asked."""
    return schedule.epoch_at(now_s) + _epoch_offset(store)


def _epoch_offset(store: KeptSettings) -> int:
    return int(store.setting(OFFSET_SETTING) or 0)


# What a person's reports lead to.


class Stay:
    """What is held about one person, and what follows from reports, one after the other.

    A place counts when it was reported in enough epochs with no other place in between, and only if no report before
    the epoch boundary says otherwise. So a bad fix, somebody who passes by, and somebody else who reports for a person
    whose phone reports too, change nothing.

    A report at the published place and one at a place that was never seen leave the same behind for reports of other
    places. Nothing counts them: a number that only one of the two moves would let whoever reports guesses in a
    person's name find the place, by whether a far place counts afterwards.

    Parameters
    ----------
    held : Held
        What the store holds.
    now, window : int
        The epoch, and the window that the next epoch counts in.
    """

    def __init__(self, person: str, held: Held, now: int, window: int) -> None:
        self.person = person
        self.held = held
        self.window = window
        self.receipt = ""
        self.pending: NoisyLocation | Wanted | None = held.pending
        self.wanted: list[Wanted] = []
        self.decoys: list[Wanted] = []
        self.cancelled: list[NoisyLocation] = []
        self._now = now
        before = held.standing or Standing(receipt="", epoch=now)
        self._last, self._chain = before.receipt, before.chain
        self._candidate, self._candidate_epoch, self._seen = before.candidate, before.candidate_epoch, before.seen

    @property
    def standing(self) -> Standing:
        """What is left for the next report."""
        return Standing(
            receipt=self.receipt,
            epoch=self._now,
            candidate=self._candidate,
            candidate_epoch=self._candidate_epoch,
            seen=self._seen,
            chain=self._chain,
        )

    def follow(self, previous: str | None, receipt: str, *, always: bool) -> bool:
        """Take the receipt of a report that fits the chain, or begins one; whether it does.

        What the last report brought fits too, because its answer may be lost: the report is sent again with the same.
        So do the last receipts that were given for it, because a report that was sent twice may arrive in either order,
        and only one of the answers. Nothing else does: of two who have one receipt, whoever first goes on from a later
        one shuts the other out.

        A report that begins a chain may bring any receipt. Where none has begun and none must, a report may bring none;
        one that brings another than the last is of a reporter who does not know of a report in between.

        Parameters
        ----------
        previous, receipt : str
            What the report brings, and its own.
        always : bool
            Whether a report that brings none begins a chain.
        """
        chain: tuple[str, ...] = (receipt,) if always else ()
        if previous is None:
            fits = not self._chain
        else:
            fits = previous in self._chain if self._chain else always or self._last in ("", previous)
            given = self._chain[1:] if self._chain[:1] == (previous,) else ()
            chain = (previous, *given[1 - MOST_GIVEN :], receipt)
        if fits:
            self._chain = chain
            self.receipt = self._last = receipt
        return fits

    def observe(
        self, tags: Sequence[bytes], *, introduced: bytes, dwell_epochs: int, most_charges: int
    ) -> bytes | None:
        """Take a report; return the tag of a place to draw.

        Parameters
        ----------
        tags : sequence of bytes
            Of the cell that the report lies in, and then of the others that reach as far as here.
        introduced : bytes
            The tag of a place that an import brought in. While that waits, reports neither cancel it nor draw another.
        dwell_epochs, most_charges : int
            In how many epochs a place must be reported, and how many new ones are drawn in a window.
        """
        held = self.held
        # Who was last in a cell that reaches as far as here is still in it; so borders do not flicker.
        if held.published is not None and held.published.tag in tags:
            self._candidate = None
            self._cancel()
            return None
        if self.pending is not None and self.pending.tag in tags:
            return None
        is_introduced = self.pending is not None and self.pending.tag == introduced
        if not is_introduced:
            self._cancel()
        if self._candidate not in tags:
            # A known cell beside this one does not count: whoever guesses would test several cells at once.
            self._candidate, self._seen, self._candidate_epoch = tags[0], 0, self._now - 1
        tag = self._candidate
        if self._candidate_epoch < self._now:
            self._candidate_epoch, self._seen = self._now, self._seen + 1
        # The very first alone, also before it is published, and however reports are grouped into transactions.
        is_first = held.published is held.pending is None and not (held.known or self.wanted)
        if tag is None or is_introduced or self._seen < (1 if is_first else dwell_epochs):
            return None
        return self._settle(tag, most_charges)

    @property
    def earlier_points(self) -> list[Point]:
        """The noisy places that the person has, or had, in the order in which they were first drawn."""
        pending = self.held.pending
        return [*self.held.known.values(), *([] if pending is None else [_point(pending)])]

    def location(self, point: Point, tag: bytes) -> NoisyLocation:
        """Return a noisy place as it is kept."""
        return NoisyLocation(
            person=self.person, x_steps=point[0], y_steps=point[1], tag=tag, window=self.window, receipt=self.receipt
        )

    def draw(self, wanted: Wanted) -> None:
        """Let a noisy location wait that is still to be drawn."""
        self.wanted.append(wanted)
        self.pending = wanted

    def _settle(self, tag: bytes, most_charges: int) -> bytes | None:
        """A place has lasted: what is known of it waits, or else it is drawn, if the budget is not spent.

        Once it is, not even a known place is published again: whoever reports guesses in somebody's name would
        otherwise see which of them brings an earlier noisy place back.
        """
        drawn = self.held.charged + len({*(one.tag for one in self.wanted), *(one.tag for one in self.cancelled)})
        if drawn >= most_charges:
            return None
        known = self.held.known.get(tag)
        if known is None:
            return tag
        self.pending = self.location(known, tag)
        return None

    def _cancel(self) -> None:
        """What waited is not to be published after all; what was drawn is charged all the same."""
        if isinstance(self.pending, NoisyLocation) and self.pending.tag not in self.held.known:
            self.cancelled.append(self.pending)
        self.pending = None


def _point(location: NoisyLocation) -> Point:
    return location.x_steps, location.y_steps


# The channel between cells: calibrated once for a store, so that no other version or machine draws a little otherwise.


CHANNEL_SETTING = "channel between cells"


def with_settled_channel(protection: Protection, store: Store) -> Protection:
    """Return the protection with the channel between cells that a store was first used with, the same for all."""
    among = protection.among
    if among is None:
        return protection
    name = f"{CHANNEL_SETTING} {among.hide_among} {among.epsilon!r} {cells_digest(among.current_cells)}"
    kept = store.setting(name) or store.settle(name, json.dumps(among.channel.calibration.to_document()))
    calibration = Calibration.from_document(json.loads(kept))
    return replace(protection, among=among.with_params(cells=among.current_cells, calibration=calibration))
