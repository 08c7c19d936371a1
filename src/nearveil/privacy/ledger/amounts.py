"""Amounts of epsilon and delta: which ones are accepted, and how they are added without error.

An amount is the decimal number that it prints as: 0.1 is one tenth. Sums and comparisons are exact, so that ten
releases of 0.1 fill a budget of 1 and nothing more fits in, however many and however small the amounts are. Where a
result must be a float again it is rounded against the spender: a cost up, what is left down.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from decimal import Context, Decimal, Inexact, InvalidOperation

import numpy as np

from nearveil.errors import UsageError

LEAST_AMOUNT = sys.float_info.min
"""The least normal number: below it floats lose their digits one by one."""

# Floats reach from 1e-324 to 1e309, so that exact sums have some 650 digits; running out of digits is an error.
_EXACT = Context(prec=1000, traps=[Inexact, InvalidOperation])


def as_epsilon(value: float) -> float:
    """Return a usable epsilon as a float, or say what is wrong with it."""
    number = _as_amount(value, "epsilon")
    if number == 0:
        raise UsageError("epsilon must be greater than 0; what costs nothing needs no place in the ledger")
    return number


def as_delta(value: float) -> float:
    """Return a usable delta as a float, or say what is wrong with it."""
    number = _as_amount(value, "delta")
    if number >= 1:
        raise UsageError("delta must be less than 1; a delta of 1 promises nothing, and 1e-5 is a usual choice")
    return number


def exact(value: float) -> Decimal:
    """Return the number that a float prints as."""
    return Decimal(repr(value))


def exact_sum(values: Iterable[float]) -> Decimal:
    """Return the sum of the printed numbers, without any error."""
    total = Decimal(0)
    for value in values:
        total = _EXACT.add(total, exact(value))
    return total


def exact_difference(first: Decimal, second: Decimal) -> Decimal:
    """Return the difference without any error."""
    return _EXACT.subtract(first, second)


def float_at_least(value: Decimal) -> float:
    """Return the least float that prints as no less than ``value``.

    Examples
    --------
    >>> float_at_least(exact_sum([0.1] * 10)), sum([0.1] * 10)
    (1.0, 0.9999999999999999)
    """
    number = float(value)
    return number if exact(number) >= value else math.nextafter(number, math.inf)


def float_at_most(value: Decimal) -> float:
    """Return the largest float that prints as no more than ``value``."""
    number = float(value)
    return number if exact(number) <= value else math.nextafter(number, -math.inf)


def written_down(value: float, digits: int = 6) -> str:
    """Write a number with so many significant digits, never more than it is."""
    shortened = Context(prec=digits, rounding="ROUND_FLOOR").create_decimal(repr(value))
    return f"{float_at_most(shortened):g}"


def _as_amount(value: float, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise UsageError(f"{name} must be a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise UsageError(f"{name} must be a finite number; what has no finite {name} must not be published")
    if number < 0:
        raise UsageError(f"{name} must not be negative; nothing that is published gives privacy back")
    if 0 < number < LEAST_AMOUNT:
        raise UsageError(f"{name} is too small to be counted exactly; round it up to {LEAST_AMOUNT:.3g} or more")
    # Adding 0 makes a plain zero of a negative one.
    return number + 0.0
