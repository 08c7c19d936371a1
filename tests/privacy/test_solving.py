"""Minima and roots: exact enough that nothing more is lost than a function's last digits."""

import math

import pytest

from nearveil.privacy.accounting import least_between, root_between


@pytest.mark.parametrize("where", [0.0, 1e-9, 0.3, 2.0, 4.999, 5.0])
def test_the_least_is_found_wherever_it_is(where: float) -> None:
    found, least = least_between(lambda x: math.cosh(x - where), 0.0, 5.0)
    assert found == pytest.approx(where, abs=1e-6)
    assert least == pytest.approx(1.0, abs=1e-14)


def test_what_is_returned_belongs_together() -> None:
    found, least = least_between(lambda x: abs(x - 1.234), 1.0, 2.0)
    assert least == abs(found - 1.234)


def test_a_root() -> None:
    assert root_between(lambda x: x**3 - 2, 0.0, 2.0, precision=1e-12) == pytest.approx(2 ** (1 / 3), abs=1e-11)
