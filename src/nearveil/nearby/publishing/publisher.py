"""Publisher: perturbs reports on receipt, keeps only draws, and publishes them at the borders of epochs."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from nearveil.errors import DataError
from nearveil.mechanisms.exponential import exponential_from_uniforms, standard_exponential
from nearveil.nearby.publishing.keyed import TAG_BYTES, place_tag, place_uniforms
from nearveil.nearby.publishing.place_grid import Cell
from nearveil.nearby.publishing.protection import Policy, Protection
from nearveil.nearby.publishing.secret_keys import SecretKeys
from nearveil.nearby.stores.base import STEP_M, Draw, Held, Store, Writing
from nearveil.randomness import secure_generator
from nearveil.types import FloatArray

OFFSET_SETTING = "epoch_offset"


class Status(StrEnum):
    """What became of a report."""

    PENDING = "pending"
    """A draw waits for the next border."""
    SAME_PLACE = "same place"
    """The person is where they were: what is published, or waits, is right already."""
    BUDGET_SPENT = "budget spent"
    """One new place too many in this window: the last published place stays."""
    PUBLISHED = "published"
    """Protection is off: published at once."""
    UNKNOWN_PERSON = "unknown person"
    """Nobody of this id is known; nothing was kept."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the person is told.

    Attributes
    ----------
    receipt : str
        Names the draw that holds for the person now; empty if there is none.
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
    """Between people and a store: true places in, draws out.

    Usable inside anybody's own service: `report` and `publish_due` are all it takes.

    Parameters
    ----------
    protection : Protection
        What is done to places.
    keys : SecretKeys
        Of the noise.
    store : Store
        Where draws are kept.
    clock : callable, optional
        Seconds since 1970.

    Examples
    --------
    >>> from nearveil.nearby.publishing.secret_keys import new_keys
    >>> from nearveil.nearby.stores.sqlite import SqliteStore
    >>> from nearveil.region_names import named_region
    >>> store = SqliteStore.in_memory()
    >>> _ = store.add_people(["ann"])
    >>> publisher = Publisher(Protection(region=named_region("san-francisco")), new_keys(), store)
    >>> publisher.report("ann", 37.77, -122.42).status.value
    'pending'
    """

    def __init__(
        self, protection: Protection, keys: SecretKeys, store: Store, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.protection = protection
        self._keys = keys
        self._store = store
        self._clock = clock
        self._noise = protection.noise
        self._grid = protection.grid
        self._generator = secure_generator()
        self._drawing = threading.Lock()

    # -- time ------------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The epoch that it is now, advanced as often as a test has asked."""
        return self.protection.schedule.epoch_at(self._clock()) + self._offset()

    def starts_at(self, epoch: int) -> float:
        """Return when an epoch begins or began, in seconds since 1970."""
        return self.protection.schedule.starts_at(epoch - self._offset())

    def advance(self) -> int:
        """Go to the next epoch at once and publish: for tests and audits of one's own service."""
        self._store.keep_setting(OFFSET_SETTING, str(self._offset() + 1))
        self.publish_due()
        return self.epoch

    def _offset(self) -> int:
        return int(self._store.setting(OFFSET_SETTING) or 0)

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
        """Perturb reports and keep the draws, in one transaction; when it returns, they are kept durably.

        Of several reports of one person the last counts, and all are answered alike.
        """
        last = {report.person: report for report in reports}
        epoch = self.epoch + 1
        window = self.protection.schedule.window_of(epoch)
        with self._store.writing() as writing:
            held = writing.held(sorted(last), window)
            verdicts = {
                person: self._judge(report, held[person], window) for person, report in last.items() if person in held
            }
            self._keep(verdicts, held, writing, epoch)
        publishes_at = self.starts_at(epoch)
        answers = {person: _answer(verdict, publishes_at) for person, verdict in verdicts.items()}
        return [answers.get(report.person, Answer(Status.UNKNOWN_PERSON)) for report in reports]

    def _keep(self, verdicts: dict[str, _Verdict], held: dict[str, Held], writing: Writing, epoch: int) -> None:
        """Write what changed and nothing else."""
        fresh = [verdict.draw for verdict in verdicts.values() if verdict.draw and verdict.is_new]
        if self.protection.policy is Policy.OFF:
            writing.publish_now(fresh, epoch - 1)
            return
        writing.put_pending(fresh, epoch)
        # Somebody who is back at what is published, or may not publish where they are, has nothing waiting.
        stale = [
            person
            for person, verdict in verdicts.items()
            if held[person].pending is not None and not verdict.is_new and verdict.draw is not held[person].pending
        ]
        writing.drop_pending(stale)

    # -- what to publish ---------------------------------------------------------------------------------------

    def _judge(self, report: Report, held: Held, window: int) -> _Verdict:
        policy = self.protection.policy
        if policy is Policy.OFF:
            return _Verdict(Status.PUBLISHED, self._draw(report, (report.x_m, report.y_m), window), is_new=True)
        if policy is Policy.FRESH:
            return _Verdict(Status.PENDING, self._fresh(report, window), is_new=True)
        return self._judge_place(report, held, window)

    def _judge_place(self, report: Report, held: Held, window: int) -> _Verdict:
        key, side_m = self._keys.noise_key(window), self._grid.side_m
        cells = self._grid.cells_near(report.x_m, report.y_m)
        tags = {place_tag(key, report.person, cell, window, side_m): cell for cell in cells}
        # Who was last in a cell that reaches as far as here is still in it; so borders do not flicker.
        for draw in (held.pending, held.published):
            if draw is not None and draw.tag in tags:
                status = Status.PENDING if draw is held.pending else Status.SAME_PLACE
                return _Verdict(status, draw)
        known = [tag for tag in tags if tag in held.charged]
        if not known and len(held.charged) >= self.protection.most_charges:
            return _Verdict(Status.BUDGET_SPENT, held.published)
        tag = known[0] if known else next(iter(tags))
        return _Verdict(Status.PENDING, self._at_place(report, tags[tag], tag, window), is_new=True)

    def _at_place(self, report: Report, cell: Cell, tag: bytes, window: int) -> Draw:
        uniforms = place_uniforms(self._keys.noise_key(window), report.person, cell, window, self._grid.side_m)
        noisy = self._noise.displaced(np.array([self._grid.centre_of(cell)]), exponential_from_uniforms(uniforms))[0]
        return self._draw(report, noisy, window, tag)

    def _fresh(self, report: Report, window: int) -> Draw:
        with self._drawing:
            exponentials = standard_exponential(self._generator, 1, 3)
        noisy = self._noise.displaced(np.array([[report.x_m, report.y_m]]), exponentials)[0]
        return self._draw(report, noisy, window)

    def _draw(
        self, report: Report, noisy_m: FloatArray | tuple[float, float], window: int, tag: bytes | None = None
    ) -> Draw:
        half_width, half_height = self.protection.region.half_extent_m
        return Draw(
            person=report.person,
            x_steps=_steps(float(noisy_m[0]), half_width),
            y_steps=_steps(float(noisy_m[1]), half_height),
            tag=secrets.token_bytes(TAG_BYTES) if tag is None else tag,
            window=window,
            receipt=secrets.token_hex(12),
        )

    # -- borders ---------------------------------------------------------------------------------------------

    def publish_due(self) -> bool:
        """Publish if a border has passed that was not published yet; whether this call did it."""
        epoch = self.epoch
        last = self._store.last_epoch()
        if last is not None and last >= epoch:
            return False
        return self._store.publish(epoch, oldest_window=self.protection.schedule.window_of(epoch) - 1)


@dataclass(frozen=True, slots=True)
class _Verdict:
    status: Status
    draw: Draw | None
    is_new: bool = False


def _answer(verdict: _Verdict, publishes_at: float) -> Answer:
    waits = verdict.status is Status.PENDING
    return Answer(verdict.status, verdict.draw.receipt if verdict.draw else "", publishes_at if waits else None)


def _steps(value_m: float, half_m: float) -> int:
    """Whole steps, clamped to the region's box, which looks at nothing but the noisy place."""
    return round(min(max(value_m, -half_m), half_m) / STEP_M)
