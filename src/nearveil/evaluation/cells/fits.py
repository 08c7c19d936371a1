"""Intervals fitted once in a process and used by every cell that needs them."""

from __future__ import annotations

from functools import lru_cache

from nearveil.evaluation.cells.circumstances import data_fingerprint
from nearveil.evaluation.hypotheses import ConfinedBaseline
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.fitting import FitPlan
from nearveil.mechanisms.intervals import Intervals
from nearveil.region import Region


def fitted(mechanism: Mechanism, dataset: Dataset) -> Mechanism:
    """Return the mechanism ready to publish: as ``mechanism.fit`` would make it, but fitting nothing twice."""
    if isinstance(mechanism, ConfinedBaseline) and mechanism.intervals is None:
        return mechanism.with_params(intervals=_intervals(_Fit(mechanism.discs, dataset)))
    if not isinstance(mechanism, DPRS) or mechanism.intervals is not None:
        return mechanism.fit(dataset.places)
    return mechanism.with_params(intervals=_intervals(_Fit(mechanism, dataset)))


class _Fit:
    """A fit by what decides its result; the release does not."""

    def __init__(self, mechanism: DPRS, dataset: Dataset) -> None:
        self.mechanism, self.dataset = mechanism, dataset
        self._key: tuple[str, Region, FitPlan, float, int | None] = (
            data_fingerprint(dataset),
            mechanism.resolved_region,
            mechanism.fit_plan,
            mechanism.fit_budget,
            mechanism.seed,
        )

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Fit) and self._key == other._key


@lru_cache(maxsize=256)
def _intervals(fit: _Fit) -> Intervals:
    return fit.mechanism.fit(fit.dataset.places).intervals_
