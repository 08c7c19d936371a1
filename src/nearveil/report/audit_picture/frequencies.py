"""How often the event came from either place, against what the claim allows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nearveil.audit.events import TELL_TALES
from nearveil.audit.lower_bound import clopper_pearson_high, clopper_pearson_low
from nearveil.audit.witness import Witness, shared_confidence
from nearveil.report.audit_picture.maps import COLOURS, letter
from nearveil.report.style import DISC_COLOUR, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LARGEST_LOSS = 50.0
_AT = {"first": 0, "second": 1}


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
    loss = min(witness.claimed_loss, _LARGEST_LOSS)
    return min(1.0, math.exp(loss) * unlikely.high + witness.claim.delta)


def draw_frequencies(axes: Axes, witness: Witness) -> None:
    """Draw both rates with their bounds on a logarithmic scale, over the band that the claim allows."""
    likely, unlikely = rates(witness)
    allowed = most_allowed(witness, unlikely)
    floor = min(rate.low if rate.hits else rate.high for rate in (likely, unlikely)) / 4
    axes.set_yscale("log")
    axes.set_ylim(floor, 2.5 * max(likely.high, allowed))
    axes.set_xlim(-0.5, 2.0)
    x = _AT[likely.side]
    axes.fill_between([x - 0.3, x + 0.7], floor, allowed, color=DISC_COLOUR, alpha=0.28, linewidth=0, zorder=0.5)
    axes.plot([x - 0.3, x + 0.7], [allowed, allowed], "--", color=INK, linewidth=1.2)
    words = f" if the claim is true,\n at most {allowed:.3g}\n from {letter(likely.side)}"
    axes.text(x - 0.3, floor * 1.1, words, fontsize=8.5, va="bottom", color=INK)
    for rate in (likely, unlikely):
        # Words stay off the line of what is allowed.
        _draw_rate(axes, rate, words_above=rate is likely and rate.share > allowed)
    axes.set_xticks(list(_AT.values()), [f"from {letter(side)}" for side in _AT])
    shaded = "" if witness.event.score.kind in TELL_TALES else " (yellow)"
    axes.set_ylabel(f"share of outputs that are the event{shaded}")
    axes.set_title("How often the event came")
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6, zorder=0)
    axes.set_axisbelow(True)


def _draw_rate(axes: Axes, rate: Rate, *, words_above: bool) -> None:
    colour, floor, x = COLOURS[rate.side], axes.get_ylim()[0], _AT[rate.side]
    low, at = (rate.low, rate.share) if rate.hits else (floor, rate.high)
    axes.plot([x, x], [low, rate.high], "-", color=colour, linewidth=7, alpha=0.5, solid_capstyle="butt")
    axes.plot([x], [at], "o" if rate.hits else "v", color=colour, markersize=7, markeredgecolor="white", zorder=4)
    words = f"{rate.hits:,}\nof {rate.trials:,}" if rate.hits else f"never in\n{rate.trials:,}"
    axes.annotate(
        words, (x, at), (9, -4 if words_above else 4), textcoords="offset points",
        va="bottom" if words_above else "top", fontsize=9, color=colour, fontweight="bold", zorder=5,
    )  # fmt: skip
