"""What a service publishes of people who move, month by month, and how right it is.

`publish_journeys` sends the reports of people (`nearveil.evaluation.movement`) through the publisher of a running
service, with a store in memory and a clock that is set, so that what is measured is what is deployed.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import numpy as np

from nearveil.errors import UsageError
from nearveil.evaluation.movement import HOUR, HOUR_KINDS, MONTH, GpsError, Journeys, ShortArray, fixes, hour_kinds
from nearveil.mechanisms.cell_steps import graph_of
from nearveil.nearby.publishing.keys import KEY_BYTES, SecretKeys, keyed_bytes, new_keys
from nearveil.nearby.publishing.protection import (
    LEAST_MARGIN_M,
    MARGIN_SHARE,
    PlaceCells,
    PlaceGrid,
    Protection,
)
from nearveil.nearby.publishing.publisher import Publisher, Report
from nearveil.nearby.stores.base import STEP_M, Computing, Held, NoisyLocation, Point, PublishedBatch, Standing, Writing
from nearveil.nearby.stores.sqlite import SqliteStore
from nearveil.types import BoolArray, FloatArray, IntArray, Progress

# Some day in 2019 that begins a window of 30 days, and one of 720.
_FIRST_DAY_S = 18_000 * 86_400.0


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
    settled = _Settled(protection, first, where.shape[1], forgets=forgets, skips=leave_out_repeats)
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
        store = _Notebook.in_memory() if settled.skips else SqliteStore.in_memory()
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
        answers = publisher.receive([Report(names[who], *phones[who].fix, phones[who].receipt) for who in senders])
        for who, answer in zip(senders, answers, strict=True):
            phones[who].sent(settled.noise(number), answer.receipt)
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
    secret = keyed_bytes(keys.noise, "nearveil other keys", str(number).encode(), size=KEY_BYTES)
    return SecretKeys(noise=secret, tokens=keys.tokens)


@dataclass(slots=True)
class _Page:
    """What a `_Notebook` holds about one person; known places are in the order in which they were drawn."""

    pending: NoisyLocation | None = None
    published: NoisyLocation | None = None
    known: dict[bytes, Point] = field(default_factory=dict)
    charged: Counter[int] = field(default_factory=Counter)
    standing: Standing | None = None

    def charge(self, location: NoisyLocation) -> None:
        if location.tag not in self.known:
            self.known[location.tag] = location.x_steps, location.y_steps
            self.charged[location.window] += 1


class _Notebook(SqliteStore):
    """A store whose reports and epochs are in dictionaries: a service's without its disk, several times as fast."""

    def __init__(self) -> None:
        self._open(None)
        self._pages: defaultdict[str, _Page] = defaultdict(_Page)
        self._waiting: list[NoisyLocation] = []
        self._published_now: list[NoisyLocation] = []
        self._epoch: int | None = None

    @classmethod
    def in_memory(cls) -> _Notebook:
        return cls()

    @contextmanager
    def writing(self, computing: Computing = nullcontext) -> Iterator[Writing]:
        with computing():
            yield self

    def settle_due(self, people: Sequence[str], epoch: int) -> None:
        """Nothing is due: what waits is published before the next report comes."""

    def held(self, people: Sequence[str], window: int) -> dict[str, Held]:
        pages = {person: self._pages[person] for person in people}
        return {
            person: Held(
                pending=page.pending,
                published=page.published,
                known=page.known,
                charged=page.charged[window],
                standing=page.standing,
            )
            for person, page in pages.items()
        }

    def put_pending(self, locations: Sequence[NoisyLocation], epoch: int) -> None:
        for location in locations:
            self._pages[location.person].pending = location
        self._waiting += locations

    def charge(self, locations: Sequence[NoisyLocation]) -> None:
        for location in locations:
            self._pages[location.person].charge(location)

    def put_standings(self, standings: Mapping[str, Standing]) -> None:
        for person, standing in standings.items():
            self._pages[person].standing = standing

    def drop_pending(self, people: Sequence[str]) -> None:
        for person in people:
            self._pages[person].pending = None

    def publish(self, epoch: int, *, window: int, computing: Computing = nullcontext) -> bool:
        # What was dropped meanwhile waits no more.
        self._published_now = [one for one in self._waiting if self._pages[one.person].pending is one]
        self._waiting, self._epoch = [], epoch
        for location in self._published_now:
            page = self._pages[location.person]
            page.charge(location)
            page.published, page.pending = location, None
        return True

    def last_epoch(self) -> int | None:
        return self._epoch

    def published(self, *, since_epoch: int | None = None) -> Iterator[PublishedBatch]:
        steps = np.array([(one.x_steps, one.y_steps) for one in self._published_now], dtype=np.int64).reshape(-1, 2)
        yield PublishedBatch([one.person for one in self._published_now], steps)


class _Settled:
    """The rules by which a report cannot change anything: when windows and noise begin, and how long a place lasts.

    Parameters
    ----------
    first_epoch, epochs : int
        The first one, and how many there are; reports are numbered from the first.
    """

    def __init__(self, protection: Protection, first_epoch: int, epochs: int, *, forgets: bool, skips: bool) -> None:
        self.protection, self.first_epoch, self.forgets, self.skips = protection, first_epoch, forgets, skips
        # A report counts in the window of the next epoch.
        self._windows = (first_epoch + 1 + np.arange(epochs)) // protection.schedule.epochs_per_window
        # Where a service forgets, each window has noise of its own.
        self._noises = self._windows if forgets else np.zeros_like(self._windows)

    def noise(self, number: int) -> int:
        """The noise that reports of an epoch get."""
        return int(self._noises[number])

    def window_ends(self, number: int) -> int:
        """The first epoch whose report falls into another window."""
        return int(np.searchsorted(self._windows, self._windows[number], side="right"))

    def noise_ends(self, number: int) -> int:
        """The first epoch whose report gets other noise."""
        return int(np.searchsorted(self._noises, self._noises[number], side="right"))


class _Phone:
    """The reports of one phone, and which of them have to be sent.

    It follows in which cell the publisher has the person. Reports from there, and from places that do not last as long
    as they must to count, are left out; when the budget is spent, so are repeats. Were it wrong, reports would be left
    out that matter: tests compare it with sending all of them.

    Parameters
    ----------
    epochs : ndarray of int
        In which epochs it reports, counted from the first.
    fixes_m : ndarray of shape (n, 2)
        What it reports.
    """

    _AT_ONCE = 256

    def __init__(self, ground: Ground, epochs: IntArray, fixes_m: FloatArray) -> None:
        self.epochs, self._fixes_m, self._ground = epochs, fixes_m, ground
        self._cells = ground.cells_at(fixes_m)
        self.receipt: str | None = None
        self._row = 0
        self._noise = -1
        self._published: int | None = None
        self._candidate: int | None = None
        self._seen = 0

    @property
    def fix(self) -> tuple[float, float]:
        """What it reports now."""
        x_m, y_m = self._fixes_m[self._row].tolist()
        return x_m, y_m

    def _within(self, cell: int | None, start: int, end: int) -> BoolArray:
        """Whether the cell reaches as far as each of these reports."""
        if cell is None:
            return np.zeros(max(0, end - start), dtype=np.bool_)
        return self._ground.reaches(cell, self._cells[start:end], self._fixes_m[start:end])

    def sent(self, noise: int, receipt: str) -> None:
        """Take note that the report was sent, in which noise of many, and of its receipt."""
        row, self.receipt = self._row, receipt
        if noise != self._noise:
            self._noise, self._published, self._candidate = noise, None, None
        if self._within(self._published, row, row + 1).any():
            self._candidate = None
        elif self._within(self._candidate, row, row + 1).any():
            self._seen += 1
        else:
            self._candidate, self._seen = int(self._cells[row]), 1

    def published(self) -> None:
        """Take note that the person is published at another place from now on."""
        if self._candidate is not None:
            self._published, self._candidate = self._candidate, None

    def next_report(self, settled: _Settled) -> int | None:
        """Go to the next report that has to be sent, and return its epoch; None after the last one."""
        number = int(self.epochs[self._row])
        self._row += 1
        if settled.skips and self._published is not None:
            dwell = settled.protection.dwell_epochs
            if self._candidate is None:
                self._go_to_stay(int(np.searchsorted(self.epochs, settled.noise_ends(number))), dwell)
            elif self._seen >= dwell:
                self._go_past_repeats(int(np.searchsorted(self.epochs, settled.window_ends(number))))
        return int(self.epochs[self._row]) if self._row < len(self.epochs) else None

    def _go_to_stay(self, last: int, dwell: int) -> None:
        """Go to where the person leaves the published cell for another, for long enough; the last row if nowhere."""
        while self._row < last:
            start, end = self._row, min(last, self._row + self._AT_ONCE)
            # A stay that begins here may end beyond.
            away = ~self._within(self._published, start, min(last, end + dwell - 1))
            for row in (start + np.flatnonzero(away[: end - start])).tolist():
                if row < self._row:
                    continue
                # What does not last until noise begins anew, or reports end, does not last.
                stays = self._stays(row, away[row - start : row - start + dwell])
                if stays == dwell:
                    self._row = row
                    return
                self._row = row + stays
            self._row = max(self._row, end)

    def _stays(self, row: int, away: BoolArray) -> int:
        """In how many reports, of as many as are given, somebody stays in the cell of the first one."""
        if len(away) < 2 or not away[1]:
            return 1
        stays = away & self._within(int(self._cells[row]), row, row + len(away))
        return len(away) if stays.all() else int(np.argmin(stays))

    def _go_past_repeats(self, last: int) -> None:
        while self._row < last:
            end = min(last, self._row + self._AT_ONCE)
            repeats = self._within(self._candidate, self._row, end) & ~self._within(self._published, self._row, end)
            if not repeats.all():
                self._row += int(np.argmin(repeats))
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

    _ROWS = 1 << 20

    def __init__(self, protection: Protection) -> None:
        grid = protection.grid
        self._people = grid if isinstance(grid, PlaceCells) else None
        self._metres = grid if isinstance(grid, PlaceGrid) else PlaceGrid(1.0)
        if self._people is not None:
            cells = self._people.cells
            self._boxes_m, self._sides_m = cells.boxes() * cells.region.metres_per_unit, cells.sides_m

    def cells_at(self, places_m: FloatArray) -> IntArray:
        """Return a number for the cell of each place."""
        if self._people is not None:
            cells = self._people.cells
            return cells.find(places_m / cells.region.metres_per_unit).astype(np.int64)
        return self._numbers(places_m / self._metres.side_m + 0.5)

    def _numbers(self, units: FloatArray) -> IntArray:
        column, row = np.floor(units).astype(np.int64).T
        return np.asarray(column * self._ROWS + row + self._ROWS // 2)

    def centres_m(self, cells: IntArray) -> FloatArray:
        """Return the centres of cells."""
        if self._people is not None:
            return np.array([self._people.centre_of((number,)) for number in cells.tolist()]).reshape(-1, 2)
        column, row = cells // self._ROWS, cells % self._ROWS - self._ROWS // 2
        return np.column_stack([column, row]).astype(np.float64) * self._metres.side_m

    def reaches(self, cell: int, cells: IntArray, places_m: FloatArray) -> BoolArray:
        """Whether somebody who was in a cell counts as in it at each of these places, which lie in these cells.

        The same as that the grid's ``cells_near`` has the cell, for many places at once.
        """
        if self._people is None:
            side_m, margin_m = self._metres.side_m, self._metres.margin_m
            own = np.array([cell // self._ROWS, cell % self._ROWS - self._ROWS // 2])
            first = np.floor((places_m - margin_m) / side_m + 0.5)
            last = np.floor((places_m + margin_m) / side_m + 0.5)
            return np.asarray(((first <= own) & (own <= last)).all(axis=1))
        west, south, east, north = self._boxes_m[cell].tolist()
        x_m, y_m = places_m.T
        away_m = np.max([west - x_m, x_m - east, south - y_m, y_m - north], axis=0)
        margin_m = np.maximum(MARGIN_SHARE * np.minimum(self._sides_m[cell], self._sides_m[cells]), LEAST_MARGIN_M)
        graph = graph_of(self._people.cells)
        touching = np.isin(cells, graph.neighbours[graph.starts[cell] : graph.starts[cell + 1]])
        return np.asarray((cells == cell) | (touching & (away_m <= margin_m)))
