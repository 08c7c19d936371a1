"""Options that charge a release to a ledger."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from nearveil.engines.charging import account_names, charge_release
from nearveil.errors import DataError, UsageError
from nearveil.io.people import People
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.intervals import Intervals
from nearveil.privacy.guarantee import Notion
from nearveil.privacy.ledger import Budget, Fit, Ledger

LedgerOption = Annotated[
    Path | None,
    typer.Option(help="Charge everybody here before publishing; needs --person and --budget.", metavar="FILE"),
]
BudgetOption = Annotated[
    list[str] | None,
    typer.Option(
        help="What a person may lose in a window of time, such as metric:0.02/30d or central:4/365d; may be repeated.",
        metavar="NOTION:EPSILON[,DELTA]/TIME",
    ),
]

_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}
_NUMBER = r"([0-9.]+(?:[eE][-+]?[0-9]+)?)"
_BUDGET = re.compile(rf"(\w+):{_NUMBER}(?:,{_NUMBER})?/(\d{{1,6}})([dhm])")
# What the numbers of a computer cannot reach needs a delta, however small.
_LEAST_DELTA = 1e-9


def budget_from_text(text: str) -> Budget:
    """Read a budget.

    Examples
    --------
    >>> print(budget_from_text("metric:0.02/30d").promise)
    What is released under the metric notion of a person's places of any 30 days costs at most epsilon = 0.02 and \
delta = 1e-09 per metre.
    """
    match = _BUDGET.fullmatch(text.strip())
    if match is None or match[1] not in list(Notion):
        raise UsageError(
            f"--budget takes a notion ({', '.join(Notion)}), an epsilon and a time, such as metric:0.02/30d or "
            "central:4,1e-5/365d"
        )
    try:
        epsilon, delta = float(match[2]), float(match[3] or _LEAST_DELTA)
    except ValueError:
        raise UsageError("--budget has an epsilon or delta that is no number; write such as metric:0.02/30d") from None
    window = int(match[4]) * _UNITS[match[5]]
    return Budget(notion=Notion(match[1]), epsilon=epsilon, delta=delta, window=window)


class Charge:
    """Everybody's loss in a release, to be put on record before anything is published."""

    def __init__(
        self, path: Path | None, budgets: list[str] | None, person: str | None, *, per_row: bool, seed: int | None
    ) -> None:
        self._person = person
        self._ledger: Ledger | None = None
        if path is None:
            if budgets:
                raise UsageError("--budget needs a --ledger to keep it in")
            return
        if seed is not None:
            raise UsageError("--seed protects nobody, so there is nothing to charge; leave --seed or --ledger out")
        if person is None or per_row:
            raise UsageError("--ledger charges people: name their column with --person, one row each")
        if not budgets:
            raise UsageError("--ledger needs at least one --budget, such as metric:0.02/30d")
        parsed = [budget_from_text(text) for text in budgets]
        self._ledger = Ledger(path, parsed)

    @property
    def ledger(self) -> Ledger | None:
        """The ledger, for an engine that charges by itself; none if nobody is charged."""
        return self._ledger

    def record(self, mechanism: Mechanism, people: People) -> None:
        """Put the release on record, and the fit if the intervals are from the same people, or refuse both."""
        if self._ledger is None:
            return
        fitted_here = isinstance(mechanism, DPRS) and mechanism.intervals is None
        charge_release(self._ledger, mechanism, self._ids(people), fitted_here=fitted_here)

    def record_fit(self, intervals: Intervals, delta: float, people: People) -> None:
        """Put the fit of these intervals on record, or refuse it."""
        if self._ledger is not None:
            who = account_names(self._ids(people))
            cost, draw_id = intervals.guarantee(delta), f"fit/{secrets.token_hex(16)}"
            self._ledger.record(Fit.under(cost, who=who, when=datetime.now(UTC), draw_id=draw_id))

    def _ids(self, people: People) -> list[object]:
        ids = people.carried.column(self._person)
        if not (pa.types.is_integer(ids.type) or pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type)):
            raise DataError(
                f"the ids in {self._person!r} are neither whole numbers nor text, so a person could have two accounts; "
                "write them as either"
            )
        return list(ids.to_pylist())
