"""What the intervals add to a card: how small they are, and what they cost whoever they were fitted on."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from nearveil.mechanisms.intervals import Intervals
from nearveil.privacy.guarantee import Guarantee, Notion, round_up

_LARGEST_USEFUL_DELTA = 0.01


def replacement_cost(intervals: Intervals, delta: float) -> tuple[float, float]:
    """Return epsilon and delta between intervals fitted with a person at one place and at another.

    Replacing is removing and adding: the losses add, and the second step's delta counts e^epsilon times.
    """
    epsilon, once = intervals.fit_cost(delta)
    if once * (1 + math.exp(epsilon)) > _LARGEST_USEFUL_DELTA:
        epsilon, once = intervals.pure_fit_cost
    return 2 * epsilon, min(1.0, once * (1 + math.exp(epsilon)))


def with_fit_cost(release: Guarantee, intervals: Intervals, delta: float) -> Guarantee:
    """Add to what holds given the intervals: the intervals themselves, and both together for those fitted on."""
    statements = [intervals.guarantee(delta)]
    if intervals.answers:
        statements.append(_together(release, intervals, delta))
    return replace(
        release,
        title=f"{release.title}, given the intervals",
        neighbours=f"{release.neighbours}, the intervals being given",
        also=(*statements, *release.also),
        # A disc is disclosed by the notion of an interval only.
        notes=(*release.notes, *((_smallest_disc(intervals),) if release.notion is Notion.INTERVAL else ())),
    )


def _smallest_disc(intervals: Intervals) -> str:
    return (
        f"The smallest disc has a radius of {intervals.radii_m.min():,.1f} m, the median one of "
        f"{np.median(intervals.radii_m):,.0f} m: the smaller the disc, the nearer it comes to an address."
    )


def _together(release: Guarantee, intervals: Intervals, delta: float) -> Guarantee:
    epsilon, fit_delta = replacement_cost(intervals, delta)
    metric = release.notion is Notion.METRIC
    together = Guarantee(
        title="Together, for a person that the intervals were fitted on",
        notion=release.notion,
        epsilon=release.epsilon if metric else release.epsilon + epsilon,
        offset=epsilon if metric else 0.0,
        unit=release.unit,
        delta=min(1.0, fit_delta + release.delta),
        neighbours=(
            f"{release.neighbours}{'' if metric else ' in the intervals that came out'}, the person being among those "
            "fitted on"
        ),
        protects=(
            f"whoever was fitted on is in the intervals as well: another place costs up to {round_up(epsilon)} more; "
            "fit on public data or on places already published, and this statement falls away"
        ),
        basis=release.basis,
        because="the intervals' loss twice, for removing and adding, and the release's loss given the intervals",
    )
    return together if intervals.unit == "person" else together.counted_per_row()
