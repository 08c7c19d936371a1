"""How often the event came from either place, against what the claim allows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nearveil.audit.lower_bound import clopper_pearson_high, clopper_pearson_low
from nearveil.audit.witness import Witness, shared_confidence
from nearveil.report.audit_picture.maps import COLOURS, letter
from nearveil.report.style import DISC_COLOUR, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TIMES_AT_MOST = 50.0


@dataclass(frozen=True, slots=True)
class Rate:
    """A share of outputs, with the bounds that the audit's confidence gives it."""

    side: str
    hits: int
    trials: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """The share itself."""
        return self.hits / self.trials


def rates(witness: Witness) -> tuple[Rate, Rate]:
    """Return the rates of the event: from the place it speaks for, and from the other."""
    counts, direction = witness.counts, witness.event.direction
    error = (1 - shared_confidence(witness.confidence, witness.events_counted)) / 2
    sides = (direction, "second" if direction == "first" else "first")
    counted = ((counts.hits, counts.trials), (counts.false_hits, counts.false_trials))
    likely, unlikely = (
        Rate(
            side,
            hits,
            trials,
            float(clopper_pearson_low(hits, trials, error)),
            float(clopper_pearson_high(hits, trials, error)),
        )
        for side, (hits, trials) in zip(sides, counted, strict=True)
    )
    return likely, unlikely


def most_allowed(witness: Witness, unlikely: Rate) -> float:
    """Return how often the likelier place may give the event if the claim is true and the other's bound holds."""
    loss = min(witness.claimed_loss, _TIMES_AT_MOST)
    return min(1.0, math.exp(loss) * unlikely.high + witness.claim.delta)


def draw_frequencies(axes: Axes, witness: Witness) -> None:
    """Draw both rates with their bounds on a logarithmic scale, over the band that the claim allows."""
    likely, unlikely = rates(witness)
    allowed = most_allowed(witness, unlikely)
    floor = min(rate.low if rate.hits else rate.high for rate in (likely, unlikely)) / 4
    axes.set_yscale("log")
    axes.set_ylim(floor, 3.0)
    axes.set_xlim(-0.6, 1.6)
    axes.axhspan(floor, allowed, xmin=0.03, xmax=0.5, color=DISC_COLOUR, alpha=0.25, linewidth=0, zorder=0.5)
    axes.plot([-0.53, 0.5], [allowed, allowed], "--", color=INK, linewidth=1.2)
    axes.text(-0.51, allowed * 0.93, f"at most {allowed:.3g}\nif the claim is true", fontsize=8, va="top", color=INK)
    for x, rate in enumerate((likely, unlikely)):
        _draw_rate(axes, x, rate)
    axes.set_xticks([0, 1], [f"from {letter(rate.side)}" for rate in (likely, unlikely)])
    axes.set_ylabel("share of outputs that are the event (yellow)")
    axes.set_title("How often the event came")
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6, zorder=0)
    axes.set_axisbelow(True)


def _draw_rate(axes: Axes, x: int, rate: Rate) -> None:
    colour, floor = COLOURS[rate.side], axes.get_ylim()[0]
    low = rate.low if rate.hits else floor
    axes.plot([x, x], [low, rate.high], "-", color=colour, linewidth=6, alpha=0.45, solid_capstyle="butt")
    if rate.hits:
        axes.plot([x], [rate.share], "o", color=colour, markersize=8, markeredgecolor="white", zorder=4)
        words = f"{rate.hits:,}\nof {rate.trials:,}"
    else:
        axes.plot([x], [rate.high], "v", color=colour, markersize=8, markeredgecolor="white", zorder=4)
        words = f"never in {rate.trials:,}:\nat most {rate.high:.2g}"
    axes.annotate(
        words, (x, rate.share if rate.hits else rate.high), (0, 12), textcoords="offset points", ha="center",
        va="bottom", fontsize=9, color=colour, fontweight="bold", zorder=5,
    )  # fmt: skip
