"""Numbers as people read them."""

import math

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def duration(seconds: float) -> str:
    """Write a time with a unit that suits it.

    Examples
    --------
    >>> duration(0.00123)
    '1.23 ms'
    """
    size, unit = next((pair for pair in _UNITS if seconds >= pair[0]), _UNITS[-1])
    return f"{amount(seconds / size)} {unit}"


def amount(value: float) -> str:
    """Write a number with three digits that count, and none after the point where it is large.

    Examples
    --------
    >>> amount(1234567.0), amount(1.2345)
    ('1,234,567', '1.23')
    """
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"
