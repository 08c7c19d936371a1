"""What a service with a protection gives away over months, measured on the people of a plan."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nearveil.errors import UsageError
from nearveil.evaluation.cells import ready
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.longitudinal import MonthsFigure, measure_months
from nearveil.io.datasets import Dataset
from nearveil.nearby.publishing.protection import Protection
from nearveil.types import Progress

MOST_MONTHS = 60
_TARGET_STREAM, _REPORT_STREAM = 11, 12


def checked_months(months: Sequence[int]) -> tuple[int, ...]:
    """Return months in order, each once; refuse what is no number of months."""
    if not all(1 <= number <= MOST_MONTHS for number in months):
        raise UsageError(f"--months takes whole numbers from 1 to {MOST_MONTHS} such as 1,6,12, or none")
    return tuple(sorted(set(months)))


def service_months(
    dataset: Dataset,
    defence: Defence,
    months: Sequence[int],
    *,
    people: int,
    seed: int,
    progress: Progress | None = None,
) -> tuple[MonthsFigure, ...]:
    """Return what some of the people give away who stay at home and report to a service every hour.

    The service has its defaults but for the strength. Nothing where no service protects in this way.

    Parameters
    ----------
    people : int
        Of how many homes are looked for; all addresses are known.
    progress : callable, optional
        Called with 1 when all is done.
    """
    if not months or not people or not (defence.hides_among or defence.mechanism == "planar-laplace"):
        return ()
    among = None
    if defence.hides_among:
        among = defence.hide_among_people(dataset.region, seed)
        among = among.with_params(**ready(defence, dataset, seed).learned_params)
    protection = Protection(region=dataset.region, noise_m=defence.noise_m, among=among)
    rng = np.random.default_rng([seed, _TARGET_STREAM])
    targets = rng.choice(len(dataset.places), size=min(people, len(dataset.places)), replace=False)
    found = measure_months(
        protection,
        dataset.places,
        targets=targets,
        months=months,
        rng=np.random.default_rng([seed, _REPORT_STREAM]),
    )
    if progress:
        progress(1)
    return tuple(found)
