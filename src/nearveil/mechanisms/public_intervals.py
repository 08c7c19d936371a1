"""Intervals made without anybody's data."""

from __future__ import annotations

import numpy as np

from nearveil.mechanisms.centres import PAPER_CENTRES, redraw_unusable, uniform_in_region
from nearveil.mechanisms.intervals import Intervals, check_gamma, radii_around
from nearveil.mechanisms.pic import MOST_CENTRES
from nearveil.privacy.guarantee import check_count
from nearveil.randomness import Randomness, as_randomness
from nearveil.region import Region


def build_public_intervals(
    *,
    region: Region,
    centres: int = PAPER_CENTRES,
    gamma: float = 0.5,
    rng: Randomness | np.random.Generator | int | None = None,
) -> Intervals:
    """Build intervals around centres drawn uniformly in the region: they cost nobody anything.

    What private intervals must beat to be worth their budget.
    """
    check_count(centres, "centres", least=2, most=MOST_CENTRES)
    check_gamma(gamma)
    randomness = as_randomness(rng)
    found = redraw_unusable(uniform_in_region(region, centres, randomness.generator), region, randomness.generator)
    return Intervals(
        region=region,
        centres=found,
        radii=radii_around(found, gamma),
        method="public",
        answers=(),
        gamma=gamma,
        # Public randomness hides nothing, so knowing its seed undoes nothing.
        seeded=False,
    )
