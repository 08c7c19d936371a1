"""Tables as people read them: estimates with their intervals, in columns of equal decimals; and tables of attacks."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from numbers import Integral, Real
from statistics import median
from typing import TYPE_CHECKING, Any

from nearveil.evaluation.attack_experiment import AttackRow
from nearveil.evaluation.stats import Estimate, Mean, Share
from nearveil.evaluation.tradeoff import BestAttacker
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


# Attacks.


PAPER_TAU_M = 100.0
_PAPER_HEADERS = ("paper: Dist (m)", "Acc", "Cost (s)")


def table_notes(*, tau_m: float, runs: int, instances: int) -> str:
    """Return what the columns mean."""
    over = f" (± half the 95 % interval over {runs} runs of {instances} attacks)" if runs > 1 else ""
    return (
        f"Dist: mean error{over}; Acc: share found within {tau_m:g} m, with a binomial 95 % interval.\n"
        "queries: per attack (p95: 95 % need no more); certified: share in which the answers leave no other location\n"
        "(where users are protected, for the published one); radius: mean distance within which the attack says that\n"
        "the service has the target, surely where certified, else in 95 % of cases."
    )


def with_paper(rows: Sequence[AttackRow], *, tau_m: float) -> tuple[list[str], list[list[str]]]:
    """Return headers and cells, with the paper's columns where any row has a value there."""
    cells = [_cells(row) for row in rows]
    printed = [_printed(row) if tau_m == PAPER_TAU_M else None for row in rows]
    beside = [paper or [NOTHING] * 3 if any(printed) else [] for paper in printed]
    headers = [*cells[0], *(_PAPER_HEADERS if any(printed) else ())]
    return headers, [[*own.values(), *paper] for own, paper in zip(cells, beside, strict=True)]


def _cells(row: AttackRow) -> dict[str, str]:
    score, of_lists = row.score, row.answers == "list"
    return {
        "attack": row.attack,
        "dataset": row.dataset,
        "k": str(row.k) if of_lists else NOTHING,
        "accounts": str(row.accounts) if of_lists else NOTHING,
        "Dist (m)": _meters(score.dist_m),
        "Acc": format_value(score.acc, 3),
        "Cost (s)": f"{score.cost_s.value:.3f}",
        "queries": format_value(score.queries, 1),
        "p95": f"{score.queries_p95:.0f}",
        "certified": f"{score.certified.value:.2f}" if row.attack == "adaptive" else NOTHING,
        "radius (m)": format_value(score.radius_m, 0),
    }


def _printed(row: AttackRow) -> list[str] | None:
    """Return the paper's values for the same cell, where it has any."""
    return None if row.protected or row.answers != "list" else _table1().get((row.attack, row.dataset, row.k))


@cache
def _table1() -> dict[tuple[str, str, int], list[str]]:
    """Read the paper's Table 1 by attack, population and k, without pandas, which attacks do not need."""
    path = resources.files("nearveil.evaluation") / "paper_numbers" / "table1_attacks.csv"
    return {
        (row["method"].lower(), row["dataset"], int(row["k"])): [row["dist_m"], row["acc"], row["cost_s"]]
        for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    }


def attack_document(row: AttackRow, best: BestAttacker | None) -> dict[str, Any]:
    """Return one row for machines."""
    score, of_lists = row.score, row.answers == "list"
    known = ("attack", "answers", "dataset", "accounts", "protected")
    counted = ("runs", "instances", "false_certificates")
    return {
        **{name: getattr(row, name) for name in known},
        "k": row.k if of_lists else None,
        "policy": row.policy or None,
        **{name: getattr(score, name) for name in counted},
        **_numbers({name: getattr(score, name) for name in ("dist_m", "cost_s", "queries", "acc", "certified")}),
        **{name: _rounded(getattr(score, name)) for name in ("acc_served", "queries_p95", "radius_m", "radius_held")},
        "bayes_dist_m": None if best is None else _rounded(best.dist_m),
        "bayes_acc": None if best is None else _rounded(best.found),
        "bayes": None if best is None else _best_document(best),
    }


def _best_document(best: BestAttacker) -> dict[str, Any]:
    numbers: dict[str, Estimate] = {"dist_m": best.dist_m, "acc": best.found, "named": best.named}
    if best.named_sparsest is not None:
        numbers["named_sparsest"] = best.named_sparsest
    return {"targets": best.targets, **_numbers(numbers)}


def _numbers(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    """Return numbers, and beside them half the interval of each mean and the ends of that of each share."""
    intervals = {
        name: _rounded(one.half_width) if isinstance(one, Mean) else [_rounded(one.low), _rounded(one.high)]
        for name, one in estimates.items()
    }
    return {**{name: _rounded(one) for name, one in estimates.items()}, "interval_95": intervals}


def _rounded(value: Estimate | float | None) -> float | None:
    number = value.value if isinstance(value, Mean | Share) else value
    return None if number is None else round(number, 4)


def best_attacker_text(best: BestAttacker, tau_m: float) -> str:
    """Say what the Bayes attacker gets."""
    said = (
        f"  wrong by {_meters(best.dist_m)} m on average, within {tau_m:g} m in {_percent(best.found)};\n"
        f"  names {_percent(best.named)} of people (its first guess is the right address)"
    )
    if best.named_sparsest is None:
        return f"{said}."
    return f"{said},\n  and {_percent(best.named_sparsest)} of the tenth who live where people are sparsest."


def _percent(share: Share) -> str:
    return f"{share.value:.1%} (95 % interval {share.low:.1%} to {share.high:.1%})"


def _meters(mean: Mean) -> str:
    return format_value(mean, 1 if mean.value < 100 else 0)
