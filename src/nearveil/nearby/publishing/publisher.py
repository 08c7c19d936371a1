"""Publisher: perturbs reports on receipt, keeps only noisy locations, and publishes them at epoch boundaries."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.cells import Calibration, Cells
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points, cells_from_published
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.mechanisms.planar_laplace import displaced
from nearveil.mechanisms.step_channel import draw_places
from nearveil.nearby.publishing.keys import TAG_BYTES, Keys, place_tag, place_uniforms, place_words, service_key
from nearveil.nearby.publishing.protection import Cell, Policy, Protection, Schedule, cells_digest
from nearveil.nearby.publishing.stated_noise import STATED_SETTING, stated_noise
from nearveil.nearby.stores.base import STEP_M, Held, NoisyLocation, Store, Writing
from nearveil.nearby.stores.published import reading_published
from nearveil.randomness import exponential_from_uniforms, secure_generator
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray

OFFSET_SETTING = "epoch_offset"
BUDGET_SETTING = "most new places of window"
KEY_SETTING = "key of the places of window"

_OWN_KEY, _SHARED_KEY = "own", "shared"


class Status(StrEnum):
    """What became of a report."""

    PENDING = "pending"
    """A noisy location waits for the next epoch boundary."""
    SAME_PLACE = "same place"
    """The person is where they were: what is published, or waits, is right already."""
    BUDGET_SPENT = "budget spent"
    """One new place too many in this window: what is published stays, if anything is."""
    PUBLISHED = "published"
    """Protection is off: published at once."""
    UNKNOWN_PERSON = "unknown person"
    """Nobody of this id is known; nothing was kept."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a report.

    Attributes
    ----------
    receipt : str
        Names the noisy location that holds for the person now; empty if there is none.
    publishes_at : float or None
        When it will be published, in seconds since 1970.
    """

    status: Status
    receipt: str = ""
    publishes_at: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A report as it waits for the store, in memory only; it never prints where."""

    person: str
    x_m: float = field(repr=False)
    y_m: float = field(repr=False)


class Publisher:
    """Between people and a store: true places in, noisy locations out.

    Usable inside anybody's own service: `report` and `publish_due` are all it takes.

    Parameters
    ----------
    protection : Protection
        What is done to places.
    keys : Keys
        Of the noise.
    store : Store
        Where noisy locations are kept.
    clock : callable, optional
        Seconds since 1970.
    check_window : callable, optional
        Called with the window that reports are about to be drawn for; raises if they must not be.

    Examples
    --------
    >>> from nearveil.nearby.publishing.keys import new_keys
    >>> from nearveil.nearby.stores.sqlite import SqliteStore
    >>> from nearveil.region import named_region
    >>> store = SqliteStore.in_memory()
    >>> _ = store.add_people(["ann"])
    >>> publisher = Publisher(Protection(region=named_region("san-francisco")), new_keys(), store)
    >>> publisher.report("ann", 37.77, -122.42).status.value
    'pending'
    """

    def __init__(
        self,
        protection: Protection,
        keys: Keys,
        store: Store,
        *,
        clock: Callable[[], float] = time.time,
        check_window: Callable[[int], None] | None = None,
    ) -> None:
        self.protection = with_settled_channel(protection, store)
        self._keys = keys
        self._store = store
        self._clock = clock
        self._check_window = check_window
        self._grid = self.protection.grid
        self._noise = ReportNoise(self.protection)
        self._published_epoch = -1
        self._most_charges: dict[int, int] = {}
        self._has_own_key: dict[int, bool] = {}

    # -- time ------------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The epoch that it is now, advanced as often as a test has asked."""
        return current_epoch(self.protection.schedule, self._store, self._clock())

    def starts_at(self, epoch: int) -> float:
        """Return when an epoch begins or began, in seconds since 1970."""
        return self.protection.schedule.starts_at(epoch - self._offset())

    def advance(self) -> int:
        """Go to the next epoch at once and publish: for tests and audits of one's own service."""
        self._store.keep_setting(OFFSET_SETTING, str(self._offset() + 1))
        self.publish_due()
        return self.epoch

    def _offset(self) -> int:
        return _epoch_offset(self._store)

    def most_charges(self, window: int) -> int:
        """Return how many noisy locations of a person are published in a window: what was set when it was first used.

        All processes on a store agree on it, and a promise that was given for a window is not changed within it.
        """
        if window not in self._most_charges:
            wanted, name = self.protection.most_charges, f"{BUDGET_SETTING} {window}"
            # Before the budget, by which a window that is in use already is told from a new one.
            self._settle_key(window, in_use=self._store.setting(name) is not None)
            self._most_charges[window] = int(self._store.settle(name, str(wanted)))
        return self._most_charges[window]

    def _settle_key(self, window: int, *, in_use: bool) -> None:
        """Settle by which key the places of a window are drawn: by one that belongs to this service alone.

        A window that began before services had keys of their own ends with the one that it began with: nobody's noise
        is drawn a second time.
        """
        kind = self._store.settle(f"{KEY_SETTING} {window}", _SHARED_KEY if in_use else _OWN_KEY)
        self._has_own_key[window] = kind == _OWN_KEY

    def _place_key(self, window: int) -> bytes:
        key = self._keys.noise_key(window)
        return service_key(key, self.protection) if self._has_own_key[window] else key

    @property
    def promised(self) -> Protection:
        """The protection with the budget that the present window has."""
        if self.protection.policy is not Policy.PLACE:
            return self.protection
        window = self.protection.schedule.window_of(self.epoch)
        return replace(self.protection, new_places=self.most_charges(window))

    # -- reports ---------------------------------------------------------------------------------------------

    def report(self, person: str, latitude: float, longitude: float) -> Answer:
        """Take one report; see `receive`."""
        return self.receive([self.accept(person, latitude, longitude)])[0]

    def accept(self, person: str, latitude: float, longitude: float) -> Report:
        """Check a place; the error of a place outside the region names no coordinate."""
        region = self.protection.region
        place = np.array([[latitude, longitude]], dtype=np.float64)
        if not (np.isfinite(place).all() and region.contains(place)[0]):
            raise DataError(f"the place lies outside the service's region {region}")
        x_m, y_m = region.to_metres(place)[0]
        return Report(person, float(x_m), float(y_m))

    def receive(self, reports: Sequence[Report]) -> list[Answer]:
        """Perturb reports and keep the noisy locations, in one transaction; when it returns, they are kept durably.

        Of several reports of one person the last counts, and all are answered alike.
        """
        last = {report.person: report for report in reports}
        epoch = self.epoch + 1
        window = self.protection.schedule.window_of(epoch)
        if self._check_window is not None:
            self._check_window(window)
        most = self.most_charges(window)
        key = self._place_key(window)
        with self._store.writing() as writing:
            held = writing.held(sorted(last), window)
            verdicts = {
                person: self._judge(report, held[person], window, most, key)
                for person, report in last.items()
                if person in held
            }
            fresh = self._noise.perturb(
                [verdict.wanted for verdict in verdicts.values() if verdict.wanted], window, key
            )
            self._keep(fresh, verdicts, held, writing, epoch)
        receipts = {location.person: location.receipt for location in fresh}
        publishes_at = self.starts_at(epoch)
        answers = {person: verdict.answer(receipts.get(person), publishes_at) for person, verdict in verdicts.items()}
        return [answers.get(report.person, Answer(Status.UNKNOWN_PERSON)) for report in reports]

    def _keep(
        self,
        fresh: list[NoisyLocation],
        verdicts: dict[str, _Verdict],
        held: dict[str, Held],
        writing: Writing,
        epoch: int,
    ) -> None:
        """Write what changed and nothing else."""
        if self.protection.policy is Policy.OFF:
            writing.publish_now(fresh, epoch - 1)
            return
        if fresh:
            writing.put_pending(fresh, epoch)
        # Somebody who is back at what is published, or may not publish where they are, has nothing waiting.
        stale = [
            person
            for person, verdict in verdicts.items()
            if held[person].pending is not None and not verdict.wanted and verdict.location is not held[person].pending
        ]
        if stale:
            writing.drop_pending(stale)

    # -- what to publish ---------------------------------------------------------------------------------------

    def _judge(self, report: Report, held: Held, window: int, most_charges: int, key: bytes) -> _Verdict:
        if self.protection.policy is Policy.PLACE:
            return self._judge_place(report, held, window, most_charges, key)
        status = Status.PUBLISHED if self.protection.policy is Policy.OFF else Status.PENDING
        return _Verdict(status, wanted=Wanted(report.person, report.x_m, report.y_m))

    def _judge_place(self, report: Report, held: Held, window: int, most_charges: int, key: bytes) -> _Verdict:
        cells = self._grid.cells_near(report.x_m, report.y_m)
        tags = {place_tag(key, report.person, cell, window, self._grid.identity): cell for cell in cells}
        # Who was last in a cell that reaches as far as here is still in it; so borders do not flicker.
        for location in (held.pending, held.published):
            if location is not None and location.tag in tags:
                return _Verdict(Status.PENDING if location is held.pending else Status.SAME_PLACE, location)
        known = [tag for tag in tags if tag in held.charged]
        if not known and len(held.charged) >= most_charges:
            return _Verdict(Status.BUDGET_SPENT, held.published)
        tag = known[0] if known else next(iter(tags))
        return _Verdict(
            Status.PENDING, wanted=Wanted(report.person, *self._grid.centre_of(tags[tag]), cell=tags[tag], tag=tag)
        )

    # -- epochs ----------------------------------------------------------------------------------------------

    def publish_due(self) -> bool:
        """Publish if an epoch has begun that was not published yet, cheap if not; whether this call did it."""
        epoch = self.epoch
        if self._published_epoch >= epoch:
            return False
        last = self._store.last_epoch()
        done = last is None or last < epoch
        if done:
            done = self._store.publish(epoch, oldest_window=self.protection.schedule.window_of(epoch) - 1)
        # Somebody else may have done it; either way it is done.
        self._published_epoch = epoch
        return done


def current_epoch(schedule: Schedule, store: Store, now_s: float) -> int:
    """Return the epoch of a moment on a store, advanced as often as a test has asked."""
    return schedule.epoch_at(now_s) + _epoch_offset(store)


def _epoch_offset(store: Store) -> int:
    return int(store.setting(OFFSET_SETTING) or 0)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What a report leads to: a noisy location that is held already, one to be drawn, or nothing."""

    status: Status
    location: NoisyLocation | None = None
    wanted: Wanted | None = None

    def answer(self, fresh_receipt: str | None, publishes_at: float) -> Answer:
        """Return the answer to the report."""
        receipt = fresh_receipt or (self.location.receipt if self.location else "")
        return Answer(self.status, receipt, publishes_at if self.status is Status.PENDING else None)


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


_TRUE_PLACES = "without protection the store holds true places, and cells from them are not free"


def cells_from_store(store: Store, protection: Protection, plan: CellPlan | None = None) -> Cells:
    """Make cells from the places that a store has published. They are noisy already, so that costs nobody anything.

    Parameters
    ----------
    store : Store
        With people on the map.
    protection : Protection
        How they were published: noise in metres is taken out of the density again.
    plan : CellPlan, optional
        How cells are to be made.
    """
    if protection.policy is Policy.OFF:
        raise UsageError(_TRUE_PLACES)
    region = protection.region
    places = _places([batch.steps for batch in store.published()], region)
    if isinstance(protection.noise, HideAmong):
        return replace(cells_from_points(places, region, plan), source="published")
    return cells_from_published(places, region, protection.noise.hide_within_m, plan)


def cells_from_published_store(address: str, plan: CellPlan | None = None, *, region: Region | None = None) -> Cells:
    """Make cells from the published places of a store, with the noise that the store states. No key is needed.

    Parameters
    ----------
    address : str
        A SQLite file, or ``postgresql://…``. It is read only, and a service may be running on it.
    plan : CellPlan, optional
        How cells are to be made.
    region : Region, optional
        The region to make them for; a store of another one is refused. The store's if not given.
    """
    with reading_published(address) as reader:
        kept = reader.setting(STATED_SETTING)
        if kept is None:
            raise DataError(
                "the store does not state the noise of its published places; start its service once with this version, "
                "or export the places and give --published with --published-within"
            )
        stated = stated_noise(kept)
        if stated.policy is Policy.OFF:
            raise UsageError(_TRUE_PLACES)
        if stated.hide_within_m is None:
            raise UsageError(
                "the store's places are published with hide-among and state no planar noise to take out again; make "
                "the cells from public data (--density), or ask the service, which counts them as they are (GET "
                "/v1/cells)"
            )
        if region is not None and (region.scaling != "isotropic" or not region.same_edges(stated.region)):
            raise UsageError(f"the store is of the region {stated.region} with isotropic scaling; leave out the other")
        steps = reader.steps(stated.since_epoch)
    return cells_from_published(_places([steps], stated.region), stated.region, stated.hide_within_m, plan)


def _places(steps: Sequence[IntArray], region: Region) -> FloatArray:
    if sum(map(len, steps)) < 2:
        raise DataError("cells are made from two published people or more; wait until there are some")
    return region.clip(region.from_metres(np.vstack(steps).astype(np.float64) * STEP_M))


# The noise of many reports at once.


RECEIPT_BYTES = 12


@dataclass(frozen=True, slots=True)
class Wanted:
    """A noisy location to be drawn, in memory only: it never prints where.

    Attributes
    ----------
    x_m, y_m : float
        What the noise is drawn around: the centre of a cell or, with fresh noise, the place itself.
    cell : Cell or None
        Whose noise it is, where noise belongs to places.
    tag : bytes or None
        That of the place; random where noise does not belong to places.
    """

    person: str
    x_m: float = field(repr=False)
    y_m: float = field(repr=False)
    cell: Cell | None = field(default=None, repr=False)
    tag: bytes | None = field(default=None, repr=False)


class ReportNoise:
    """Draws for a protection."""

    def __init__(self, protection: Protection) -> None:
        self._policy = protection.policy
        self._noise = protection.noise
        self._grid = protection.grid.identity
        # Kept here, so that no report waits until they are made again.
        self._tables = self._noise.channel.tables if isinstance(self._noise, HideAmong) else ()
        self._half_extent_m = np.array(protection.region.half_extent_m)
        self._generator = secure_generator()
        self._drawing = threading.Lock()

    def perturb(self, wanted: Sequence[Wanted], window: int, key: bytes) -> list[NoisyLocation]:
        """Return a noisy location for each, in the order asked for; the key is that of the places of the window."""
        if not wanted:
            return []
        places_m = np.array([(one.x_m, one.y_m) for one in wanted])
        if isinstance(self._noise, HideAmong):
            unit_m = self._noise.resolved_region.metres_per_unit
            words = place_words(key, _cells(wanted), window, self._grid, count=2)
            places_m = draw_places(places_m / unit_m, words, *self._tables) * unit_m
        elif self._policy is not Policy.OFF:
            noise = exponential_from_uniforms(self._uniforms(wanted, window, key))
            places_m = displaced(places_m, noise, self._noise.rate_per_m)
        # Asked for once: the system is asked far more slowly than it answers.
        own = len(wanted) * (RECEIPT_BYTES + TAG_BYTES)
        fresh = iter(np.frombuffer(secrets.token_bytes(own), dtype=np.uint8).reshape(len(wanted), -1))
        return [
            NoisyLocation(
                person=one.person,
                x_steps=x_steps,
                y_steps=y_steps,
                tag=one.tag or bytes(random[RECEIPT_BYTES:]),
                window=window,
                receipt=bytes(random[:RECEIPT_BYTES]).hex(),
            )
            for one, (x_steps, y_steps), random in zip(wanted, self._steps(places_m).tolist(), fresh, strict=True)
        ]

    def _uniforms(self, wanted: Sequence[Wanted], window: int, key: bytes) -> FloatArray:
        if self._policy is Policy.FRESH:
            with self._drawing:
                return self._generator.random((len(wanted), 3, 2))
        return place_uniforms(key, _cells(wanted), window, self._grid)

    def _steps(self, places_m: FloatArray) -> IntArray:
        """Whole steps, clamped to the region's box, which looks at nothing but the noisy place."""
        inside = np.clip(places_m, -self._half_extent_m, self._half_extent_m)
        return np.rint(inside / STEP_M).astype(np.int64)


def _cells(wanted: Sequence[Wanted]) -> list[tuple[str, Cell]]:
    return [(one.person, one.cell) for one in wanted if one.cell]
