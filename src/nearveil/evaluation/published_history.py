"""What a service publishes month by month of users who move.

`publish_journeys` sends the reports of users to the publisher of a running service, with a store in memory and a clock
that is set, so that what is measured is what is deployed.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from nearveil.errors import UsageError
from nearveil.evaluation.movement import FIRST_HOUR, HOUR, HOUR_KINDS, MONTH, Journeys, fixes, hour_kinds
from nearveil.nearby.publishing.keys import KEY_BYTES, SecretKeys, keyed_bytes, place_tags, service_key
from nearveil.nearby.publishing.protection import Cell, PlaceCells, PlaceGrid, Protection
from nearveil.nearby.publishing.publisher import Publisher, Report
from nearveil.nearby.stores.base import STEP_M, Held
from nearveil.nearby.stores.sqlite import SqliteStore
from nearveil.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """All that was published of one user: the different points, and for how many epochs each was shown.

    ``shown`` has the shape (months, points, kinds of hours). ``right`` is for each month the share of epochs in which
    the point shown is of the place where the user is.
    """

    points_m: FloatArray = field(repr=False)
    shown: FloatArray = field(repr=False)
    right: FloatArray = field(repr=False)


def publish_journeys(
    protection: Protection,
    journeys: Journeys,
    *,
    gps: float,
    rng: np.random.Generator,
    forgets: bool = False,
) -> list[History]:
    """Let users report in each epoch while they move, publish as a service does, and count what was shown when.

    A service that ``forgets`` begins with an empty store and other keys in each window, so that all noise is drawn
    again. Ours does not; it is to compare with. ``gps`` is the share of bad fixes.
    """
    schedule, keys = protection.schedule, SecretKeys(noise=rng.bytes(KEY_BYTES), tokens=rng.bytes(KEY_BYTES))
    if schedule.epoch != HOUR:
        raise UsageError("users move by the hour; choose epochs of one hour")
    where = journeys.where.astype(np.int64)
    reported = [fixes(own[at], gps, rng) for own, at in zip(journeys.places_m, where, strict=True)]
    fixes_m = np.clip(reported, *np.outer([-1, 1], protection.region.half_extent_m))
    epochs = np.arange(where.shape[1])
    # A report counts in the window of the next epoch.
    windows = (FIRST_HOUR + 1 + epochs) // schedule.epochs_per_window if forgets else np.zeros_like(epochs)
    changes: list[list[Change]] = [[] for _ in where]
    for window in np.unique(windows).tolist():
        begin, end = np.flatnonzero(windows == window)[[0, -1]].tolist()
        noise = keyed_bytes(keys.noise, "nearveil other keys", str(window).encode(), size=KEY_BYTES)
        own_keys = SecretKeys(noise=noise, tokens=keys.tokens) if forgets else keys
        service = _Service(protection, own_keys, fixes_m[:, begin : end + 1], FIRST_HOUR + begin)
        for own, more in zip(changes, service.run(), strict=True):
            own += [(begin + row, x, y) for row, x, y in more]
    of_hour, month_of = hour_kinds(len(epochs)), epochs // (MONTH // HOUR)
    return [_history(own, places, of_hour, month_of) for own, places in zip(changes, where, strict=True)]


# The epoch of the report after which a point is shown, counted from the first, and the point in steps.
Change = tuple[int, int, int]


class _Service:
    """The publisher of a service, and phones that report in each epoch: ``fixes_m`` has the shape (users, epochs, 2).

    A phone leaves out the reports that change nothing: those from the place that is published, if no other place was
    reported last. Tests compare this with sending all of them.
    """

    def __init__(self, protection: Protection, keys: SecretKeys, fixes_m: FloatArray, first_epoch: int) -> None:
        self._epoch, self._store, self._fixes_m = 0, SqliteStore.in_memory(), fixes_m
        starts_at = protection.schedule.starts_at
        self._publisher = Publisher(protection, keys, self._store, clock=lambda: starts_at(first_epoch + self._epoch))
        self._grid = self._publisher.protection.grid
        self._cells = number_of(cells_at(self._grid, fixes_m.reshape(-1, 2)).T).reshape(fixes_m.shape[:2])
        self._key = service_key(keys.noise, self._publisher.protection)
        self._names = [f"user-{number}" for number in range(len(fixes_m))]
        self._publisher.add_people(self._names)

    def run(self) -> list[list[Change]]:
        """Send the reports, publish after each epoch, and return what is shown of each user from when on."""
        changes: list[list[Change]] = [[] for _ in self._names]
        receipts: dict[int, str] = {}
        due = defaultdict(list, {0: list(range(len(changes)))})
        for number in range(self._fixes_m.shape[1]):
            senders = due.pop(number, [])
            if not senders:
                continue
            self._epoch = number
            fixes_m = self._fixes_m[senders, number].tolist()
            reports = [
                Report(self._names[who], x_m, y_m, receipts.get(who))
                for who, (x_m, y_m) in zip(senders, fixes_m, strict=True)
            ]
            answers = self._publisher.receive(reports)
            # Nothing waits from one epoch to the next but what was reported, so epochs without reports are left out.
            self._epoch = number + 1
            self._publisher.publish_due()
            with self._store.writing() as writing:
                states = writing.held([report.person for report in reports], 0)
            for who, report, answer in zip(senders, reports, answers, strict=True):
                receipts[who], state = answer.receipt, states[report.person]
                if state.published is not None:
                    changes[who].append((number, state.published.x_steps, state.published.y_steps))
                due[self._next_to_send(who, report, state)].append(who)
        self._store.close()
        return changes

    def _next_to_send(self, who: int, report: Report, state: Held) -> int:
        """Return the next epoch in which a report may change something, after the store has taken the last one."""
        after, candidate = self._epoch, state.standing.candidate if state.standing else None
        if state.published is None or candidate not in (None, state.published.tag):
            return after
        near = self._grid.cells_near(report.x_m, report.y_m)
        tags = place_tags(self._key, report.person, near, self._grid.identity)
        cell: Cell = near[tags.index(state.published.tag)]
        for row in (after + np.flatnonzero(self._cells[who, after:] != number_of(np.array(cell)))).tolist():
            if cell not in self._grid.cells_near(*self._fixes_m[who, row].tolist()):
                return int(row)
        return self._fixes_m.shape[1]


def cells_at(grid: PlaceGrid | PlaceCells, places_m: FloatArray) -> IntArray:
    """Return the cell of each place: the first that the grid's ``cells_near`` has, for many places at once."""
    if isinstance(grid, PlaceGrid):
        return np.floor(places_m / grid.side_m + 0.5).astype(np.int64)
    return grid.cells.find(places_m / grid.cells.region.metres_per_unit).astype(np.int64)[:, None]


def number_of(cell: IntArray) -> IntArray:
    """Return one number for a cell, or for each of them: columns and rows are far fewer than 2^20."""
    return np.asarray((cell[0] << 20) + cell[-1])


def _history(changes: list[Change], places: IntArray, of_hour: IntArray, month_of: IntArray) -> History:
    """Count for how long each point was shown, and how right it was."""
    # What is reported in an epoch is shown from the next one on.
    epochs = len(places)
    rows = np.array([change for change in changes if change[0] + 1 < epochs], dtype=np.int64).reshape(-1, 3)
    steps, point_of = np.unique(rows[:, 1:], axis=0, return_inverse=True)
    point_of, starts = point_of.reshape(-1), rows[:, 0] + 1
    points = np.repeat(point_of, np.diff(np.append(starts, epochs)))
    begin = epochs - len(points)
    shown = np.zeros((int(month_of[-1]) + 1, len(steps), len(HOUR_KINDS)))
    np.add.at(shown, (month_of[begin:], points, of_hour[begin:]), 1)
    # A point is of the place from which it was first reported.
    first = np.full(len(steps), epochs)
    np.minimum.at(first, point_of, rows[:, 0])
    is_right = np.append(np.zeros(begin), places[first][points] == places[begin:])
    return History(steps.astype(np.float64) * STEP_M, shown, np.bincount(month_of, is_right) / np.bincount(month_of))
