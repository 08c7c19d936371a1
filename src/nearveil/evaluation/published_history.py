"""What a service publishes of people who move, month by month, and how right it is.

`publish_journeys` sends the reports of people (`nearveil.evaluation.movement`) through the publisher of a running
service, with a store in memory and a clock that is set, so that what is measured is what is deployed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from nearveil.errors import UsageError
from nearveil.evaluation.movement import HOUR, HOUR_KINDS, MONTH, GpsError, Journeys, ShortArray, fixes, hour_kinds
from nearveil.mechanisms.planar_laplace import DEFAULT_HIDE_WITHIN_M
from nearveil.nearby.publishing.keys import KEY_BYTES, NoiseKey, SecretKeys, keyed_bytes, new_keys
from nearveil.nearby.publishing.protection import MARGIN_SHARE, PlaceCells, PlaceGrid, Policy, Protection, Schedule
from nearveil.nearby.publishing.publisher import Publisher, Report
from nearveil.nearby.stores.base import STEP_M
from nearveil.nearby.stores.sqlite import SqliteStore
from nearveil.region import Region
from nearveil.types import BoolArray, FloatArray, IntArray, Progress

# Some day in 2019 that begins a window of 30 days, and one of 720.
_FIRST_DAY_S = 18_000 * 86_400.0


# -- protections to compare ------------------------------------------------------------------------------------


def noise_per_place(region: Region, hide_within_m: float = DEFAULT_HIDE_WITHIN_M) -> Protection:
    """Return the policy of a service by default: hourly epochs, windows of 30 days."""
    return Protection(region=region, hide_within_m=hide_within_m, schedule=Schedule(epoch=HOUR, window=MONTH))


def fresh_noise(region: Region, hide_within_m: float = DEFAULT_HIDE_WITHIN_M) -> Protection:
    """Return a bad practice: the same noise, drawn anew every hour, as if each hour were on its own."""
    hourly = Schedule(epoch=HOUR, window=HOUR)
    return Protection(region=region, policy=Policy.FRESH, hide_within_m=hide_within_m, schedule=hourly)


# -- what is published of people who move ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """All that was published of one person.

    Attributes
    ----------
    points_m : ndarray of shape (k, 2)
        The different points, in the order in which they came up.
    held : ndarray of shape (months, k, kinds of hours)
        For how many epochs each point was shown in each month, by the kind of hour (`HOUR_KINDS`).
    """

    points_m: FloatArray = field(repr=False)
    held: FloatArray = field(repr=False)

    def points_by_month(self) -> IntArray:
        """Return how many different points were shown in each month."""
        return np.asarray((self.held.sum(axis=2) > 0).sum(axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class PublishedJourneys:
    """What was published of everybody, and how right it was.

    Attributes
    ----------
    histories : list of History
        One for each person.
    right : ndarray
        For each month, the share of the time in which the point shown is of the place that the person is at.
    unpublished : ndarray
        For each month, the share of places visited in it of which no point was shown in it.
    """

    histories: list[History]
    right: FloatArray
    unpublished: FloatArray


def first_moment(protection: Protection) -> float:
    """Return the beginning of the window in which people begin to report, in seconds since 1970."""
    schedule = protection.schedule
    windows = math.ceil(_FIRST_DAY_S / schedule.window.total_seconds())
    return windows * schedule.window.total_seconds()


def publish_journeys(
    protection: Protection,
    journeys: Journeys,
    *,
    gps: GpsError | None = None,
    reports: float = 1.0,
    keys: SecretKeys | None = None,
    forgets: bool = False,
    rng: np.random.Generator | int = 1,
    leave_out_repeats: bool = True,
    progress: Progress | None = None,
) -> PublishedJourneys:
    """Let people report while they move, publish as a service does, and keep what was shown when.

    Parameters
    ----------
    protection : Protection
        What the service does; epochs of whole hours.
    journeys : Journeys
        Where everybody is.
    gps : GpsError, optional
        How far fixes are off; not at all by default.
    reports : float
        Share of epochs in which a person reports: 1 for every epoch, less for somebody who reports now and then.
    keys : SecretKeys, optional
        Of the noise; new ones by default.
    forgets : bool
        Begin with an empty store and other keys in every window, so that all noise is drawn anew. A service does not do
        that; it is to compare with.
    leave_out_repeats : bool
        Do not send reports that cannot change anything: from a cell that the person has settled in.
    progress : callable, optional
        Called with the number of reports just taken.
    """
    epoch = protection.schedule.epoch
    if epoch % HOUR:
        raise UsageError("people move by the hour; choose epochs of whole hours")
    if not len(journeys) or journeys.where.shape[1] < 2 * (epoch // HOUR):
        raise UsageError("there must be at least one person who is followed for at least two epochs")
    if not 0 < reports <= 1:
        raise UsageError("the share of epochs with a report is more than 0 and at most 1")
    generator, hours_each = np.random.default_rng(rng), epoch // HOUR
    where = journeys.where[:, ::hours_each]
    half_extent = np.array(protection.region.half_extent_m)
    ground = Ground(protection)
    phones = []
    for who, visited in enumerate(where):
        found = fixes(journeys.places_m[who, visited], gps or GpsError(sigma_m=0.0), generator)
        sending = np.arange(len(found)) if reports >= 1 else np.flatnonzero(generator.random(len(found)) < reports)
        phones.append(_Phone(ground, sending, np.clip(found[sending], -half_extent, half_extent)))
    first = protection.schedule.epoch_at(journeys.starts_s)
    settled = _Settled(protection, first, forgets, leave_out_repeats and protection.policy is Policy.PLACE)
    shown = _shown(settled, phones, keys or new_keys(), progress)
    of_hour = hour_kinds(journeys.starts_s, journeys.where.shape[1])[::hours_each]
    return _counted(shown, where, of_hour, MONTH // epoch)


Change = tuple[int, int, int]
"""The epoch of the report after which a point is shown, counted from the first, and the point in steps."""


def _shown(settled: _Settled, phones: list[_Phone], keys: SecretKeys, progress: Progress | None) -> list[list[Change]]:
    """Send reports to the publisher of a service, and return what is shown of each person from when on."""
    schedule, first_epoch = settled.protection.schedule, settled.first_epoch
    now_s = schedule.starts_at(first_epoch)
    names = [f"person-{number}" for number in range(len(phones))]
    number_of = {name: number for number, name in enumerate(names)}
    changes: list[list[Change]] = [[] for _ in names]

    def begin(noise: int) -> tuple[Publisher, SqliteStore]:
        store = SqliteStore.in_memory()
        own = _other_keys(keys, noise) if settled.forgets else keys
        publisher = Publisher(settled.protection, own, store, clock=lambda: now_s)
        publisher.add_people(names)
        return publisher, store

    noise = settled.noise(0)
    publisher, store = begin(noise)
    due: defaultdict[int, list[int]] = defaultdict(list)
    for who, phone in enumerate(phones):
        if len(phone.epochs):
            due[int(phone.epochs[0])].append(who)
    for number in range(max(int(phone.epochs[-1]) for phone in phones if len(phone.epochs)) + 1):
        senders = due.pop(number, [])
        if not senders:
            continue
        now_s = schedule.starts_at(first_epoch + number)
        if settled.forgets and settled.noise(number) != noise:
            store.close()
            noise = settled.noise(number)
            publisher, store = begin(noise)
        publisher.receive([Report(names[who], *phones[who].fix) for who in senders])
        for who in senders:
            phones[who].sent(settled.noise(number))
        # Nothing waits from one epoch to the next but what was reported, so that epochs without a report are left out.
        now_s = schedule.starts_at(first_epoch + number + 1)
        publisher.publish_due()
        for batch in store.published(since_epoch=publisher.epoch):
            for name, (x_steps, y_steps) in zip(batch.people, batch.steps.tolist(), strict=True):
                who = number_of[name]
                changes[who].append((number, x_steps, y_steps))
                phones[who].published()
        for who in senders:
            upcoming = phones[who].next_report(settled)
            if upcoming is not None:
                due[upcoming].append(who)
        if progress:
            progress(len(senders))
    store.close()
    return changes


def _other_keys(keys: SecretKeys, number: int) -> SecretKeys:
    """Return keys that have nothing in common with those of another number."""
    secret = keyed_bytes(keys.noise_key(0), "nearveil other keys", str(number).encode(), size=KEY_BYTES)
    return SecretKeys(noise=(NoiseKey(0, secret),), tokens=keys.tokens)


@dataclass(frozen=True, slots=True)
class _Settled:
    """When a report cannot change anything: the publisher has seen so many like it, and no window begins.

    The publisher looks only at the cells that reach as far as a report. Who is within reach of the cell whose point is
    shown, or where the same cells reach, as often as a place needs to count, and once more, has settled. Reports that
    repeat this are not sent until a window begins, and with it perhaps other noise.
    """

    protection: Protection
    first_epoch: int
    forgets: bool
    skips: bool

    def noise(self, number: int) -> int:
        """The noise that reports of an epoch get, by the window with which it begins."""
        schedule = self.protection.schedule
        window, since = (schedule.window_of(self.first_epoch + one + 1) for one in (number, 0))
        return window if self.forgets else self.protection.noise_begins(window, since)

    @property
    def reports(self) -> int:
        """How many in a row it takes."""
        return self.protection.dwell_epochs + 1

    def until(self, number: int) -> int:
        """The first epoch, counted from the first one, whose report falls into another window."""
        each = self.protection.schedule.epochs_per_window
        counts_in = self.first_epoch + number + 1
        return counts_in - counts_in % each + each - self.first_epoch - 1


class _Phone:
    """The reports of one phone, and which of them have to be sent.

    It follows in which cell the publisher has the person. Were it wrong, reports would be left out that matter: tests
    compare it with sending all of them.

    Parameters
    ----------
    epochs : ndarray of int
        In which epochs it reports, counted from the first.
    fixes_m : ndarray of shape (n, 2)
        What it reports.
    """

    _AT_ONCE = 512

    def __init__(self, ground: Ground, epochs: IntArray, fixes_m: FloatArray) -> None:
        self.epochs, self._fixes_m, self._ground = epochs, fixes_m, ground
        self._cells = ground.cells_at(fixes_m)
        self._alikes = ground.alike_at(fixes_m)
        self._row = 0
        self._within, self._alike = 0, 0
        self._noise = -1
        self._published: int | None = None
        self._candidate: int | None = None

    @property
    def fix(self) -> tuple[float, float]:
        """What it reports now."""
        x_m, y_m = self._fixes_m[self._row].tolist()
        return x_m, y_m

    def sent(self, noise: int) -> None:
        """Take note that the report was sent, in which noise of many."""
        near = self._ground.cells_near(*self.fix)
        if noise != self._noise:
            self._noise, self._published, self._candidate = noise, None, None
        if self._published in near:
            self._within += 1
            self._candidate = None
        else:
            self._within = 0
            if self._candidate not in near:
                self._candidate = near[0]
        row = self._row
        self._alike = self._alike + 1 if row and self._alikes[row] == self._alikes[row - 1] else 1

    def published(self) -> None:
        """Take note that the person is published at another place from now on."""
        if self._candidate is not None:
            self._published, self._candidate = self._candidate, None
            self._within = 1

    def next_report(self, settled: _Settled) -> int | None:
        """Go to the next report that has to be sent, and return its epoch; None after the last one."""
        row = self._row
        self._row += 1
        if settled.skips:
            last = int(np.searchsorted(self.epochs, settled.until(int(self.epochs[row]))))
            if self._within >= settled.reports and self._published is not None:
                reaches = self._ground.reaching(self._published)
                self._skip(last, lambda start, end: reaches(self._cells[start:end], self._fixes_m[start:end]))
            elif self._alike >= settled.reports and not self._within:
                self._skip(last, lambda start, end: self._alikes[start:end] == self._alikes[row])
            if self._row == last:
                self._within = self._alike = 0
        return int(self.epochs[self._row]) if self._row < len(self.epochs) else None

    def _skip(self, last: int, repeats: Callable[[int, int], BoolArray]) -> None:
        while self._row < last:
            end = min(last, self._row + self._AT_ONCE)
            other = np.flatnonzero(~repeats(self._row, end))
            if len(other):
                self._row += int(other[0])
                return
            self._row = end


def _counted(
    changes: list[list[Change]], where: ShortArray, of_hour: IntArray, epochs_a_month: int
) -> PublishedJourneys:
    """Count for how long each point was shown, and how right it was."""
    epochs = where.shape[1]
    month_of = np.arange(epochs) // epochs_a_month
    months = int(month_of[-1]) + 1
    lengths = np.bincount(month_of)
    right, missed, visited = np.zeros(months), np.zeros(months), np.zeros(months)
    histories = []
    for own, places in zip(changes, where.astype(np.int64), strict=True):
        # What is reported in an epoch is shown from the next one on.
        rows = np.array([change for change in own if change[0] + 1 < epochs], dtype=np.int64).reshape(-1, 3)
        steps, point_of = np.unique(rows[:, 1:], axis=0, return_inverse=True)
        starts = rows[:, 0] + 1
        nothing = int(starts[0]) if len(starts) else epochs
        shown = np.repeat(point_of.reshape(-1), np.diff(np.append(starts, epochs)))
        held = np.zeros((months, len(steps), len(HOUR_KINDS)))
        np.add.at(held, (month_of[nothing:], shown, of_hour[nothing:]), 1)
        histories.append(History(steps.astype(np.float64) * STEP_M, held))
        # A point is of the place from which it was first reported.
        first = np.full(len(steps), epochs)
        np.minimum.at(first, point_of.reshape(-1), rows[:, 0])
        place = np.concatenate([np.full(nothing, -1), places[first][shown]])
        right += np.bincount(month_of, place == places)
        been = set(zip(month_of.tolist(), places.tolist(), strict=True))
        visited += np.bincount([month for month, _ in been], minlength=months)
        never = been - set(zip(month_of.tolist(), place.tolist(), strict=True))
        missed += np.bincount([month for month, _ in never], minlength=months)
    return PublishedJourneys(histories, right / (len(where) * lengths), missed / visited)


class Ground:
    """The cells of a protection, many at once: what an attacker knows of the map."""

    # Fresh noise has no cells; these are small enough to stand for the places in them.
    _FINE_M = 20.0
    _ROWS = 1 << 20

    def __init__(self, protection: Protection) -> None:
        grid = protection.grid
        self._people = grid if isinstance(grid, PlaceCells) else None
        self._metres = grid if isinstance(grid, PlaceGrid) else PlaceGrid(1.0)
        if protection.policy is not Policy.PLACE:
            self._metres = PlaceGrid(self._FINE_M)

    def cells_at(self, places_m: FloatArray) -> IntArray:
        """Return a number for the cell of each place."""
        if self._people is not None:
            cells = self._people.cells
            return cells.find(places_m / cells.region.metres_per_unit).astype(np.int64)
        return self._numbers(places_m / self._metres.side_m + 0.5)

    def alike_at(self, places_m: FloatArray) -> IntArray:
        """Return a number for each place; where it is the same, the same cells reach, and the nearest is the same."""
        if self._people is not None:
            return np.arange(len(places_m))
        # The margin is half a side, so that other cells reach beyond the middle of a cell.
        return self._numbers(places_m / (self._metres.side_m * MARGIN_SHARE))

    def _numbers(self, units: FloatArray) -> IntArray:
        column, row = np.floor(units).astype(np.int64).T
        return np.asarray(column * self._ROWS + row + self._ROWS // 2)

    def centres_m(self, cells: IntArray) -> FloatArray:
        """Return the centres of cells."""
        if self._people is not None:
            return np.array([self._people.centre_of((number,)) for number in cells.tolist()]).reshape(-1, 2)
        column, row = cells // self._ROWS, cells % self._ROWS - self._ROWS // 2
        return np.column_stack([column, row]).astype(np.float64) * self._metres.side_m

    def cells_near(self, x_m: float, y_m: float) -> list[int]:
        """Return the numbers of all cells that somebody here may count as in, their own first."""
        if self._people is not None:
            return [number for (number,) in self._people.cells_near(x_m, y_m)]
        return [column * self._ROWS + row + self._ROWS // 2 for column, row in self._metres.cells_near(x_m, y_m)]

    def reaching(self, cell: int) -> Callable[[IntArray, FloatArray], BoolArray]:
        """Return whether somebody who was in a cell surely still counts as in it, given cells and places."""
        if self._people is not None:
            return lambda cells, _places_m: np.asarray(cells == cell)
        centre_m = self.centres_m(np.array([cell]))[0]
        reach_m = self._metres.side_m / 2 + self._metres.margin_m
        return lambda _cells, places_m: np.asarray(np.abs(places_m - centre_m).max(axis=1) < reach_m)
