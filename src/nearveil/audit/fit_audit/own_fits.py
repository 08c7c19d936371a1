"""Our own fits, as the auditor takes them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearveil.audit.fit_audit.fitting import Fit
from nearveil.mechanisms.centres import FIXED_POINT, fixed_point_laplace, square_in_fixed_point
from nearveil.mechanisms.fitting import FitPlan, build_intervals
from nearveil.mechanisms.nearest_centre import nearest_centre_table
from nearveil.mechanisms.pic import cluster_sums
from nearveil.region import Region
from nearveil.types import FloatArray


def intervals_fit(region: Region, plan: FitPlan, budget: float) -> Fit:
    """Return the whole fit as it is published: the centres of the intervals, in the square.

    ``budget`` as in `FitPlan.budget`. Each round of k-means builds its table of nearest centres, about 10 ms.
    """
    return lambda points, rng: build_intervals(points, region, plan, budget, rng=rng).centres


def round_answers_fit(region: Region, centres: npt.ArrayLike, scale: float) -> Fit:
    """Return one round of private k-means from given centres, with its noisy answers laid open.

    Sums and counts of every cluster, shape (centres, 3), from the sums and the noise that `build_pic_intervals` uses.
    What a fit publishes is made from such answers, so they show at least as much; and fast, the table being fixed.
    """
    nearest = nearest_centre_table(np.array(centres, dtype=np.float64), region.half_extent_square)
    in_fixed_point = np.array([1, 1, int(FIXED_POINT)])

    def fit(points: FloatArray, rng: np.random.Generator) -> FloatArray:
        sums = cluster_sums(square_in_fixed_point(region, region.check(points)), nearest)
        return fixed_point_laplace(sums * in_fixed_point, scale, rng)

    return fit
