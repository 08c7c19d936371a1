"""The ledger: what each user has lost, in one SQLite file, and budgets that refuse more.

Losses under one privacy definition add up, epsilons and deltas alike, also where later releases are chosen in view of
earlier ones (Rogers, Roth, Ullman and Vadhan, "Privacy Odometers and Filters", 2016). Losses under different
definitions are never added: each definition has a budget of its own.

Amounts are whole multiples of 1e-12. Costs are rounded up and budgets down, and sums are exact: ten releases of 0.1 fill
a budget of 1, and nothing more fits.

The file holds no ids: an account is 8 bytes of a BLAKE2b digest of the user's id and of a random salt that is kept in
the file. This keeps ids from being read by chance. It does not hide them from someone who has the file and tries ids.
"""

from __future__ import annotations

import hashlib
import os
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
from typing import Any, NamedTuple

import numpy as np

from nearveil.errors import DataError, NearveilError, OutputError, UsageError
from nearveil.privacy.guarantee import Counted, Guarantee, PrivacyDefinition, check_positive
from nearveil.types import IntArray

LONGEST_WINDOW = timedelta(days=36525)
MOST_EPSILON = 1e6
_ONE = 10**12
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MOST_COUNT = 10**9

# What the file is, for SQLite's own header: "NvLg".
_APPLICATION_ID = 0x4E764C67
_PATIENCE_S = 300
_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION_ID};
-- Moments and windows are in microseconds, amounts in units of 1e-12.
CREATE TABLE state (salt BLOB NOT NULL, newest INTEGER NOT NULL);
CREATE TABLE budgets (
    budget INTEGER PRIMARY KEY, definition TEXT NOT NULL UNIQUE, epsilon INTEGER NOT NULL, delta INTEGER NOT NULL,
    window INTEGER
);
-- What counts against a budget: of all releases, or of those in its window.
CREATE TABLE totals (
    account INTEGER, budget INTEGER, epsilon INTEGER NOT NULL, delta INTEGER NOT NULL, PRIMARY KEY (account, budget)
) WITHOUT ROWID;
-- What is to be taken off the totals once it has left the window: the costs of a release, and who had them.
CREATE TABLE costs (
    release INTEGER, budget INTEGER, moment INTEGER NOT NULL, epsilon INTEGER NOT NULL, delta INTEGER NOT NULL,
    place_epsilon INTEGER NOT NULL, place_delta INTEGER NOT NULL, PRIMARY KEY (release, budget)
) WITHOUT ROWID;
CREATE TABLE charges (
    release INTEGER, account INTEGER, count INTEGER NOT NULL, PRIMARY KEY (release, account)
) WITHOUT ROWID;
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


class OverspentError(NearveilError):
    """A charge would cost a user more than the budget allows; nothing was charged.

    Attributes
    ----------
    users : int
        How many users cannot afford it. The message names none, since messages end up in logs.
    left : Amount
        What is left for the one of them who has the least.
    fits_from : datetime or None
        From when on the same charge would fit, if nothing else is charged until then; None if it never will.
    """

    exit_code = 5
    users: int
    left: Amount
    fits_from: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What each user may lose under one privacy definition, for ever or in any window of time.

    Parameters
    ----------
    definition : PrivacyDefinition
        What the budget is for.
    epsilon : float
        Per meter for the metric definition, per step for the elastic one, per user for the others.
    delta : float
        Of everything that counts together.
    window : timedelta, optional
        A charge counts until it is as old as this. It counts for ever if there is no window.

    Examples
    --------
    >>> print(Budget(definition=PrivacyDefinition.METRIC, epsilon=0.02, window=timedelta(days=30)))
    metric: epsilon 0.02 per meter in any 30 days
    """

    definition: PrivacyDefinition
    epsilon: float
    delta: float = 0.0
    window: timedelta | None = None

    def __post_init__(self) -> None:
        if self.definition not in list(PrivacyDefinition):
            raise UsageError(f"definition must be one of {', '.join(PrivacyDefinition)}")
        object.__setattr__(self, "definition", PrivacyDefinition(self.definition))
        if not 1 / _ONE <= check_positive(self.epsilon, "epsilon") <= MOST_EPSILON:
            raise UsageError(f"the epsilon of a budget must be at least 1e-12 and at most {MOST_EPSILON:,.0f}")
        if not 0 <= self.delta < 1:
            raise UsageError("the delta of a budget must be at least 0 and less than 1; 1e-5 is a usual choice")
        if self.window is not None and not timedelta(0) < self.window <= LONGEST_WINDOW:
            raise UsageError("window must be a timedelta greater than 0 and of at most 100 years, or None")

    def __str__(self) -> str:
        window = f"in any {duration_text(self.window)}" if self.window else "for ever"
        return f"{self.definition}: {_text(self.epsilon, self.delta)} {self.definition.unit} {window}"


class Ledger:
    """What each user has lost, on disk, and the budgets that must be kept.

    Charge first, then publish. Threads and processes may use one file at once.

    Parameters
    ----------
    path : Path or str
        The file; made if it does not exist, for its owner alone. It holds amounts and digests of ids, no location.
    budgets : iterable of Budget
        At most one for each privacy definition. They are stored in the file, and one that is already stored must be
        the same. What is stored can be left out.
    clock : callable, optional
        Returns the time, with a time zone. A clock that is turned back gives nobody a fresh budget: the moment of a
        charge is never before that of the newest one.
    """

    def __init__(
        self, path: Path | str, budgets: Iterable[Budget] = (), *, clock: Callable[[], datetime] | None = None
    ) -> None:
        self.path = Path(path)
        self._clock = clock or (lambda: datetime.now(UTC))
        wanted = list(budgets)
        if len({budget.definition for budget in wanted}) < len(wanted):
            raise UsageError("there are two budgets for one privacy definition; give one for each")
        self._create(is_allowed=bool(wanted))
        with self._transaction() as db:
            if not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                for statement in _SCHEMA.split(";"):
                    db.execute(statement)
                db.execute("INSERT INTO state VALUES (?, 0)", (secrets.token_bytes(16),))
            for budget in wanted:
                _store(db, budget)

    @property
    def budgets(self) -> dict[PrivacyDefinition, Budget]:
        """The budgets as they are stored."""
        with self._transaction() as db:
            names = [PrivacyDefinition(name) for (name,) in db.execute("SELECT definition FROM budgets")]
            return {definition: _limit(db, definition).budget(definition) for definition in names}

    def charge(
        self, guarantees: Sequence[Guarantee], users: Sequence[str], counts: Sequence[int] | IntArray | None = None
    ) -> None:
        """Charge a release, or a fit and the release after it, to all users; return when it is on disk.

        Parameters
        ----------
        guarantees : sequence of Guarantee
            What holds for each user or, with ``counts``, for each place of a user.
        users : sequence of str
            Their ids. Ids that differ only in case, width, accents' encoding, blanks around them or characters that
            are not seen are one user.
        counts : sequence of int, optional
            How many places of each user are released. A guarantee that counts places is charged as often.

        Raises
        ------
        OverspentError
            If a user cannot afford it. Nobody was charged, and nothing may be published.
        """
        costs = _costs(guarantees, has_counts=counts is not None)
        with self._transaction() as db:
            accounts, places = _accounts(users, counts, _salt(db))
            if not len(accounts):
                return
            now = self._now(db)
            _expire(db, now)
            (release,) = db.execute("SELECT ifnull(max(release), 0) + 1 FROM charges").fetchone()
            rows = zip(accounts.tolist(), places.tolist(), strict=True)
            db.executemany(f"INSERT INTO charges VALUES ({release}, ?, ?)", rows)
            for definition, cost in costs.items():
                limit = _limit(db, definition)
                about = {"release": release, "moment": now, **limit._asdict(), **cost._asdict()}
                _check_affordable(db, definition, about, most_places=int(places.max()))
                db.execute(_ADD_TO_TOTALS, about)
                if limit.window is not None:
                    db.execute(_ADD_TO_COSTS, about)
            _forget_charges(db, release)
            db.execute("UPDATE state SET newest = ?", (now,))

    def spent(self, user: str, definition: PrivacyDefinition) -> Amount:
        """Return what a user has lost under a privacy definition, of what still counts."""
        with self._transaction() as db:
            limit = _limit(db, definition)
            accounts, _ = _accounts([user], None, _salt(db))
            now = self._now(db)
            about = {"account": int(accounts[0]), "budget": limit.number, "end": now - (limit.window or now)}
            total = db.execute(_TOTAL_OF_ACCOUNT, about).fetchone() or (0, 0)
            old = db.execute(_OLD_OF_ACCOUNT, about).fetchone()
        return Amount((total[0] - old[0]) / _ONE, (total[1] - old[1]) / _ONE)

    def _now(self, db: sqlite3.Connection) -> int:
        clock = (self._clock() - _EPOCH) // _MICROSECOND
        return max(clock, int(db.execute("SELECT newest FROM state").fetchone()[0]))

    def _create(self, *, is_allowed: bool) -> None:
        """Make the file, or see from its first bytes that it is a ledger: SQLite may write to what it opens."""
        try:
            with self.path.open("rb") as file:
                header = file.read(100)
        except FileNotFoundError:
            header = b""
        except OSError as error:
            raise self._unusable(error.strerror) from None
        if header and (header[:16] != b"SQLite format 3\0" or header[68:72] != _APPLICATION_ID.to_bytes(4, "big")):
            raise DataError(
                f"{self.path} is not a ledger, or it is damaged; restore it from a backup or name another file"
            )
        if not header and not is_allowed:
            raise UsageError(f"the ledger {self.path} is new and has no budgets; give at least one")
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise self._unusable(error.strerror) from None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Hold the file alone. What is done to it is done as a whole, or not at all if there is an error."""
        try:
            where = f"{self.path.absolute().as_uri()}?mode=rw"
            with closing(sqlite3.connect(where, timeout=_PATIENCE_S, isolation_level=None, uri=True)) as db:
                # EXTRA: no power cut undoes what was committed, as it could after FULL.
                for setting in ("synchronous = EXTRA", "temp_store = MEMORY", "cache_size = -65536"):
                    db.execute(f"PRAGMA {setting}")
                db.execute("BEGIN IMMEDIATE")
                yield db
                # Closing without this undoes everything.
                db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise self._unusable(str(error)) from None
        except sqlite3.DatabaseError:
            raise DataError(f"the ledger {self.path} is damaged; restore it from a backup") from None

    def _unusable(self, reason: str | None) -> OutputError:
        return OutputError(
            f"the ledger {self.path} cannot be used ({reason or 'the system refused'}), so nothing was charged; see to "
            "its disk, folder and permissions, and publish nothing"
        )


def duration_text(duration: timedelta) -> str:
    """Write a duration in the largest unit that divides it.

    Examples
    --------
    >>> duration_text(timedelta(days=7)), duration_text(timedelta(hours=36))
    ('7 days', '36 hours')
    """
    for name, unit in (("day", timedelta(days=1)), ("hour", timedelta(hours=1)), ("minute", timedelta(minutes=1))):
        if duration % unit == timedelta(0):
            return f"{duration // unit:,} {name}{'s' if duration // unit > 1 else ''}"
    return f"{duration.total_seconds():g} seconds"


# Accounts: one for each user, however the id is written.


def _accounts(users: Sequence[str], counts: Sequence[int] | IntArray | None, salt: bytes) -> tuple[IntArray, IntArray]:
    """Return the users' accounts in order, each once, and how many places each is charged for."""
    if isinstance(users, str) or not all(isinstance(user, str) for user in users):
        raise UsageError("users must be a list of ids as text")
    digest = hashlib.blake2b(salt, digest_size=8)
    digests = []
    for name in _account_names(users):
        # Half the time of a new hash for each.
        of_one = digest.copy()
        of_one.update(name)
        digests.append(of_one.digest())
    keys = np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)
    if counts is None:
        accounts = np.unique(keys)
        if len(accounts) < len(keys):
            raise DataError(
                "some ids are the same, or differ only in case, width, blanks or characters that are not seen, and would "
                "share an account; write each user's id in one way, and give each user once"
            )
        return accounts, np.ones(len(accounts), dtype=np.int64)
    places = np.asarray(counts)
    if places.shape != keys.shape or places.dtype.kind not in "iu" or (len(places) and places.min() < 1):
        raise UsageError("counts must be one whole number of at least 1 for each user")
    accounts, inverse = np.unique(keys, return_inverse=True)
    summed = np.zeros(len(accounts), dtype=np.int64)
    np.add.at(summed, inverse, places)
    return accounts, summed


def _account_names(users: Sequence[str]) -> list[bytes]:
    """Return the names of users' accounts; all at once, which takes a tenth of the time of one by one."""
    if not users:
        return []
    text = "\0".join(users)
    if text.isascii() and text.replace("\0", "").isprintable():
        text = text.lower()
    else:
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold()
        text = unicodedata.normalize("NFKC", text)
    names = "\0".join([name.strip() for name in text.split("\0")]).encode("utf-8", "surrogatepass").split(b"\0")
    if len(names) != len(users) or b"" in names:
        raise DataError("some ids are empty or hold a NUL character; give each user an id")
    return names


# Amounts, in whole units of 1e-12.


class _Limit(NamedTuple):
    """A budget as it is stored."""

    number: int
    most_epsilon: int
    most_delta: int
    window: int | None

    def budget(self, definition: PrivacyDefinition) -> Budget:
        window = None if self.window is None else self.window * _MICROSECOND
        epsilon, delta = self.most_epsilon / _ONE, self.most_delta / _ONE
        return Budget(definition=definition, epsilon=epsilon, delta=delta, window=window)


class _Cost(NamedTuple):
    """What a release costs each user under one privacy definition: once, and for each place."""

    epsilon: int = 0
    delta: int = 0
    place_epsilon: int = 0
    place_delta: int = 0


def _costs(guarantees: Sequence[Guarantee], *, has_counts: bool) -> dict[PrivacyDefinition, _Cost]:
    costs: dict[PrivacyDefinition, _Cost] = {}
    for guarantee in guarantees:
        _check_chargeable(guarantee, has_counts=has_counts)
        amount = (_units(guarantee.epsilon), _units(guarantee.delta))
        added = _Cost(0, 0, *amount) if guarantee.counted is Counted.PLACES else _Cost(*amount)
        before = costs.get(guarantee.definition, _Cost())
        costs[guarantee.definition] = _Cost(*(one + other for one, other in zip(before, added, strict=True)))
    return {definition: cost for definition, cost in costs.items() if any(cost)}


def _check_chargeable(guarantee: Guarantee, *, has_counts: bool) -> None:
    if not guarantee.is_promised:
        raise UsageError("this mechanism promises nothing, so there is no loss to charge; leave the ledger out")
    if not guarantee.holds:
        raise UsageError("this guarantee does not hold, so its epsilon is not a cost; charge one that holds")
    if not guarantee.epsilon <= MOST_EPSILON:
        raise UsageError("this guarantee allows any loss, so there is nothing to charge; publish nothing under it")
    if guarantee.offset:
        raise UsageError("this guarantee has a constant loss as well, that of a fit; charge the release and the fit")
    if guarantee.counted is Counted.ROWS:
        raise UsageError("this guarantee counts rows, and a ledger charges users; name the column of the users' ids")
    if guarantee.counted is Counted.PLACES and not has_counts:
        raise UsageError("this guarantee counts places; give counts, the number of places of each user")
    if guarantee.counted is Counted.USERS and has_counts and guarantee.definition is not PrivacyDefinition.CENTRAL:
        raise UsageError("this guarantee counts users; leave counts out, or give Guarantee.counted_per_place")


def _units(value: float, rounding: str = ROUND_CEILING) -> int:
    """Return the number that a float prints as, in whole units."""
    return int((Decimal(repr(float(value))) * _ONE).to_integral_value(rounding))


def _text(epsilon: float, delta: float) -> str:
    return f"epsilon {epsilon:.12g}" + (f" with delta {delta:.12g}" if delta else "")


# What the ledger asks of SQLite.

_ADD_TO_TOTALS = """
INSERT INTO totals
SELECT account, :number, :epsilon + :place_epsilon * count, :delta + :place_delta * count
FROM charges WHERE release = :release ORDER BY account
ON CONFLICT DO UPDATE SET epsilon = epsilon + excluded.epsilon, delta = delta + excluded.delta
"""
_ADD_TO_COSTS = """
INSERT INTO costs VALUES (:release, :number, :moment, :epsilon, :delta, :place_epsilon, :place_delta)
"""
_OVERSPENT = """
SELECT count(*), max(ifnull(totals.epsilon, 0)), max(ifnull(totals.delta, 0))
FROM charges LEFT JOIN totals ON totals.account = charges.account AND totals.budget = :number
WHERE charges.release = :release AND (
    ifnull(totals.epsilon, 0) + :epsilon + :place_epsilon * count > :most_epsilon
    OR ifnull(totals.delta, 0) + :delta + :place_delta * count > :most_delta
)
"""
# Of each user's costs, newest first, those that leave no room for the new one; the newest of these has to leave first.
_LAST_IN_THE_WAY = """
SELECT max(moment) FROM (
    SELECT costs.moment AS moment, new.count AS places,
        sum(costs.epsilon + costs.place_epsilon * old.count) OVER newest_first AS epsilon,
        sum(costs.delta + costs.place_delta * old.count) OVER newest_first AS delta
    FROM charges AS new CROSS JOIN costs CROSS JOIN charges AS old
    WHERE new.release = :release AND costs.budget = :number
        AND old.release = costs.release AND old.account = new.account
    WINDOW newest_first AS (PARTITION BY new.account ORDER BY costs.moment DESC)
)
WHERE epsilon + :epsilon + :place_epsilon * places > :most_epsilon
    OR delta + :delta + :place_delta * places > :most_delta
"""
_TAKE_OFF_TOTALS = """
UPDATE totals
SET epsilon = totals.epsilon - costs.epsilon - costs.place_epsilon * count,
    delta = totals.delta - costs.delta - costs.place_delta * count
FROM charges JOIN costs USING (release)
WHERE charges.release = :release AND costs.budget = :number
    AND totals.account = charges.account AND totals.budget = :number
"""
_TOTAL_OF_ACCOUNT = "SELECT epsilon, delta FROM totals WHERE account = :account AND budget = :budget"
_OLD_OF_ACCOUNT = """
SELECT ifnull(sum(epsilon + place_epsilon * count), 0), ifnull(sum(delta + place_delta * count), 0)
FROM costs CROSS JOIN charges USING (release)
WHERE budget = :budget AND moment <= :end AND account = :account
"""


def _salt(db: sqlite3.Connection) -> bytes:
    return bytes(db.execute("SELECT salt FROM state").fetchone()[0])


def _limit(db: sqlite3.Connection, definition: PrivacyDefinition) -> _Limit:
    row = db.execute(
        "SELECT budget, epsilon, delta, window FROM budgets WHERE definition = ?", (str(definition),)
    ).fetchone()
    if row is None:
        raise UsageError(f"the ledger has no budget for the {definition} privacy definition; add one first")
    return _Limit(*row)


def _store(db: sqlite3.Connection, budget: Budget) -> None:
    window = None if budget.window is None else budget.window // _MICROSECOND
    wanted = (_units(budget.epsilon, ROUND_FLOOR), _units(budget.delta, ROUND_FLOOR), window)
    new = "INSERT INTO budgets (definition, epsilon, delta, window) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
    db.execute(new, (str(budget.definition), *wanted))
    stored = _limit(db, budget.definition)
    if stored[1:] != wanted:
        raise UsageError(
            f"the ledger has another budget, {stored.budget(budget.definition)}; give this one, leave it out or name a "
            "new ledger"
        )


def _expire(db: sqlite3.Connection, now: int) -> None:
    """Take costs that have left their window off the totals, for good: the moment of charges never goes back."""
    old = db.execute(
        "SELECT release, costs.budget FROM costs JOIN budgets USING (budget) WHERE moment <= ? - window", (now,)
    ).fetchall()
    for release, number in old:
        db.execute(_TAKE_OFF_TOTALS, {"release": release, "number": number})
        db.execute("DELETE FROM costs WHERE release = ? AND budget = ?", (release, number))
        _forget_charges(db, release)


def _forget_charges(db: sqlite3.Connection, release: int) -> None:
    """Delete who was in a release, unless a cost of it has yet to leave its window."""
    db.execute(
        "DELETE FROM charges WHERE release = ?1 AND NOT EXISTS (SELECT 1 FROM costs WHERE release = ?1)", (release,)
    )


def _check_affordable(
    db: sqlite3.Connection, definition: PrivacyDefinition, about: dict[str, Any], *, most_places: int
) -> None:
    users, spent_epsilon, spent_delta = db.execute(_OVERSPENT, about).fetchone()
    if not users:
        return
    (everyone,) = db.execute("SELECT count(*) FROM charges WHERE release = :release", about).fetchone()
    left = Amount((about["most_epsilon"] - spent_epsilon) / _ONE, (about["most_delta"] - spent_delta) / _ONE)
    asked = Amount(*((about[name] + about[f"place_{name}"] * most_places) / _ONE for name in Amount._fields))
    share = f" for {users:,} of {everyone:,} users" if everyone > 1 else ""
    fits_from, advice = None, "ask for less"
    if about["window"] is not None:
        advice = "it is more than the whole budget, so ask for less"
        if asked.epsilon * _ONE <= about["most_epsilon"] and asked.delta * _ONE <= about["most_delta"]:
            (last,) = db.execute(_LAST_IN_THE_WAY, about).fetchone()
            fits_from = _EPOCH + (last + about["window"]) * _MICROSECOND
            advice = f"ask for less, or come back: it fits from {_moment_text(fits_from)} on"
    error = OverspentError(
        f"this would overspend the {definition} budget{share}: {_text(*asked)} is asked for, {_text(*left)} is left of "
        f"{_limit(db, definition).budget(definition)}; {advice}"
    )
    error.users, error.left, error.fits_from = users, left, fits_from
    raise error


def _moment_text(moment: datetime) -> str:
    """Write a moment in UTC, never an earlier one than it is."""
    if moment.microsecond:
        moment = moment.replace(microsecond=0) + timedelta(seconds=1)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
