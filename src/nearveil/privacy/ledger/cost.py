"""What events cost: composition for one person, and across people.

Two rules bound what one person loses, and the lesser is the cost:

- **sequential**: epsilons add, deltas add. It holds whatever the events are, even if later amounts were chosen in view
  of earlier publications.
- **Rényi**: the curves add, and one step at the end leads to epsilon at a target delta. Described noise has its own
  curve. Any other event has the worst curve that its epsilon allows, and its delta comes off the target. The amounts
  must not have been chosen in view of earlier publications. There is none for the metric notion, whose loss grows with
  the distance while the last step costs the same at every distance.

Across people the composition is parallel: an event concerns those whose places went into it, and nobody else.

Amounts of different notions are never added. Sequential sums are exact (see `amounts`); the Rényi bound is computed in
floats and raised by more than their error.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from nearveil.errors import UsageError
from nearveil.privacy.guarantee import Notion
from nearveil.privacy.ledger.amounts import (
    LEAST_AMOUNT,
    exact,
    exact_difference,
    exact_sum,
    float_at_least,
    float_at_most,
)
from nearveil.privacy.ledger.events import Event, check_event, unit_of
from nearveil.privacy.ledger.noise import Law, Loss, losses_of
from nearveil.privacy.renyi import epsilon_from_log_moment

# Moments are good to about 1e-10, and a bound is a few of them; the margins are well above that.
RENYI_RELATIVE_MARGIN = 1e-9
RENYI_ABSOLUTE_MARGIN = 1e-12
_MOST_EPSILON_WITH_CURVE = 1e6


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
        return unit_of(self.notion)

    def of_replacing_a_place(self) -> Cost:
        """Return what it costs that a person's place, rather than the person, is what may differ.

        Central costs are about a person more or less. A place replaced is one person less and another more: twice
        epsilon, and (1 + e^epsilon) times delta. The other notions are about places as they are.
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


def renyi_cost(notion: Notion, events: Sequence[Event], delta: float) -> Cost | None:
    """Return the cost at ``delta`` by adding Rényi curves, or None where none follows."""
    _check_account(notion, events)
    if notion is Notion.METRIC or not events or sum(event.epsilon for event in events) > _MOST_EPSILON_WITH_CURVE:
        return None
    taken = exact_sum(event.delta for event in events if not event.noise)
    target = float_at_most(exact_difference(exact(delta), taken))
    if target < LEAST_AMOUNT:
        return None
    epsilon = _renyi_epsilon(_losses(events), target)
    return Cost(
        notion=notion,
        epsilon=epsilon * (1 + RENYI_RELATIVE_MARGIN) + RENYI_ABSOLUTE_MARGIN,
        delta=delta,
        rule=Rule.RENYI,
    )


def least_cost(notion: Notion, events: Sequence[Event], delta: float) -> Cost:
    """Return the cost at ``delta`` by the better rule; its delta is larger where neither rule keeps to ``delta``."""
    plain = sequential_cost(notion, events)
    renyi = renyi_cost(notion, events, delta)
    if renyi is None or (plain.delta <= delta and plain.epsilon <= renyi.epsilon):
        return plain
    return renyi


def parallel_cost(notion: Notion, costs: Iterable[Cost]) -> Cost:
    """Return what no single person exceeds, given what each person has lost."""
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


def _losses(events: Sequence[Event]) -> tuple[tuple[Loss, int], ...]:
    counted: Counter[Loss] = Counter()
    for event in events:
        counted.update(losses_of(event.noise) if event.noise else {Loss(Law.PURE, event.epsilon): 1})
    return tuple(sorted(counted.items()))


@lru_cache(maxsize=4096)  # A group mostly has one history, and the search over orders takes milliseconds.
def _renyi_epsilon(losses: tuple[tuple[Loss, int], ...], delta: float) -> float:
    def log_moment(order: float) -> float:
        return math.fsum(count * loss.log_moment(order) for loss, count in losses)

    return epsilon_from_log_moment(log_moment, delta)[0]


def _doubled_delta(cost: Cost) -> float:
    if cost.delta == 0:
        return 0.0
    if cost.epsilon > -math.log(cost.delta):
        return 1.0
    return min(1.0, cost.delta * (1 + math.exp(cost.epsilon)) * (1 + 1e-12))
