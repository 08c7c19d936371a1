import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st
from nearveil.privacy.ledger.events import (
    Noise,
    exact,
    exact_sum,
    float_at_least,
    float_at_most,
    pure_log_moment,
    written_down,
)

from nearveil.errors import UsageError
from nearveil.privacy.accounting import LaplaceAnswers
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.privacy.ledger import (
    Budget,
    Cost,
    Event,
    Fit,
    GaussianAnswers,
    Release,
    Rule,
    parallel_cost,
    renyi_cost,
    sequential_cost,
)

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
RDP_DEFINITIONS = [PrivacyDefinition.CENTRAL, PrivacyDefinition.LOCAL, PrivacyDefinition.INTERVAL]

amounts = st.floats(1e-300, 1e300) | st.sampled_from([0.1, 0.2, 0.3, 1 / 3, 0.7, 1e-5, 1.1])


def event(
    epsilon: float,
    delta: float = 0.0,
    definition: PrivacyDefinition = PrivacyDefinition.LOCAL,
    noise: Sequence[Noise] = (),
) -> Event:
    kind = Fit if definition is PrivacyDefinition.CENTRAL else Release
    return kind(
        who=("ann",),
        when=WHEN,
        definition=definition,
        epsilon=epsilon,
        delta=delta,
        noise=tuple(noise),
        draw_id=f"{epsilon} {delta}",
    )


@given(epsilons=st.lists(amounts, max_size=20), deltas=st.lists(st.floats(1e-300, 0.9), max_size=20))
def test_sequential_cost_is_the_sum_and_never_less(epsilons: list[float], deltas: list[float]) -> None:
    """A naive oracle: fractions of the printed numbers."""
    events = [event(epsilon, delta) for epsilon, delta in zip(epsilons, deltas, strict=False)]
    cost = sequential_cost(PrivacyDefinition.LOCAL, events)
    for found, parts in ((cost.epsilon, [e.epsilon for e in events]), (cost.delta, [e.delta for e in events])):
        naive = sum((Fraction(repr(part)) for part in parts), Fraction(0))
        assert Fraction(repr(found)) >= naive
        assert found == 0 or Fraction(repr(math.nextafter(found, 0))) < naive


@given(parts=st.lists(amounts, min_size=1, max_size=20), budget=amounts)
def test_a_budget_allows_a_sum_exactly_if_it_is_no_more(parts: list[float], budget: float) -> None:
    total = sum((Fraction(repr(part)) for part in parts), Fraction(0))
    events = [event(part, definition=PrivacyDefinition.METRIC) for part in parts]
    for epsilon in (budget, float(total), math.nextafter(float(total), 0), math.nextafter(float(total), math.inf)):
        if math.isfinite(epsilon):
            allowed = Budget(definition=PrivacyDefinition.METRIC, epsilon=epsilon, window=DAY).allows(events)
            assert allowed == (total <= Fraction(repr(epsilon)))


def test_ten_tenths_are_one_and_not_a_bit_more() -> None:
    budget = Budget(definition=PrivacyDefinition.LOCAL, epsilon=1.0, window=DAY)
    assert budget.allows([event(0.1)] * 10)
    assert not budget.allows([event(0.1)] * 10 + [event(1e-300)])
    assert budget.left_beside([event(0.1)] * 3).epsilon == 0.7
    assert not budget.allows([event(1.0, 1e-300)])


@given(value=st.decimals(min_value=0, max_value=10**9, allow_nan=False, places=25))
def test_rounding_goes_the_way_it_says(value: Any) -> None:
    up, down = float_at_least(value), float_at_most(value)
    assert exact(down) <= value <= exact(up)
    assert up in (down, math.nextafter(down, math.inf))
    assert float(written_down(down)) <= down


def test_definitions_are_never_added() -> None:
    mixed = [event(0.1), event(0.1, definition=PrivacyDefinition.METRIC)]
    for definition in (PrivacyDefinition.LOCAL, PrivacyDefinition.METRIC):
        with pytest.raises(UsageError, match="different privacy definitions"):
            sequential_cost(definition, mixed)
        with pytest.raises(UsageError, match="different privacy definitions"):
            renyi_cost(definition, mixed, delta=1e-5, order=8.0)
    with pytest.raises(UsageError, match="different privacy definitions"):
        parallel_cost(PrivacyDefinition.LOCAL, [Cost(definition=PrivacyDefinition.METRIC, epsilon=1.0, delta=0.0)])


def test_unknown_events_raise() -> None:
    for thing in (None, 0.5, dp_event.GaussianDpEvent(1.0)):
        with pytest.raises(UsageError, match="not an event"):
            sequential_cost(PrivacyDefinition.LOCAL, [thing])  # type: ignore[list-item]


def test_nothing_costs_nothing() -> None:
    for definition in PrivacyDefinition:
        cost = sequential_cost(definition, [])
        assert (cost.epsilon, cost.delta, cost.definition) == (0.0, 0.0, definition)
    cost = renyi_cost(PrivacyDefinition.LOCAL, [], delta=1e-5, order=8.0)
    assert (cost.epsilon, cost.delta, cost.rule) == (0.0, 0.0, Rule.RENYI)


# -- Rényi ---------------------------------------------------------------------------------------------------


@given(order=st.floats(1.01, 500), epsilon=st.floats(0.01, 20))
def test_pure_curve_equals_dp_accounting(order: float, epsilon: float) -> None:
    response = dp_event.RandomizedResponseDpEvent(2 / (1 + math.exp(epsilon)), 2)
    accountant = RdpAccountant(orders=[order], neighboring_relation=NeighboringRelation.REPLACE_ONE)
    theirs = accountant.compose(response)._rdp[0]
    assert pure_log_moment(order, epsilon) / (order - 1) == pytest.approx(theirs, rel=1e-6, abs=1e-12)


def test_tiny_pure_losses_keep_their_digits() -> None:
    assert pure_log_moment(2.0, 1e-9) == pytest.approx(1e-18, rel=1e-6)
    assert pure_log_moment(1 + 1e-6, 1e-3) == pytest.approx(1e-6 * 1.000001 * 1e-6 / 2, rel=1e-6)


laplace = st.builds(LaplaceAnswers, st.integers(1, 40), st.floats(1, 100))
gaussian = st.builds(GaussianAnswers, st.integers(1, 40), st.floats(1, 100))


orders = st.sampled_from([1.5, 2.0, 8.0, 24.0, 64.0])


@given(noises=st.lists(laplace | gaussian, min_size=1, max_size=4), delta=st.floats(1e-9, 1e-2), order=orders)
def test_described_noise_composes_as_in_dp_accounting(noises: list[Noise], delta: float, order: float) -> None:
    theirs = RdpAccountant(orders=[order])
    for noise in noises:
        if isinstance(noise, LaplaceAnswers):
            theirs.compose(dp_event.LaplaceDpEvent(noise.scale), noise.count)
        else:
            theirs.compose(dp_event.GaussianDpEvent(noise.sigma), noise.count)
    events = [event(1000.0, 1e-5, PrivacyDefinition.CENTRAL, [noise]) for noise in noises]
    ours = renyi_cost(PrivacyDefinition.CENTRAL, events, delta=delta, order=order)
    assert ours.delta == delta
    # Half of delta is for the deltas of events whose noise is not described.
    assert ours.epsilon == pytest.approx(theirs.get_epsilon(delta / 2), rel=1e-8, abs=1e-9)


def test_answers_add_up_within_an_event_and_across_events() -> None:
    once = [LaplaceAnswers(6, 20.0)]
    ways = (
        [event(5.0, 1e-5, PrivacyDefinition.CENTRAL, once * 3)],
        [event(5.0, 1e-5, PrivacyDefinition.CENTRAL, once)] * 3,
        [event(5.0, 1e-5, PrivacyDefinition.CENTRAL, [LaplaceAnswers(18, 20.0)])],
    )
    assert len({renyi_cost(PrivacyDefinition.CENTRAL, events, delta=1e-5, order=24.0) for events in ways}) == 1


@pytest.mark.parametrize(("scale", "sigma", "count"), [(10.0, 20.0, 30), (3.0, 5.0, 4), (50.0, 100.0, 100)])
@pytest.mark.parametrize("order", [2.0, 8.0, 24.0])
def test_no_less_than_the_truth(scale: float, sigma: float, count: int, order: float) -> None:
    """Privacy loss distributions are nearly exact, so that a sound bound is above them."""
    truth = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)
    truth.compose(dp_event.LaplaceDpEvent(scale), count).compose(dp_event.GaussianDpEvent(sigma), count)
    noise = (LaplaceAnswers(count, scale), GaussianAnswers(count, sigma))
    ours = renyi_cost(
        PrivacyDefinition.CENTRAL, [event(1000.0, 1e-6, PrivacyDefinition.CENTRAL, noise)], delta=1e-6, order=order
    )
    assert ours.epsilon >= truth.get_epsilon(1e-6) * 0.999


def _optimal_delta(epsilon: float, step: float, delta: float, count: int) -> float:
    """Delta at ``epsilon`` of ``count`` losses (step, delta), by the optimal composition of Kairouz et al. (2015)."""
    pure = (
        math.fsum(
            math.comb(count, i) * max(0.0, math.exp(step * (count - i)) - math.exp(epsilon + step * i))
            for i in range(count + 1)
        )
        / (1 + math.exp(step)) ** count
    )
    return 1 - (1 - delta) ** count * (1 - pure)


@given(
    step=st.floats(0.01, 2),
    delta=st.sampled_from([0.0, 1e-9, 1e-7]),
    count=st.integers(1, 60),
    definition=st.sampled_from(RDP_DEFINITIONS),
    order=orders,
)
def test_steps_known_by_epsilon_and_delta_alone_stay_above_the_optimum(
    step: float, delta: float, count: int, definition: PrivacyDefinition, order: float
) -> None:
    cost = renyi_cost(definition, [event(step, delta, definition)] * count, delta=1e-5, order=order)
    assert _optimal_delta(cost.epsilon, step, delta, count) <= cost.delta * (1 + 1e-9)


def test_many_small_losses_fit_at_a_fixed_order_and_one_large_one_does_not() -> None:
    plain = Budget(definition=PrivacyDefinition.LOCAL, epsilon=1.5, delta=1e-5, window=DAY)
    renyi = Budget(definition=PrivacyDefinition.LOCAL, epsilon=1.5, delta=1e-5, window=DAY, renyi_order=16)
    many = [event(0.01)] * 800
    assert renyi.allows(many)
    assert not plain.allows(many)
    assert plain.allows([event(1.5)])
    assert not renyi.allows([event(1.5)])  # one rule for a budget, never the better of both


def test_the_order_is_not_chosen_afterwards() -> None:
    """Of the same losses one order allows more than another: the budget's is the one that counts."""
    many = [event(0.01)] * 800
    costs = [renyi_cost(PrivacyDefinition.LOCAL, many, delta=1e-5, order=order).epsilon for order in (2.0, 16.0, 200.0)]
    assert costs[1] < min(costs[0], costs[2])
    for order in (16.0, 200.0):
        budget = Budget(definition=PrivacyDefinition.LOCAL, epsilon=1.5, delta=1e-5, window=DAY, renyi_order=order)
        assert budget.cost(many) == renyi_cost(PrivacyDefinition.LOCAL, many, delta=1e-5, order=order)
        assert budget.allows(many) == (order == 16.0)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"renyi_order": 1.0}, "above 1"),
        ({"renyi_order": math.nan}, "above 1"),
        ({"renyi_order": math.inf}, "above 1"),
        ({"renyi_order": True}, "above 1"),
        ({"renyi_order": "8"}, "above 1"),
        ({"delta": 0.0}, "delta"),
        ({"definition": PrivacyDefinition.METRIC}, "metric"),
        ({"definition": PrivacyDefinition.ELASTIC}, "elastic"),
        ({"renyi_order": 2.0}, "near 24"),
    ],
)
def test_an_order_that_promises_nothing_is_refused(change: dict[str, Any], word: str) -> None:
    good: dict[str, Any] = {
        "definition": PrivacyDefinition.LOCAL,
        "epsilon": 1.0,
        "delta": 1e-5,
        "window": DAY,
        "renyi_order": 24,
    }
    assert "order 24" in Budget(**good).promise
    with pytest.raises(UsageError, match=word):
        Budget(**good | change)


@pytest.mark.parametrize("renyi_order", [None, 14.0])
def test_who_sees_what_was_published_cannot_spend_more(renyi_order: float | None) -> None:
    """An attacker who picks amounts by what came out, and the exact delta that it reaches.

    It asks nine times for randomised response of epsilon 0.1. If nearly all answers speak for one world it asks on as
    long as the budget allows; otherwise it asks for a release that says the world with as much delta as is left. Every
    history by itself is within (1, 0.001), by one rule of composition or the other: a ledger that picks the better rule
    afterwards lets through 1.29 times the delta that it promises.
    """
    step, first, enough, world = 0.1, 9, 8, 1e-9
    budget = Budget(definition=PrivacyDefinition.LOCAL, epsilon=1.0, delta=1e-3, window=DAY, renyi_order=renyi_order)
    asked = [event(step)] * first
    assert budget.allows(asked)
    last = first
    while budget.allows([event(step)] * (last + 1)):
        last += 1
    revealed = max(part for part in (0.0, 0.25e-3, 0.5e-3, 1e-3) if budget.allows([*asked, event(world, part)]))
    assert revealed > 0
    right = 1 / (1 + math.exp(-step))
    reached = 0.0
    for ups in range(first + 1):
        likely = math.comb(first, ups) * right**ups * (1 - right) ** (first - ups)
        if ups < enough:
            reached += likely * revealed
            continue
        for more in range(last - first + 1):
            path = likely * math.comb(last - first, more) * right**more * (1 - right) ** (last - first - more)
            loss = step * (2 * (ups + more) - last)
            reached += path * max(0.0, 1 - math.exp(budget.epsilon - loss))
    assert reached <= budget.delta


def test_deltas_of_undescribed_events_have_half_of_the_budgets() -> None:
    plan = Budget(definition=PrivacyDefinition.LOCAL, epsilon=1.0, delta=1e-5, window=DAY, renyi_order=24)
    five = [event(0.01, 1e-6)] * 5
    assert plan.allows(five)
    assert plan.left_beside(five).delta == 0.0
    assert not plan.allows([*five, event(0.01, 1e-300)])
    assert plan.cost([*five, event(0.01, 1e-300)]).delta > 1e-5
    assert plan.left_beside(five[:2]).delta == 3e-6
    # A described one has its own curve, and needs no delta beside the last step's.
    assert plan.allows([*five, event(2.0, 1e-6, noise=[GaussianAnswers(1, 50.0)])])


@given(
    count=st.integers(0, 300),
    step=st.floats(0.001, 0.5),
    budget=st.floats(0.5, 5),
    order=st.none() | st.sampled_from([32.0, 64.0, 1000.0]),
)
def test_what_is_left_can_be_spent(count: int, step: float, budget: float, order: float | None) -> None:
    plan = Budget(definition=PrivacyDefinition.LOCAL, epsilon=budget, delta=1e-6, window=DAY, renyi_order=order)
    events = [event(step)] * count
    left = plan.left_beside(events)
    if left.epsilon >= 2.3e-308:
        assert plan.allows([*events, event(left.epsilon)])
    if order is None and left.epsilon > 0:
        assert exact_sum([step] * count + [left.epsilon]) <= exact(budget)


def test_nothing_is_left_where_delta_is_overspent() -> None:
    plan = Budget(definition=PrivacyDefinition.METRIC, epsilon=1.0, delta=1e-9, window=DAY)
    left = plan.left_beside([event(0.1, 1e-8, PrivacyDefinition.METRIC)])
    assert (left.epsilon, left.delta) == (0.0, 0.0)


# -- across people, and places replaced ----------------------------------------------------------------------


def test_across_people_the_most_counts() -> None:
    costs = [
        Cost(definition=PrivacyDefinition.LOCAL, epsilon=e, delta=d) for e, d in ((0.5, 0.0), (0.2, 1e-6), (0.4, 1e-9))
    ]
    most = parallel_cost(PrivacyDefinition.LOCAL, costs)
    assert (most.epsilon, most.delta) == (0.5, 1e-6)


def test_replacing_a_place_costs_a_central_account_twice() -> None:
    central = Cost(definition=PrivacyDefinition.CENTRAL, epsilon=0.3, delta=1e-6)
    replaced = central.of_replacing_a_place()
    assert replaced.epsilon == 0.6
    assert replaced.delta == pytest.approx(1e-6 * (1 + math.exp(0.3)))
    assert replaced.delta >= 1e-6 * (1 + math.exp(0.3))
    assert Cost(definition=PrivacyDefinition.CENTRAL, epsilon=1e4, delta=1e-6).of_replacing_a_place().delta == 1.0
    assert Cost(definition=PrivacyDefinition.CENTRAL, epsilon=1e4, delta=0.0).of_replacing_a_place().delta == 0.0
    local = Cost(definition=PrivacyDefinition.LOCAL, epsilon=0.3, delta=1e-6)
    assert local.of_replacing_a_place() == local


def test_steps_add_and_their_promise_says_whose_steps() -> None:
    """Cells differ from release to release; the sum counts by those in which two places are most steps apart."""
    events = [event(2.0, definition=PrivacyDefinition.ELASTIC), event(0.1, definition=PrivacyDefinition.ELASTIC)]
    cost = sequential_cost(PrivacyDefinition.ELASTIC, events)
    assert (cost.epsilon, cost.unit) == (2.1, "per step")
    assert cost.of_replacing_a_place() == cost
    with pytest.raises(UsageError, match="a loss per step has no Rényi divergence"):
        renyi_cost(PrivacyDefinition.ELASTIC, events, delta=1e-6, order=8.0)
    promise = Budget(definition=PrivacyDefinition.ELASTIC, epsilon=6.0, window=DAY).promise
    assert "at most epsilon = 6 per step, counted by the largest number of steps" in promise
