import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant, compute_epsilon
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from nearveil.privacy.accounting import (
    conversion_cost,
    epsilon_from_log_moment,
    gaussian_log_moment,
    laplace_log_moment,
)

ORDERS = [1.5, 2.0, 4.0, 8.0, 16.0, 25.0, 44.0, 64.0, 128.0]


def test_rdp_of_laplace_equals_dp_accounting() -> None:
    for scale in (0.3, 0.98, 4.94, 35.0, 500.0):
        accountant = RdpAccountant(orders=ORDERS).compose(dp_event.LaplaceDpEvent(scale))
        for order, theirs in zip(ORDERS, accountant._rdp, strict=True):
            assert laplace_log_moment(order, scale) / (order - 1) == pytest.approx(theirs, rel=1e-6)


def test_rdp_of_gaussian_equals_dp_accounting() -> None:
    for sigma in (0.5, 1.9, 8.0):
        accountant = RdpAccountant(orders=ORDERS).compose(dp_event.GaussianDpEvent(sigma))
        for order, theirs in zip(ORDERS, accountant._rdp, strict=True):
            assert gaussian_log_moment(order, sigma) / (order - 1) == pytest.approx(theirs, rel=1e-9)


def test_conversion_equals_dp_accounting() -> None:
    for sigma in (1.0, 3.0, 10.0):
        rdp = [gaussian_log_moment(order, sigma) / (order - 1) for order in ORDERS]
        theirs, _ = compute_epsilon(ORDERS, rdp, 1e-5)
        ours = min(value + conversion_cost(order, 1e-5) for order, value in zip(ORDERS, rdp, strict=True))
        assert ours == pytest.approx(theirs, rel=1e-9)


def test_least_epsilon_is_no_worse_than_any_order() -> None:
    for scale in (0.5, 5.0, 50.0):

        def moment(at: float, scale: float = scale) -> float:
            return 3 * laplace_log_moment(at, scale)

        best, order = epsilon_from_log_moment(moment, 1e-5)
        assert order > 1
        for other in np.geomspace(1.01, 1e4, 200):
            at_other = 3 * laplace_log_moment(other, scale) / (other - 1) + conversion_cost(other, 1e-5)
            assert best <= at_other + 1e-9


@given(order=st.floats(1.1, 60), scale=st.floats(0.2, 200))
def test_laplace_moment_is_the_integral_it_stands_for(order: float, scale: float) -> None:
    """A naive oracle: the moment by quadrature of p^a q^(1-a)."""

    def integrand(t: float) -> float:
        return math.exp((-order * abs(t - 1) - (1 - order) * abs(t)) / scale) / (2 * scale)

    pieces = [quad(integrand, low, high, limit=200)[0] for low, high in ((-60 * scale, 0), (0, 1), (1, 1 + 60 * scale))]
    assert laplace_log_moment(order, scale) == pytest.approx(math.log(sum(pieces)), rel=1e-5, abs=1e-9)


def test_tiny_losses_keep_their_digits() -> None:
    """Far out, the moment is a (a-1) / (2 λ²); naive arithmetic gives 0 or less there."""
    assert laplace_log_moment(2.0, 1e9) == pytest.approx(1e-18, rel=1e-6)
