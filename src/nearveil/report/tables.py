"""Tables as people read them: estimates with their intervals, in columns of equal decimals; and tables of attacks."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from functools import cache
from importlib import resources
from numbers import Integral, Real
from statistics import median
from typing import TYPE_CHECKING, Any

from nearveil.evaluation.attack_experiment import AttackRow
from nearveil.evaluation.best_attacker import AttackerScore, BestAttacker
from nearveil.evaluation.stats import Estimate, Mean, Share
from nearveil.report.text_table import markdown_table, text_table

if TYPE_CHECKING:
    from pandas import DataFrame

NOTHING = "–"
"""What stands in a cell without a value."""
_MOST_DECIMALS = 5


def cells_of(values: Sequence[object]) -> list[str]:
    """Return a column as text; its numbers have equally many decimals unless they are of different sizes.

    Examples
    --------
    >>> cells_of([Mean(0.4711, 0.0123), Mean(0.5, 0.011), None])
    ['0.471 ± 0.012', '0.500 ± 0.011', '–']
    >>> cells_of([Share(0.95, 0.899, 0.982), "never", 25_000])
    ['0.95 (0.90–0.98)', 'never', '25,000']
    """
    own = [_decimals(value) for value in values]
    # Numbers without intervals keep their digits beside those that have one.
    measured = [has_interval(value) for value in values]
    known = [one for one, has in zip(own, measured, strict=True) if one is not None and has == any(measured)]
    alike: int | None = None
    if known:
        alike = round(median(known)) if any(measured) else max(known)
        # Each its own if one digit of an interval would not be left, or if sizes differ much.
        alike = alike if max(known) <= alike + 1 and max(known) - min(known) <= 2 else None
    return [
        format_value(value, one if alike is None or one is None or has != any(measured) else alike)
        for value, one, has in zip(values, own, measured, strict=True)
    ]


def has_interval(value: object) -> bool:
    """Whether a value is an estimate with an interval."""
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
    return f"{value:,.{decimals or 0}f}"


def _decimals(value: object) -> int | None:
    """Return how many decimals a value needs: two digits of its interval, or three of its own."""
    if isinstance(value, Mean) and value.half_width:
        return _until_digit(value.half_width, 2)
    if isinstance(value, Share):
        return max(2, _until_digit(value.high - value.low, 1))
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
    return f"# {title}\n\n{markdown_table(lines[0], lines[1:])}"


# Attacks.


HEADERS = (
    "attack", "dataset", "k", "colluders", "Dist (m)", "Acc", "Cost (s)", "queries", "p95", "certified",
    "radius (m)",
)  # fmt: skip
PAPER_TAU_M = 100.0
PAPER_HEADERS = ("paper: Dist (m)", "Acc", "Cost (s)")


def table_notes(*, tau_m: float, runs: int, instances: int) -> str:
    """Return what the columns mean."""
    over = f" (± half the 95 % interval over {runs} runs of {instances} attacks)" if runs > 1 else ""
    return (
        f"Dist: mean error{over}; Acc: share found within {tau_m:g} m, with a binomial 95 % interval.\n"
        "queries: questions per attack (p95: 95 % need no more); certified: share in which the answers leave no other\n"
        "place (where people are protected, for the published one); radius: mean distance within which the attack\n"
        "says that the service has the target, surely where certified, else in 95 % of cases."
    )


def attack_cells(row: AttackRow) -> list[str]:
    """Return one row of the table."""
    score, of_lists = row.score, row.answers == "list"
    return [
        row.attack,
        row.dataset,
        str(row.k) if of_lists else NOTHING,
        str(row.colluders) if of_lists else NOTHING,
        _meters(score.dist_m),
        format_value(score.acc, 3),
        f"{score.cost_s.value:.3f}",
        format_value(score.queries, 1),
        f"{score.queries_p95:.0f}",
        f"{score.certified.value:.2f}" if row.attack == "adaptive" else NOTHING,
        format_value(score.radius_m, 0),
    ]


def paper_cells(row: AttackRow) -> list[str]:
    """Return the paper's values for the same cell, where it has any."""
    found = None if row.protected or row.answers != "list" else _paper().get((row.attack, row.dataset, row.k))
    return [NOTHING] * 3 if found is None else found


@cache
def _paper() -> dict[tuple[str, str, int], list[str]]:
    """Read the paper's Table 1 by attack, population and k, without pandas, which attacks do not need."""
    path = resources.files("nearveil.evaluation") / "paper_numbers" / "table1_attacks.csv"
    return {
        (row["method"].lower(), row["dataset"], int(row["k"])): [row["dist_m"], row["acc"], row["cost_s"]]
        for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    }


def with_paper(rows: Sequence[AttackRow], *, tau_m: float) -> tuple[list[str], list[list[str]]]:
    """Headers and cells, with the paper's columns where any row has a value there."""
    beside = tau_m == PAPER_TAU_M and any(paper_cells(row)[0] != "–" for row in rows)
    headers = [*HEADERS, *(PAPER_HEADERS if beside else ())]
    return headers, [[*attack_cells(row), *(paper_cells(row) if beside else ())] for row in rows]


def attack_document(row: AttackRow, best: BestAttacker | None) -> dict[str, Any]:
    """Return one row for machines."""
    score = row.score
    means = ("dist_m", "cost_s", "queries")
    return {
        "attack": row.attack,
        "answers": row.answers,
        "dataset": row.dataset,
        "k": row.k if row.answers == "list" else None,
        "colluders": row.colluders,
        "runs": score.runs,
        "instances": score.instances,
        **{name: _rounded(getattr(score, name)) for name in (*means, "acc", "certified", "acc_served")},
        "queries_p95": round(score.queries_p95, 1),
        "protected": row.protected,
        "published_colluders": row.published_colluders,
        "false_certificates": score.false_certificates,
        "questions_at_least": _rounded(score.at_least),
        **{name: _rounded(getattr(score, name)) for name in ("radius_m", "radius_held")},
        "policy": row.policy or None,
        "interval_95": {name: _interval(getattr(score, name)) for name in (*means, "acc", "certified")},
        "bayes_dist_m": None if best is None else _rounded(best.dist_m),
        "bayes_acc": None if best is None else _rounded(best.acc),
        "bayes": None if best is None else _best_document(best),
    }


def _best_document(best: BestAttacker) -> dict[str, Any]:
    return {**_score_document(best), "tenths_of_density": [_score_document(tenth) for tenth in best.tenths]}


def _score_document(score: AttackerScore) -> dict[str, Any]:
    estimates: dict[str, Estimate] = {"dist_m": score.dist_m, "acc": score.found, "named": score.named}
    return {
        "targets": score.targets,
        **{name: _rounded(estimate) for name, estimate in estimates.items()},
        "interval_95": {name: _interval(estimate) for name, estimate in estimates.items()},
    }


def _rounded(value: Estimate | float | None) -> float | None:
    number = value.value if isinstance(value, Mean | Share) else value
    return None if number is None else round(number, 4)


def _interval(estimate: Estimate) -> float | list[float | None] | None:
    """Return half the interval of a mean, and the ends of that of a share."""
    if isinstance(estimate, Mean):
        return _rounded(estimate.half_width)
    return [_rounded(estimate.low), _rounded(estimate.high)]


def best_attacker_text(best: BestAttacker, tau_m: float) -> str:
    """Say what the Bayes attacker gets, and show it by tenths of density."""
    said = (
        f"  wrong by {_meters(best.dist_m)} m on average, within {tau_m:g} m in {_percent(best.found)};\n"
        f"  names {_percent(best.named)} of people (its first guess is the right address)"
    )
    if best.named_sparsest is None:
        return f"{said}."
    names = ["1 (densest)", *map(str, range(2, 10)), "10 (sparsest)"]
    rows = [
        [name, format_value(one.named, 3), format_value(one.found, 3), _meters(one.dist_m)]
        for name, one in zip(names, best.tenths, strict=True)
    ]
    table = text_table(["tenth of density", "named", f"within {tau_m:g} m", "mean error (m)"], rows)
    return f"{said},\n  and {_percent(best.named_sparsest)} of the sparsest tenth.\n\n{table}"


def _percent(share: Share) -> str:
    return f"{share.value:.1%} (95 % interval {share.low:.1%} to {share.high:.1%})"


def _meters(mean: Mean) -> str:
    return format_value(mean, 1 if mean.value < 100 else 0)
