"""What events cost: composition for one person, and across people.

The amounts of later events may be chosen in view of what earlier ones published, and usually are. Two rules hold then
too (fully adaptive composition), and each budget keeps to one of them:

- **sequential**, the default: epsilons add, deltas add (Rogers, Roth, Ullman and Vadhan, "Privacy Odometers and
  Filters", 2016).
- **Rényi**, at one order that is fixed when the budget is made: divergences of that order add (the Rényi filter of
  Feldman and Zrnic, "Individual Privacy Accounting via a Rényi Filter", 2021; also Lécuyer, "Practical Privacy Filters
  and Odometers with Rényi Differential Privacy", 2021), and one step leads to epsilon at half of delta. Described noise
  has its own divergence. Any other event has the worst that its epsilon allows, and its delta comes off the other half.
  There is none for the metric and the elastic notion, whose loss grows with the distance while the last step costs the
  same at every distance.

Neither the better of the two rules nor the best order may be picked afterwards: somebody who sees what was published
can then spend more than either rule allows. For the same reason the two halves of delta are not exchanged.

Across people the composition is parallel: an event concerns only the people whose places went into it.

Amounts of different notions are never added. Those of the elastic notion are per step, and a step depends on the cells:
of releases with different cells the sum is per the largest number of steps between two places in any of them.
Sequential sums are exact (see `amounts`); the Rényi bound is computed in floats and raised by more than their error.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum

from nearveil.errors import UsageError
from nearveil.privacy.accounting import conversion_cost
from nearveil.privacy.guarantee import Notion
from nearveil.privacy.ledger.events import (
    Event,
    Law,
    Loss,
    check_event,
    exact,
    exact_difference,
    exact_sum,
    float_at_least,
    losses_of,
)

# Moments are good to about 1e-10, and a bound is a few of them; the margins are well above that.
RENYI_RELATIVE_MARGIN = 1e-9
RENYI_ABSOLUTE_MARGIN = 1e-12


class Rule(StrEnum):
    """By which composition a cost was found."""

    SEQUENTIAL = "sequential"
    RENYI = "Rényi"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a person has lost at most, under one notion.

    Attributes
    ----------
    notion : Notion
        Which account it is.
    epsilon : float
        In `unit`; rounded up.
    delta : float
        Probability with which the loss may be larger; rounded up.
    rule : Rule
        By which composition it was found.
    """

    notion: Notion
    epsilon: float
    delta: float
    rule: Rule = Rule.SEQUENTIAL

    @property
    def unit(self) -> str:
        """What epsilon is counted in."""
        return self.notion.unit

    def of_replacing_a_place(self) -> Cost:
        """Return what it costs that a person's place, rather than the person, is what may differ.

        Central costs are about a person more or less. A place replaced is one person less and another more: twice
        epsilon, and (1 + e^epsilon) times delta. The other notions are about the places themselves.
        """
        if self.notion is not Notion.CENTRAL:
            return self
        return replace(self, epsilon=float_at_least(exact_sum([self.epsilon] * 2)), delta=_doubled_delta(self))


def sequential_cost(notion: Notion, events: Sequence[Event]) -> Cost:
    """Return the sum of epsilons and the sum of deltas."""
    _check_account(notion, events)
    return Cost(
        notion=notion,
        epsilon=float_at_least(exact_sum(event.epsilon for event in events)),
        delta=float_at_least(exact_sum(event.delta for event in events)),
    )


def renyi_cost(notion: Notion, events: Sequence[Event], *, delta: float, order: float) -> Cost:
    """Return the cost at ``delta`` by adding Rényi divergences of one order; larger deltas of events add to it."""
    _check_account(notion, events)
    if notion.is_by_distance:
        raise UsageError(f"a loss {notion.unit} has no Rényi divergence; add epsilons")
    if not events:
        return Cost(notion=notion, epsilon=0.0, delta=0.0, rule=Rule.RENYI)
    divergence = math.fsum(count * loss.log_moment(order) for loss, count in _losses(events).items()) / (order - 1)
    epsilon = max(0.0, divergence + conversion_cost(order, delta / 2))
    excess = exact_difference(deltas_of_undescribed(events), exact(delta) / 2)
    return Cost(
        notion=notion,
        epsilon=epsilon * (1 + RENYI_RELATIVE_MARGIN) + RENYI_ABSOLUTE_MARGIN,
        delta=delta if excess <= 0 else float_at_least(exact_sum([delta, float_at_least(excess)])),
        rule=Rule.RENYI,
    )


def deltas_of_undescribed(events: Sequence[Event]) -> Decimal:
    """Return the sum of the deltas that Rényi composition counts apart: described noise needs none of its own."""
    return exact_sum(event.delta for event in events if not event.noise)


def parallel_cost(notion: Notion, costs: Iterable[Cost]) -> Cost:
    """Return the largest cost of a single person, given the cost of each."""
    most = Cost(notion=notion, epsilon=0.0, delta=0.0)
    for cost in costs:
        if cost.notion is not notion:
            raise UsageError("costs of different notions cannot be compared; ask for one notion at a time")
        most = Cost(
            notion=notion,
            epsilon=max(most.epsilon, cost.epsilon),
            delta=max(most.delta, cost.delta),
            rule=cost.rule if cost.epsilon > most.epsilon else most.rule,
        )
    return most


def _check_account(notion: Notion, events: Sequence[Event]) -> None:
    for event in events:
        if check_event(event).notion is not notion:
            raise UsageError("epsilons of different notions cannot be added; ask for one notion at a time")


def _losses(events: Sequence[Event]) -> Counter[Loss]:
    counted: Counter[Loss] = Counter()
    for event in events:
        counted.update(losses_of(event.noise) if event.noise else {Loss(Law.PURE, event.epsilon): 1})
    return counted


def _doubled_delta(cost: Cost) -> float:
    if cost.delta == 0:
        return 0.0
    if cost.epsilon > -math.log(cost.delta):
        return 1.0
    return min(1.0, cost.delta * (1 + math.exp(cost.epsilon)) * (1 + 1e-12))
