"""The ledger: what each user has lost, in one SQLite file, and budgets that refuse more.

Losses under one privacy definition add up, epsilons and deltas alike, also if later releases are chosen in view of
earlier ones (Rogers, Roth, Ullman and Vadhan, "Privacy Odometers and Filters", 2016). Losses under different
definitions are never added: each definition has a budget of its own.

Amounts are whole multiples of 1e-12, costs rounded up and budgets down. Sums are exact: ten releases of 0.1 fill a
budget of 1, and nothing more fits.

The file holds no ids: an account is 61 bits of a BLAKE2b digest of a random salt, kept in the file, and the user's id.
Nobody reads ids by chance; someone who has the file can still try ids. The other 3 bits are the number of the budget.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import sqlite3
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nearveil.errors import DataError, NearveilError, OutputError, UsageError
from nearveil.privacy.guarantee import Counted, Guarantee, PrivacyDefinition
from nearveil.types import IntArray

MOST_EPSILON = 1e6
_ONE = 10**12
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND, _DAY = timedelta(microseconds=1), timedelta(days=1)
_PATIENCE_S = 300
_ROWS_AT_ONCE = 500
# The budget's number takes the last 3 bits of an account. The order of the definitions is part of the format.
_NUMBER_OF = {definition: number for number, definition in enumerate(PrivacyDefinition)}
_BUDGET_BITS = 7

# Says what the file is, in SQLite's own header: "NvLg".
_APPLICATION_ID = 0x4E764C67
# Moments and windows are in microseconds. Totals are what counts against a budget, in units of 1e-12; charges are what
# is to be taken off them once it has left the window.
_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION_ID};
CREATE TABLE state (salt BLOB, newest INTEGER);
CREATE TABLE budgets (definition TEXT PRIMARY KEY, epsilon REAL, delta REAL, window INTEGER);
CREATE TABLE totals (account INTEGER PRIMARY KEY, epsilon INTEGER, delta INTEGER);
CREATE TABLE charges (
    budget INTEGER, moment INTEGER, account INTEGER, epsilon INTEGER, delta INTEGER,
    PRIMARY KEY (budget, moment, account)
) WITHOUT ROWID;
"""
_OVERSPENT = """
SELECT count(*), max(totals.epsilon - new.epsilon), max(totals.delta - new.delta)
FROM charges AS new JOIN totals USING (account)
WHERE budget = :budget AND moment = :now AND (totals.epsilon > :most_epsilon OR totals.delta > :most_delta)
"""
_ADD_TO_TOTALS = """
INSERT INTO totals SELECT account, epsilon, delta FROM charges WHERE budget = :budget AND moment = :now
ON CONFLICT DO UPDATE SET epsilon = epsilon + excluded.epsilon, delta = delta + excluded.delta
"""
_TAKE_OFF_TOTALS = """
UPDATE totals SET epsilon = totals.epsilon - old.epsilon, delta = totals.delta - old.delta
FROM (
    SELECT account, sum(epsilon) AS epsilon, sum(delta) AS delta FROM charges
    WHERE budget = :budget AND moment <= :end GROUP BY account
) AS old WHERE totals.account = old.account
"""

# Characters that are not seen: Unicode's default-ignorable code points, and control characters.
_INVISIBLE = re.compile(
    "[\x01-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


class Amount(NamedTuple):
    """A privacy loss."""

    epsilon: float
    delta: float

    def __str__(self) -> str:
        return f"epsilon {self.epsilon:.12g}" + (f" with delta {self.delta:.12g}" if self.delta else "")


class OverspentError(NearveilError):
    """A charge would cost a user more than the budget allows; nothing was charged."""

    exit_code = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What each user may lose under one privacy definition, for ever or in any window of time.

    Examples
    --------
    >>> print(Budget(definition=PrivacyDefinition.METRIC, epsilon=0.02, window=timedelta(days=30)))
    metric: epsilon 0.02 per meter in any 30 days
    """

    definition: PrivacyDefinition
    """What the budget is for."""
    epsilon: float
    """Per meter for the metric definition, per step for the elastic one, per user for the others."""
    delta: float = 0.0
    """Of everything that counts together."""
    window: timedelta | None = None
    """A charge counts until it is as old as this, or for ever."""

    def __post_init__(self) -> None:
        if self.definition not in list(PrivacyDefinition):
            raise UsageError(f"definition must be one of {', '.join(PrivacyDefinition)}")
        if not (1 / _ONE <= self.epsilon <= MOST_EPSILON and 0 <= self.delta < 1):
            raise UsageError("a budget needs an epsilon from 1e-12 to 1,000,000 and a delta of at least 0 and below 1")
        if self.window is not None and not _MICROSECOND <= self.window <= 36525 * _DAY:
            raise UsageError("window must be a timedelta greater than 0 and of at most 100 years, or None")

    def __str__(self) -> str:
        days = self.window and self.window / _DAY
        window = f"in any {days:g} day{'s' if days != 1 else ''}" if days else "for ever"
        return f"{self.definition}: {Amount(self.epsilon, self.delta)} {self.definition.unit} {window}"


class Ledger:
    """What each user has lost, on disk, and the budgets that must be kept. Charge first, then publish.

    Threads and processes may use one file at once.

    Parameters
    ----------
    path : Path or str
        The file; made for its owner alone if it does not exist.
    budgets : iterable of Budget
        At most one for each privacy definition. They are stored in the file and can be left out from then on.
    clock : callable, optional
        Returns the time, with a time zone. Turning it back gives nobody a fresh budget: no charge is dated before
        the newest one.
    """

    def __init__(
        self, path: Path | str, budgets: Iterable[Budget] = (), *, clock: Callable[[], datetime] | None = None
    ) -> None:
        self.path = Path(path)
        self._clock = clock or (lambda: datetime.now(UTC))
        wanted = list(budgets)
        if not wanted and not self.path.exists():
            raise UsageError(f"the ledger {self.path} is new and has no budgets; give at least one")
        with self._transaction(may_be_new=bool(wanted)) as db:
            if not self.path.stat().st_size:
                self.path.chmod(0o600)
                for statement in _SCHEMA.split(";"):
                    db.execute(statement)
                db.execute("INSERT INTO state VALUES (?, 0)", (secrets.token_bytes(16),))
            for budget in wanted:
                window = budget.window and budget.window // _MICROSECOND
                row = (str(budget.definition), budget.epsilon, budget.delta, window)
                db.execute("INSERT INTO budgets VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", row)
                stored = _budget(db, budget.definition)
                if stored != budget:
                    raise UsageError(
                        f"the ledger has another budget, {stored}; give this one, leave it out or name a new ledger"
                    )

    @property
    def budgets(self) -> dict[PrivacyDefinition, Budget]:
        """The budgets as they are stored."""
        with self._transaction() as db:
            return _budgets(db)

    def charge(
        self, guarantees: Sequence[Guarantee], users: Sequence[str], counts: Sequence[int] | IntArray | None = None
    ) -> None:
        """Charge a release, or a fit and its release together, to all users; return when it is on disk.

        Ids that differ only in case, width, blanks or invisible characters are one user's. A guarantee that counts
        places is charged as often as ``counts`` says, the number of places of each user. `OverspentError` says that a
        user cannot afford it: then nobody was charged, and nothing may be published.
        """
        for guarantee in guarantees:
            _check_chargeable(guarantee, has_counts=counts is not None)
        with self._transaction() as db:
            now = self._advance(db)
            accounts, places = _accounts(db, users, counts)
            for definition, costs in _costs(guarantees, places).items():
                budget, number = _budget(db, definition), _NUMBER_OF[definition]
                _insert_charges(db, f"({number}, {now}, ?, ?, ?)", np.vstack([accounts + number, costs]).T)
                limits = {
                    "most_epsilon": _units(budget.epsilon, ROUND_FLOOR),
                    "most_delta": _units(budget.delta, ROUND_FLOOR),
                }
                about = {"budget": number, "now": now, **limits}
                db.execute(_ADD_TO_TOTALS, about)
                _check_affordable(db, about, budget, users=len(accounts))
                if budget.window is None:
                    db.execute("DELETE FROM charges WHERE budget = :budget AND moment = :now", about)

    def spent(self, user: str, definition: PrivacyDefinition) -> Amount:
        """Return what a user has lost under a privacy definition, of what still counts."""
        with self._transaction() as db:
            self._advance(db)
            account = int(_accounts(db, [user], None)[0][0]) + _NUMBER_OF[_budget(db, definition).definition]
            total = db.execute("SELECT epsilon, delta FROM totals WHERE account = ?", (account,)).fetchone()
            # To ask changes nothing: a clock that is ahead for a moment frees no budget.
            db.execute("ROLLBACK")
            db.execute("BEGIN")
        return Amount(*(units / _ONE for units in total or (0, 0)))

    def _advance(self, db: sqlite3.Connection) -> int:
        """Return a moment after all before it, and take off the totals what has left its window by then."""
        clock = (self._clock() - _EPOCH) // _MICROSECOND
        now = max(clock, 1 + int(db.execute("SELECT newest FROM state").fetchone()[0]))
        db.execute("UPDATE state SET newest = ?", (now,))
        for definition, budget in _budgets(db).items():
            if budget.window is not None:
                about = {"budget": _NUMBER_OF[definition], "end": now - budget.window // _MICROSECOND}
                db.execute(_TAKE_OFF_TOTALS, about)
                db.execute("DELETE FROM charges WHERE budget = :budget AND moment <= :end", about)
        return now

    @contextmanager
    def _transaction(self, *, may_be_new: bool = False) -> Iterator[sqlite3.Connection]:
        """Hold the file alone. What is done to it is done as a whole, or not at all if there is an error."""
        try:
            # Nothing else may open the file: closing it would give back the locks of all threads.
            where = f"{self.path.absolute().as_uri()}?mode={'rwc' if may_be_new else 'rw'}"
            with closing(sqlite3.connect(where, timeout=_PATIENCE_S, isolation_level=None, uri=True)) as db:
                # EXTRA: no power cut undoes what was committed, as it could after FULL.
                for setting in ("synchronous = EXTRA", "temp_store = MEMORY", "cache_size = -65536"):
                    db.execute(f"PRAGMA {setting}")
                db.execute("BEGIN IMMEDIATE")
                is_ledger = db.execute("PRAGMA application_id").fetchone() == (_APPLICATION_ID,)
                if not is_ledger and (self.path.stat().st_size or not may_be_new):
                    raise sqlite3.DatabaseError("foreign")
                yield db
                # Closing without this undoes everything.
                db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise OutputError(
                f"the ledger {self.path} cannot be used ({error}), so nothing was charged; see to its disk, folder and "
                "permissions, and publish nothing"
            ) from None
        except sqlite3.DatabaseError:
            raise DataError(
                f"{self.path} is no ledger, or it is damaged; restore it from a backup or name another file"
            ) from None


def _budgets(db: sqlite3.Connection) -> dict[PrivacyDefinition, Budget]:
    found = {}
    for name, epsilon, delta, window in db.execute("SELECT * FROM budgets"):
        definition, length = PrivacyDefinition(name), window and window * _MICROSECOND
        found[definition] = Budget(definition=definition, epsilon=epsilon, delta=delta, window=length)
    return found


def _budget(db: sqlite3.Connection, definition: PrivacyDefinition) -> Budget:
    try:
        return _budgets(db)[definition]
    except KeyError:
        raise UsageError(f"the ledger has no budget for the {definition} privacy definition; add one first") from None


def _accounts(
    db: sqlite3.Connection, users: Sequence[str], counts: Sequence[int] | IntArray | None
) -> tuple[IntArray, IntArray]:
    """Return the users' accounts in order, each once, without a budget, and how many places each is charged for."""
    digest = hashlib.blake2b(*db.execute("SELECT salt FROM state").fetchone(), digest_size=8)
    digests = []
    for name in _account_names(users):
        # A copy takes half the time of a new digest.
        of_user = digest.copy()
        of_user.update(name)
        digests.append(of_user.digest())
    keys = np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64) & ~_BUDGET_BITS
    accounts, inverse = np.unique(keys, return_inverse=True)
    if counts is None and len(accounts) < len(keys):
        raise DataError(
            "some ids are the same, or differ only in case, width, blanks or invisible characters, and would share "
            "an account; write each user's id in one way, and give each user once"
        )
    places = np.ones_like(keys) if counts is None else np.asarray(counts)
    if places.shape != keys.shape or places.dtype.kind not in "iu" or (len(places) and places.min() < 1):
        raise UsageError("counts must be one whole number of at least 1 for each user")
    summed = np.zeros_like(accounts)
    np.add.at(summed, inverse, places)
    return accounts, summed


def _account_names(users: Sequence[str]) -> list[bytes]:
    """Return the names of users' accounts; all at once, which takes a tenth of the time of one by one."""
    if not len(users):
        return []
    try:
        text = None if isinstance(users, str) else "\0".join(users)
    except TypeError:
        text = None
    if text is None:
        raise UsageError("users must be a list of ids as text")
    if text.isascii() and text.replace("\0", "").isprintable():
        text = text.lower()
    else:
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold()
        text = unicodedata.normalize("NFKC", text)
    names = "\0".join([name.strip() for name in text.split("\0")]).encode("utf-8", "surrogatepass").split(b"\0")
    if len(names) != len(users) or b"" in names:
        raise DataError("some ids are empty or hold a NUL character; give each user an id")
    return names


def _check_chargeable(guarantee: Guarantee, *, has_counts: bool) -> None:
    by_user = guarantee.counted is Counted.USERS and guarantee.is_of_release
    by_place = guarantee.counted is Counted.PLACES
    reasons = {
        "promises nothing, so there is no loss to charge; leave the ledger out": not guarantee.is_promised,
        "does not hold, so its epsilon is no cost; charge one that holds": not guarantee.holds,
        "holds the loss of a fit too; charge the release and the fit, each alone": guarantee.offset > 0,
        "counts rows; name the column of the users' ids": guarantee.counted is Counted.ROWS,
        "counts places; give counts, the number of places of each user": by_place and not has_counts,
        "counts users; leave counts out, or give counted_per_place(...) of it": by_user and has_counts,
    }
    for reason, applies in reasons.items():
        if applies:
            raise UsageError(f"a ledger charges users, and this guarantee {reason}")


def _costs(guarantees: Sequence[Guarantee], places: IntArray) -> dict[PrivacyDefinition, IntArray]:
    """Return what each user loses under each definition: a row of epsilons and one of deltas, in units of 1e-12."""
    costs: dict[PrivacyDefinition, IntArray] = {}
    worst = 0.0
    for guarantee in guarantees if len(places) else ():
        times = places if guarantee.counted is Counted.PLACES else np.ones_like(places)
        worst += max(guarantee.epsilon, guarantee.delta) * float(times.max())
        if worst > MOST_EPSILON:
            raise UsageError("a loss above 1,000,000 protects nobody and cannot be charged; publish nothing")
        units = [_units(guarantee.epsilon), _units(guarantee.delta)]
        if any(units):
            costs[guarantee.definition] = costs.get(guarantee.definition, 0) + np.outer(units, times)
    return costs


def _units(value: float, rounding: str = ROUND_CEILING) -> int:
    """Return the number that a float prints as, in whole units of 1e-12."""
    return int((Decimal(repr(float(value))) * _ONE).to_integral_value(rounding))


def _insert_charges(db: sqlite3.Connection, row: str, table: IntArray) -> None:
    """Insert several rows at a time, which takes half the time of ``executemany``."""
    for first in range(0, len(table), _ROWS_AT_ONCE):
        rows = table[first : first + _ROWS_AT_ONCE]
        db.execute("INSERT INTO charges VALUES " + ", ".join([row] * len(rows)), rows.ravel().tolist())  # noqa: S608


def _check_affordable(db: sqlite3.Connection, about: dict[str, int], budget: Budget, *, users: int) -> None:
    """Refuse a charge that is in the totals already and takes a user above the budget; name none, as logs last."""
    poor, *spent = db.execute(_OVERSPENT, about).fetchone()
    if not poor:
        return
    most = "SELECT max(epsilon), max(delta) FROM charges WHERE budget = :budget AND moment = :now"
    asked = Amount(*(units / _ONE for units in db.execute(most, about).fetchone()))
    limits = about["most_epsilon"], about["most_delta"]
    left = Amount(*((limit - used) / _ONE for limit, used in zip(limits, spent, strict=True)))
    share = f" for {poor:,} of {users:,} users" if users > 1 else ""
    can_wait = budget.window and asked.epsilon <= budget.epsilon and asked.delta <= budget.delta
    raise OverspentError(
        f"this would overspend the {budget.definition} budget{share}: {asked} is asked for, {left} is left of "
        f"{budget}; ask for less{', or come back when earlier charges have left the window' if can_wait else ''}"
    )
