"""Private fits: the intervals of DPRS and the cells of HideAmong from the users of a file or a frame."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from nearveil.errors import DataError, UsageError, without_context
from nearveil.io.atomic import replacing
from nearveil.io.location import ReadOptions
from nearveil.mechanisms.base import FitRefusedError, Learned, Mechanism
from nearveil.privacy.guarantee import Guarantee
from nearveil.privacy.ledger import Ledger
from nearveil.release.rows import InputRows, RowCheck, check_charged, read_options, read_rows
from nearveil.types import IntArray, ProgressBar, no_bar


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A mechanism that has learned from users, and what that cost each of them.

    Attributes
    ----------
    mechanism : Mechanism
        Fitted.
    learned : Learned
        Its intervals or cells.
    guarantee : Guarantee
        What the fit cost.
    """

    mechanism: Mechanism
    learned: Learned
    guarantee: Guarantee
    skipped: dict[str, IntArray] = field(repr=False)

    @property
    def summary(self) -> str:
        """The result in one sentence."""
        return f"{len(self.learned):,} {self.mechanism.learns} found: {self.guarantee.number}"

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the intervals or cells, which are as public as what is released with them."""
        with replacing(Path(path), force=force) as temporary:
            temporary.write_text(self.learned.to_json(), encoding="utf-8")


@without_context()
def fit(
    source: Any,
    mechanism: Mechanism,
    *,
    user: str | None = None,
    read: ReadOptions | None = None,
    skip_bad: bool = False,
    ledger: Ledger | None = None,
    progress: ProgressBar | None = None,
    **reading: Any,
) -> Fitted:
    """Let a copy of a DPRS or HideAmong learn from the users of a file or a frame; nothing else about them is kept.

    Parameters
    ----------
    source : path or frame
        True locations.
    mechanism : Mechanism
        Not fitted yet.
    user : str, optional
        The column of users, who must have one row each. Without it, the cost counts rows.
    read : ReadOptions, optional
        Which columns hold the locations; or its fields, such as ``latitude=``.
    skip_bad : bool
        Leave rows out that cannot be used.
    ledger : Ledger, optional
        Everyone is charged in it; needs ``user``.
    progress : callable, optional
        Gives a progress bar for each step.

    Examples
    --------
    >>> import pandas as pd
    >>> from nearveil import HideAmong, named_region
    >>> from nearveil.io.synthetic import synthetic_city
    >>> city = synthetic_city(500, named_region("san-francisco"), rng=1)
    >>> users = pd.DataFrame(city, columns=["latitude", "longitude"])
    >>> fit(users, HideAmong(50, region="san-francisco", seed=1)).guarantee.epsilon
    1.0
    """
    bar = progress or no_bar
    check_charged(ledger, user, mechanism.seed)
    if not mechanism.is_to_be_fitted:
        raise UsageError(f"{type(mechanism).__name__} has nothing to learn; give an unfitted DPRS or HideAmong")
    rows, location = read_rows(source, user, read_options(read, reading), bar)
    check = RowCheck(mechanism.area, location, skip_bad=skip_bad)
    fitted, cost = fit_on(mechanism, rows.only(check(rows.points, users=rows.users)), ledger, bar)
    assert fitted.learned is not None  # noqa: S101 - it was fitted
    return Fitted(mechanism=fitted, learned=fitted.learned, guarantee=cost, skipped=check.skipped)


def fit_on(
    mechanism: Mechanism, rows: InputRows, ledger: Ledger | None, bar: ProgressBar
) -> tuple[Mechanism, Guarantee]:
    """Return a fitted copy of a mechanism and what the fit cost, which is charged before anything is told of it."""
    if rows.users is not None and len(np.unique(rows.users)) < len(rows.users):
        raise DataError(
            f"{mechanism.learns} are fitted on one row per user, and some users have several; keep one of each, or "
            f"give {mechanism.learns}= that were made before"
        )
    fitted = copy.copy(mechanism)
    try:
        with bar(f"finding {mechanism.learns}", mechanism.fit_steps) as advance:
            fitted.fit(rows.points, progress=advance)
    except FitRefusedError as error:
        refusal: FitRefusedError | None = error
        cost = error.cost
    else:
        refusal = None
        if rows.users is None:
            _count_rows(fitted)
        assert fitted.learned is not None  # noqa: S101 - it was fitted
        cost = fitted.learned.guarantee(float(getattr(mechanism, "delta", 0.0)))
    # Not in the handler: an error that says that the fit cannot be afforded does not carry the refusal along.
    if ledger is not None:
        ledger.charge([cost], rows.names)
    if refusal is not None:
        raise refusal
    # What cannot be drawn by is refused here, and not later.
    fitted._prepare()
    return fitted, cost


def _count_rows(mechanism: Mechanism) -> None:
    """Say that the cost of what was learned counts rows, where a user may have had several."""
    learned: Any = mechanism.learned
    setattr(mechanism, f"{mechanism.learns}_", replace(learned, unit="row"))
