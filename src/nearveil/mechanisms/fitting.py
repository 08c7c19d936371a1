"""Building intervals by any method, and public intervals made without data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from nearveil.errors import UsageError
from nearveil.mechanisms.fit_grid import ROUNDS as GRID_ROUNDS
from nearveil.mechanisms.fit_grid import build_grid_intervals
from nearveil.mechanisms.fit_pic import MOST_CENTRES, Watch, build_pic_intervals, centres_in_region
from nearveil.mechanisms.intervals import PAPER_CENTRES, Intervals, check_gamma
from nearveil.privacy.accounting import QUERIES_PER_ROUND, fit_scale_for
from nearveil.privacy.guarantee import check_count, check_delta, check_epsilon
from nearveil.randomness import Randomness, as_randomness
from nearveil.region import Region
from nearveil.types import Progress

FitMethod = Literal["pic", "private-grid"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitPlan:
    """How intervals are to be built: the paper's m, N_c and γ, and the method.

    Without ``centres`` their number follows that of the users, `nearveil.mechanisms.intervals.centres_for`.
    """

    method: FitMethod = "pic"
    centres: int | None = None
    rounds: int = 12
    gamma: float = 0.5

    def __post_init__(self) -> None:
        if self.centres is not None:
            check_count(self.centres, "centres", least=2, most=MOST_CENTRES)
        check_count(self.rounds, "rounds", least=1, most=1000)
        check_gamma(self.gamma)
        if self.method not in get_args(FitMethod):
            raise UsageError(f"fit_method is one of: {', '.join(get_args(FitMethod))}")

    @property
    def steps(self) -> int:
        """How often `build_intervals` reports progress."""
        return self.rounds if self.method == "pic" else GRID_ROUNDS

    @property
    def queries(self) -> int:
        """How many noisy answers of private k-means a user is in: three a round, and a head count if needed."""
        return QUERIES_PER_ROUND * self.rounds + (self.centres is None)

    def budget(self, epsilon: float, delta: float) -> float:
        """Return what `build_intervals` takes so that the fit alone costs epsilon at delta.

        The Laplace scale of each answer for private k-means, epsilon itself for the private grid, which needs no delta.
        """
        check_epsilon(epsilon)
        check_delta(delta)
        return fit_scale_for(epsilon, queries=self.queries, delta=delta) if self.method == "pic" else epsilon


def build_intervals(
    points: object,
    region: Region,
    plan: FitPlan,
    budget: float,
    *,
    rng: Randomness | np.random.Generator | int | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> Intervals:
    """Build private intervals by the planned method; ``budget`` as in `FitPlan.budget`, ``watch`` for audits."""
    wanted = {"region": region, "centres": plan.centres, "gamma": plan.gamma}
    how = {"rng": rng, "progress": progress, "watch": watch}
    if plan.method == "pic":
        return build_pic_intervals(points, scale=budget, rounds=plan.rounds, **wanted, **how)  # type: ignore[arg-type]
    return build_grid_intervals(points, epsilon=budget, **wanted, **how)  # type: ignore[arg-type]


def build_public_intervals(
    *,
    region: Region,
    centres: int = PAPER_CENTRES,
    gamma: float = 0.5,
    rng: Randomness | np.random.Generator | int | None = None,
) -> Intervals:
    """Build intervals around centers drawn uniformly in the region. They use no data and cost nothing.

    Private intervals must be better than these to be worth their budget.
    """
    check_count(centres, "centres", least=2, most=MOST_CENTRES)
    check_gamma(gamma)
    found = centres_in_region(region, centres, as_randomness(rng).generator)
    # Public randomness hides nothing, so knowing its seed undoes nothing.
    return Intervals(region=region, centres=found, method="public", answers=(), gamma=gamma, seeded=False)
