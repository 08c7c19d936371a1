"""Who is published at once while protection is off."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nearveil.nearby.publishing.publisher import Answer, Report, Status
from nearveil.nearby.stores.base import STEP_M, PublishedBatch
from nearveil.region import Region


def published_at_once(reports: Sequence[Report], answers: Sequence[Answer], region: Region) -> PublishedBatch:
    """Return who was published, in the steps that the store has; of several reports of one person the last counts."""
    last = {
        report.person: (report.x_m, report.y_m)
        for report, answer in zip(reports, answers, strict=True)
        if answer.status is Status.PUBLISHED
    }
    half_extent = np.array(region.half_extent_m)
    places = np.array(list(last.values()), dtype=np.float64).reshape(-1, 2)
    steps = np.rint(np.clip(places, -half_extent, half_extent) / STEP_M).astype(np.int64)
    return PublishedBatch(list(last), steps)
