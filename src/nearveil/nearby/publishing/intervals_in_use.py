"""Which intervals are used in which epoch. The store records it, so that all processes and restarts agree."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nearveil.errors import DataError
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.intervals import Intervals, intervals_from_document, intervals_from_json
from nearveil.nearby.index import Remap
from nearveil.nearby.publishing.publisher import Publisher
from nearveil.nearby.stores.base import STEP_M, Store
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray

CURRENT_SETTING = "intervals"
NEXT_SETTING = "intervals_next"
FILE_SETTING = "intervals_file"

_LONGEST_MARGIN_S = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class Dated:
    """Intervals and the epoch from which on they hold."""

    from_epoch: int
    intervals: Intervals

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the intervals."""
        return fingerprint(self.intervals)


class IntervalsInUse:
    """The intervals of a service, now and from the next epoch on.

    Parameters
    ----------
    store : Store
        Keeps them.
    region : Region
        Of the service; intervals of another one are refused.
    """

    def __init__(self, store: Store, region: Region) -> None:
        self._store = store
        self._region = region
        self._read: dict[str, Dated] = {}

    def at(self, epoch: int) -> Dated | None:
        """Return the intervals of an epoch; None while there are none."""
        holding = [dated for dated in self._all() if dated.from_epoch <= epoch]
        return max(holding, key=lambda dated: dated.from_epoch, default=None)

    def after(self, epoch: int) -> Dated | None:
        """Return what will hold later on, if it is known already."""
        coming = [dated for dated in self._all() if dated.from_epoch > epoch]
        return max(coming, key=lambda dated: dated.from_epoch, default=None)

    def put(self, intervals: Intervals, *, epoch: int, from_epoch: int) -> None:
        """Let intervals hold from an epoch on, in place of others that were still to come."""
        self.check(intervals)
        current = self.at(epoch)
        # The current intervals first, then the next ones: a reader in between sees a consistent state.
        if current is not None:
            _keep(self._store, CURRENT_SETTING, current)
        _keep(self._store, NEXT_SETTING, Dated(from_epoch, intervals))

    def put_file(self, intervals: Intervals, *, epoch: int) -> None:
        """Take what an operator names at the start, once: what is put later by a call survives a restart."""
        self.check(intervals)
        if self._store.setting(FILE_SETTING) == fingerprint(intervals):
            return
        # Nothing was ever published: they may hold at once. Otherwise an epoch that has begun keeps what it has.
        never_published = self._store.last_epoch() is None
        self.put(intervals, epoch=epoch, from_epoch=0 if never_published else epoch + 1)
        self._store.keep_setting(FILE_SETTING, fingerprint(intervals))

    def check(self, intervals: Intervals) -> None:
        """Refuse intervals of another region."""
        if intervals.region.scaling != "isotropic" or not intervals.region.same_edges(self._region):
            raise DataError(
                f"the intervals are not for the service's region {self._region} with isotropic scaling; fit again"
            )

    def remap(self, epoch: int) -> Remap:
        """Return the function from noisy locations to published ones in an epoch."""
        dated = self.at(epoch)
        if dated is None:
            return _clamped(self._region)
        mechanism, region = DPRS(release="metric", intervals=dated.intervals), self._region

        def moved(steps: IntArray) -> FloatArray:
            return region.to_metres(mechanism.remap(region.from_metres(steps.astype(np.float64) * STEP_M)))

        return moved

    # -- inside ------------------------------------------------------------------------------------------------

    def _all(self) -> list[Dated]:
        texts = [self._store.setting(name) for name in (CURRENT_SETTING, NEXT_SETTING)]
        read = {text: self._read.get(text) or _dated(text) for text in texts if text is not None}
        self._read = read
        return list(read.values())


def set_intervals_back(store: Store, epoch: int) -> None:
    """Let what was to hold from a later epoch on hold from the next one on: a clock was ahead when it was put."""
    for name, latest in ((CURRENT_SETTING, epoch), (NEXT_SETTING, epoch + 1)):
        text = store.setting(name)
        dated = None if text is None else _dated(text)
        if dated is not None and dated.from_epoch > latest:
            _keep(store, name, Dated(latest, dated.intervals))


def _keep(store: Store, name: str, dated: Dated) -> None:
    document = {"from_epoch": dated.from_epoch, "intervals": dated.intervals.to_document()}
    store.keep_setting(name, json.dumps(document, allow_nan=False))


def next_safe_epoch(publisher: Publisher, now_s: float) -> int:
    """Return the epoch from which on something new may hold: the next one, unless it is about to begin.

    Other processes read at the epoch boundary what holds from then on; they must all read the same.
    """
    following = publisher.epoch + 1
    margin_s = min(_LONGEST_MARGIN_S, publisher.protection.schedule.epoch_s / 4)
    return following if publisher.starts_at(following) - now_s >= margin_s else following + 1


def read_intervals_file(path: Path) -> Intervals:
    """Read the file that an operator names at the start."""
    try:
        return intervals_from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise DataError(f"the intervals file {path} cannot be read; name a file from 'nearveil fit'") from None


def fingerprint(intervals: Intervals) -> str:
    """Return the SHA-256 of intervals, independent of the layout of their file."""
    document = json.dumps(intervals.to_document(), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(document.encode()).hexdigest()


def _dated(text: str) -> Dated:
    document = json.loads(text)
    return Dated(int(document["from_epoch"]), intervals_from_document(document["intervals"]))


def _clamped(region: Region) -> Remap:
    half_extent = np.array(region.half_extent_m)

    def clamp(steps: IntArray) -> FloatArray:
        inside: FloatArray = np.clip(steps * STEP_M, -half_extent, half_extent)
        return inside

    return clamp
