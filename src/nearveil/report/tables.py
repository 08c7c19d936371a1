"""Tables as people read them: estimates with their intervals, in columns of equal decimals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from statistics import median
from typing import TYPE_CHECKING

from nearveil.evaluation.stats import Mean, Share
from nearveil.report.text_table import text_table

if TYPE_CHECKING:
    from pandas import DataFrame

NOTHING = "–"
"""What stands in a cell without a value."""
_MOST_DECIMALS = 3
# Runs that agree have an interval of a rounding error.
_NOUGHT = 1e-12


def cells_of(values: Sequence[object]) -> list[str]:
    """Return a column as text; its numbers have equally many decimals unless they are of different sizes.

    Examples
    --------
    >>> cells_of([Mean(0.4711, 0.0123), Mean(0.5, 0.011), None])
    ['0.471 ± 0.012', '0.500 ± 0.011', '–']
    >>> cells_of([Share(0.95, 0.899, 0.982), "never", 25_000])
    ['0.95 (0.90–0.98)', 'never', '25,000']
    """
    decimals = [_decimals(value) for value in values]
    for measured in (True, False):
        same = [row for row, value in enumerate(values) if _has_interval(value) == measured]
        known = [one for row in same if (one := decimals[row]) is not None]
        by_median = measured and not any(isinstance(value, Share) for value in values)
        alike = (round(median(known)) if by_median else max(known)) if known else 0
        # Each its own if one digit of an interval would not be left, or if sizes differ much.
        if known and max(known) <= alike + 1 and max(known) - min(known) <= 2:
            for row in same:
                decimals[row] = alike if decimals[row] is not None else None
    return [format_value(value, one) for value, one in zip(values, decimals, strict=True)]


def _has_interval(value: object) -> bool:
    return isinstance(value, Share) or (isinstance(value, Mean) and value.half_width is not None)


def format_value(value: object, decimals: int | None = None) -> str:
    """Return a value as text, an estimate with its interval, with so many decimals or as many as are certain."""
    decimals = _decimals(value) if decimals is None else decimals
    if isinstance(value, Mean):
        middle = _number(value.value, decimals)
        return middle if value.half_width is None else f"{middle} ± {_number(value.half_width, decimals)}"
    if isinstance(value, Share):
        low, high = _number(value.low, decimals), _number(value.high, decimals)
        return f"{_number(value.value, decimals)} ({low}–{high})"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Real):
        return NOTHING if math.isnan(value) else _number(float(value), decimals)
    return NOTHING if value is None else str(value)


def _number(value: float, decimals: int | None) -> str:
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:z,.{decimals or 0}f}"


def _decimals(value: object) -> int | None:
    """Return how many decimals a value needs: two digits of its interval (or of a small share), or three of its own."""
    if isinstance(value, Mean) and value.half_width and value.half_width > _NOUGHT:
        return _until_digit(value.half_width, 2)
    if isinstance(value, Share):
        return max(2, _until_digit(value.high - value.low, 1), _until_digit(value.high, 2))
    number = value.value if isinstance(value, Mean) else value
    if isinstance(number, bool | str | Integral) or not isinstance(number, Real) or not math.isfinite(number):
        return None
    # 0.5 needs one decimal, 0.948 three.
    written = f"{number:.3g}"
    digits = written.partition("e")[0].replace(".", "").lstrip("-0").rstrip("0")
    return _until_digit(float(number), len(digits) if math.isclose(float(written), number) else 3)


def _until_digit(value: float, digits: int) -> int:
    """Return the decimals that show so many digits of a value."""
    if value == 0 or not math.isfinite(value):
        return 0
    return min(max(0, digits - 1 - math.floor(math.log10(abs(value)))), _MOST_DECIMALS)


def headings_of(frame: DataFrame) -> list[tuple[str, str]]:
    """Return the group and the name of each column; the group is empty where columns have one level."""
    return [(str(name[0]), str(name[-1])) if isinstance(name, tuple) else ("", str(name)) for name in frame.columns]


def frame_cells(frame: DataFrame) -> tuple[list[str], list[list[str]]]:
    """Return headers and rows of a table as text."""
    headers = [f"{group}: {name}" if group else name for group, name in headings_of(frame)]
    columns = [cells_of(frame.iloc[:, number].tolist()) for number in range(frame.shape[1])]
    return headers, [list(row) for row in zip(*columns, strict=True)]


def frame_text(frame: DataFrame, *, width: int | None = None) -> str:
    """Return a table for a terminal."""
    return text_table(*frame_cells(frame), width=width)


def frame_markdown(frame: DataFrame, title: str) -> str:
    """Return a table as Markdown below a title."""
    headers, rows = frame_cells(frame)
    lines = [[" ".join(cell.replace("|", "\\|").split()) for cell in row] for row in (headers, *rows)]
    lines.insert(1, ["---"] * len(headers))
    return "\n".join([f"# {title}", "", *(f"| {' | '.join(line)} |" for line in lines), ""])
