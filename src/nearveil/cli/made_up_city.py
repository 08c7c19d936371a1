"""A made-up city, for commands that need some intervals and were given none."""

from __future__ import annotations

from nearveil.cli.console import progress_bar
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.region import Region
from nearveil.types import FloatArray

PEOPLE = 25_000
SEED = 2026


def made_up_people(region: Region) -> FloatArray:
    """Where the city's people are: the same ones every time."""
    return synthetic_city(PEOPLE, region, rng=SEED)


def fitted_on_made_up_people(mechanism: Mechanism) -> Mechanism:
    """Return the mechanism ready to be looked at: one that needs intervals and has none gets those of the city."""
    if not isinstance(mechanism, DPRS) or mechanism.intervals is not None:
        return mechanism
    repeatable = mechanism.with_params(seed=SEED)
    with progress_bar("finding intervals in a made-up city", mechanism.fit_plan.steps) as advance:
        fitted = repeatable.fit(made_up_people(mechanism.resolved_region), progress=advance)
    return mechanism.with_params(intervals=fitted.intervals_)
