"""The ledger: exact sums, windows, one account for each user, all users or nobody, and files that are not ledgers."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nearveil.errors import DataError, NearveilError, OutputError, UsageError
from nearveil.privacy.guarantee import Basis, Guarantee, PrivacyDefinition
from nearveil.privacy.ledger import Amount, Budget, Ledger, OverspentError

DAY = timedelta(days=1)
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
CENTRAL, LOCAL, METRIC = PrivacyDefinition.CENTRAL, PrivacyDefinition.LOCAL, PrivacyDefinition.METRIC


def guarantee(epsilon: float, definition: PrivacyDefinition = LOCAL, delta: float = 0.0) -> Guarantee:
    return Guarantee(
        title="Every published location", definition=definition, epsilon=epsilon, unit=definition.unit, delta=delta,
        neighbors="any two locations", promise="something", basis=Basis.THEOREM, because="it was proven",
    )  # fmt: skip


class Clock:
    """A clock that the tests turn."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(tmp_path: Path, clock: Clock) -> Callable[..., Ledger]:
    """Open the same ledger, with budgets or without."""
    return lambda *budgets: Ledger(tmp_path / "ledger", budgets, clock=clock)


def fits(ledger: Ledger, epsilon: float, users: tuple[str, ...] = ("ann",), **options: float) -> bool:
    try:
        ledger.charge([guarantee(epsilon, **options)], users)  # type: ignore[arg-type]
    except OverspentError:
        return False
    return True


# Amounts


def test_ten_tenths_fill_a_budget_of_one(opened: Callable[..., Ledger]) -> None:
    ledger = opened(Budget(definition=LOCAL, epsilon=1.0))
    assert [fits(ledger, 0.1) for _ in range(11)] == [True] * 10 + [False]
    assert ledger.spent("ann", LOCAL) == (1.0, 0.0)
    assert not fits(ledger, 1e-12)
    assert ledger.spent("ben", LOCAL) == (0.0, 0.0)


def test_costs_are_rounded_up_and_budgets_down(opened: Callable[..., Ledger]) -> None:
    """Costs too small to be counted still run out: each of 1e-20 counts as 1e-12."""
    ledger = opened(Budget(definition=LOCAL, epsilon=2.9e-12))
    assert [fits(ledger, 1e-20) for _ in range(3)] == [True, True, False]


def test_deltas_have_a_budget_too(opened: Callable[..., Ledger]) -> None:
    ledger = opened(Budget(definition=LOCAL, epsilon=1.0, delta=2e-6))
    assert [fits(ledger, 0.1, delta=1e-6) for _ in range(3)] == [True, True, False]
    assert fits(ledger, 0.1)
    assert ledger.spent("ann", LOCAL) == Amount(0.3, 2e-6)


def test_a_user_is_charged_for_each_place_and_for_a_fit_once(opened: Callable[..., Ledger]) -> None:
    """Two ids of one user that count places are added up."""
    ledger = opened(Budget(definition=METRIC, epsilon=0.04), Budget(definition=CENTRAL, epsilon=1))
    release = guarantee(0.004, METRIC).counted_per_place(7)
    ledger.charge([guarantee(0.5, CENTRAL), release], ["ann", "ben", "Ben"], [7, 1, 2])
    assert ledger.spent("ann", METRIC).epsilon == 0.028
    assert ledger.spent("ben", METRIC).epsilon == 0.012
    assert ledger.spent("ben", CENTRAL).epsilon == 0.5
    with pytest.raises(OverspentError, match=r"for 1 of 2 users: epsilon 0\.016 is asked for, epsilon 0\.012 is left"):
        ledger.charge([release], ["ann", "ben"], [4, 4])


def test_several_guarantees_are_charged_together_or_not_at_all(opened: Callable[..., Ledger]) -> None:
    ledger = opened(Budget(definition=LOCAL, epsilon=1.0), Budget(definition=CENTRAL, epsilon=1.0))
    with pytest.raises(OverspentError, match="the central budget"):
        ledger.charge([guarantee(0.5), guarantee(2.0, CENTRAL)], ["ann"])
    with pytest.raises(UsageError, match="no budget for the metric privacy definition"):
        ledger.charge([guarantee(0.5), guarantee(0.1, METRIC)], ["ann"])
    assert ledger.spent("ann", LOCAL).epsilon == 0
    ledger.charge([guarantee(0.5), guarantee(0.25), guarantee(0, CENTRAL)], ["ann"])
    assert ledger.spent("ann", LOCAL).epsilon == 0.75


def test_all_users_are_charged_or_nobody(opened: Callable[..., Ledger]) -> None:
    ledger = opened(Budget(definition=LOCAL, epsilon=1.0))
    crowd = tuple(f"user {number}" for number in range(3000))
    assert fits(ledger, 0.75, ("user 7",))
    assert not fits(ledger, 0.5, crowd)
    assert [ledger.spent(user, LOCAL).epsilon for user in ("user 7", "user 8")] == [0.75, 0]
    assert fits(ledger, 0.25, crowd)
    assert {ledger.spent(user, LOCAL).epsilon for user in crowd[-5:]} == {0.25}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (Guarantee.claimed_by_nobody(), "promises nothing"),
        (replace(guarantee(1), basis=Basis.REFUTED_CLAIM), "does not hold"),
        (guarantee(1e7), "a loss above 1,000,000"),
        (guarantee(float("inf")), "a loss above 1,000,000"),
        (replace(guarantee(1, METRIC), offset=1.0), "the loss of a fit"),
        (guarantee(1).counted_per_row(), "counts rows"),
        (guarantee(1).counted_per_place(3), "give counts"),
    ],
)
def test_what_is_no_cost_of_a_user_is_refused(opened: Callable[..., Ledger], wrong: Guarantee, words: str) -> None:
    ledger = opened(Budget(definition=LOCAL, epsilon=1.0), Budget(definition=METRIC, epsilon=1.0))
    with pytest.raises(UsageError, match=words):
        ledger.charge([wrong], ["ann"])


def test_counts_must_be_of_places(opened: Callable[..., Ledger]) -> None:
    ledger = opened(Budget(definition=LOCAL, epsilon=1.0))
    with pytest.raises(UsageError, match="counts users"):
        ledger.charge([guarantee(0.1)], ["ann"], [2])
    for counts in ([0], [1, 1], [1.5]):
        with pytest.raises(UsageError, match="one whole number of at least 1 for each user"):
            ledger.charge([guarantee(0.1).counted_per_place(2)], ["ann"], counts)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="protects nobody"):
        ledger.charge([guarantee(1e6).counted_per_place(2)], ["ann"], [10**12])
    ledger.charge([guarantee(0.1)], [])


# Windows


def test_a_charge_counts_until_it_is_as_old_as_the_window(opened: Callable[..., Ledger], clock: Clock) -> None:
    ledger = opened(Budget(definition=LOCAL, epsilon=1.0, window=DAY))
    for hours in (0, 8):
        clock.now = START + timedelta(hours=hours)
        assert fits(ledger, 0.5)
    clock.now = START + DAY - timedelta(seconds=1)
    assert not fits(ledger, 0.5)
    clock.now = START + DAY
    assert [fits(ledger, 0.5) for _ in range(2)] == [True, False]
    assert ledger.spent("ann", LOCAL).epsilon == 1.0
    clock.now += 2 * DAY
    assert ledger.spent("ann", LOCAL).epsilon == 0.0


def test_turning_the_clock_back_gives_no_fresh_budget(opened: Callable[..., Ledger], clock: Clock) -> None:
    ledger = opened(Budget(definition=LOCAL, epsilon=1.0, window=DAY))
    clock.now = START + 10 * DAY
    assert fits(ledger, 1.0)
    for days in (0, 5, 10):
        clock.now = START + days * DAY
        assert not fits(ledger, 0.1)


def test_a_refusal_says_what_is_left_and_what_to_do(opened: Callable[..., Ledger]) -> None:
    ledger = opened(Budget(definition=LOCAL, epsilon=1.0, window=DAY), Budget(definition=CENTRAL, epsilon=1.0))
    assert fits(ledger, 0.9)
    with pytest.raises(OverspentError) as refused:
        ledger.charge([guarantee(0.5)], ["ann", "Ben of Example"])
    assert str(refused.value) == (
        "this would overspend the local budget for 1 of 2 users: epsilon 0.5 is asked for, epsilon 0.1 is left of "
        "local: epsilon 1 per user in any 1 day; ask for less, or come back when earlier charges have left the window"
    )
    for never in (guarantee(1.5), guarantee(1.5, CENTRAL)):
        with pytest.raises(OverspentError, match=r"ask for less$"):
            ledger.charge([never], ["ann"])


# Users


@pytest.mark.parametrize(
    "other",
    ["ann@example.org ", "Ann@Example.ORG", "\uff41\uff4e\uff4e@example.org", "ann\u200b@example.org",
     "ann@ex\u00adample.org", "\ufeffann@example.org\ufe0f", "ann@example.org\x07", "\u2003ann@example.org\u00a0"],
)  # fmt: skip
def test_one_user_has_one_account_however_the_id_is_written(opened: Callable[..., Ledger], other: str) -> None:
    ledger = opened(Budget(definition=LOCAL, epsilon=1.0))
    assert fits(ledger, 0.75, ("ann@example.org", "ben"))
    assert not fits(ledger, 0.75, (other,))
    assert ledger.spent(other, LOCAL).epsilon == 0.75
    with pytest.raises(DataError, match="would share an account; write each user's id in one way"):
        ledger.charge([guarantee(0.1)], ["ann@example.org", other])


def test_accents_are_one_id_in_either_encoding_and_matter(opened: Callable[..., Ledger]) -> None:
    ledger = opened(Budget(definition=LOCAL, epsilon=1.0))
    assert fits(ledger, 1.0, ("Zo\u00eb", "\u1e9eimon"))
    assert not fits(ledger, 0.1, ("zoe\u0308",))
    assert not fits(ledger, 0.1, ("SSIMON",))
    assert fits(ledger, 1.0, ("zoe", "007", "7", "\ud800"))


@pytest.mark.parametrize("users", [["ann", " "], ["\u200b"], ["a\0b"], ["", "b\0"], "ann", [1, 2]])
def test_ids_are_a_list_of_texts_and_none_is_empty(opened: Callable[..., Ledger], users: list[str]) -> None:
    with pytest.raises(NearveilError, match=r"empty or hold a NUL|a list of ids as text"):
        opened(Budget(definition=LOCAL, epsilon=1.0)).charge([guarantee(0.1)], users)


def test_neither_file_nor_message_holds_an_id(opened: Callable[..., Ledger], tmp_path: Path) -> None:
    ledger = opened(Budget(definition=LOCAL, epsilon=1.0, window=DAY))
    ledger.charge([guarantee(0.6)], ["ann@example.org"])
    with pytest.raises(OverspentError) as refused:
        ledger.charge([guarantee(0.6)], ["ann@example.org"])
    assert "ann" not in str(refused.value)
    assert b"example" not in (tmp_path / "ledger").read_bytes()
    assert (tmp_path / "ledger").stat().st_mode & 0o077 == 0


# Files


def test_budgets_are_stored(opened: Callable[..., Ledger]) -> None:
    first = Budget(definition=METRIC, epsilon=0.02, delta=1e-9, window=30 * DAY)
    opened(first)
    second = Budget(definition=CENTRAL, epsilon=2.0)
    assert opened(second, first).budgets == {METRIC: first, CENTRAL: second}
    assert opened().budgets == {METRIC: first, CENTRAL: second}
    for other in (replace(first, epsilon=0.03), replace(first, window=None), replace(first, delta=0.0)):
        with pytest.raises(
            UsageError, match=r"another budget, metric: epsilon 0\.02 with delta 1e-09 per meter in any 30 d"
        ):
            opened(other)
    with pytest.raises(UsageError, match="another budget"):
        opened(replace(second, epsilon=1.0), replace(second, epsilon=1.0))


def test_a_new_ledger_needs_a_budget(opened: Callable[..., Ledger], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is new and has no budgets"):
        opened()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "options",
    [{"epsilon": 0}, {"epsilon": 1e7}, {"epsilon": float("nan")}, {"delta": 1.0}, {"delta": -1e-9},
     {"window": timedelta(0)}, {"window": timedelta(days=40_000)}, {"definition": "magic"}],
)  # fmt: skip
def test_wrong_budgets(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        Budget(**{"definition": LOCAL, "epsilon": 1.0, **options})  # type: ignore[arg-type]


def foreign_database(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA application_id = 7")
    db.close()


def torn_ledger(path: Path) -> None:
    Ledger(path, [Budget(definition=LOCAL, epsilon=1.0)]).charge([guarantee(0.1)], [f"{n}" for n in range(1000)])
    path.write_bytes(path.read_bytes()[:9000])


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda path: path.write_text("id,latitude,longitude\n"), DataError),
        (foreign_database, DataError),
        (torn_ledger, DataError),
        (lambda path: path.mkdir(), OutputError),
    ],
)
def test_a_file_that_is_no_ledger_is_left_alone(
    tmp_path: Path, make: Callable[[Path], None], error: type[NearveilError]
) -> None:
    path = tmp_path / "ledger"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(error, match="ledger"):
        Ledger(path, [Budget(definition=LOCAL, epsilon=1.0)]).charge([guarantee(0.1)], ["5"])
    assert [left.name for left in tmp_path.iterdir()] == ["ledger"]
    assert before == (path.read_bytes() if path.is_file() else b"")


def test_a_ledger_that_is_gone_is_not_made_anew(opened: Callable[..., Ledger], tmp_path: Path) -> None:
    ledger = opened(Budget(definition=LOCAL, epsilon=1.0))
    (tmp_path / "ledger").unlink()
    with pytest.raises(OutputError, match="nothing was charged"):
        ledger.charge([guarantee(0.1)], ["ann"])
    assert not list(tmp_path.iterdir())
    (tmp_path / "ledger").touch()
    with pytest.raises(DataError, match="is no ledger"):
        opened()
    with pytest.raises(OutputError, match="cannot be used"):
        Ledger(tmp_path / "no folder" / "ledger", [Budget(definition=LOCAL, epsilon=1.0)])


# Processes


def test_three_processes_race_for_a_budget_of_two(tmp_path: Path) -> None:
    """Each makes the ledger itself, and all begin at the same moment."""
    script = """
import os, sys
from nearveil.privacy.ledger import Budget, Ledger, OverspentError
from tests.privacy.test_ledger import LOCAL, guarantee
os.write(1, b"!")
os.read(0, 1)
try:
    ledger = Ledger(sys.argv[1], [Budget(definition=LOCAL, epsilon=1.0)])
    ledger.charge([guarantee(0.4)], [f"user {n}" for n in range(100)])
except OverspentError as error:
    sys.exit(error.exit_code)
"""
    command = [sys.executable, "-c", script, str(tmp_path / "ledger")]
    (begin, go), (ready, say) = os.pipe(), os.pipe()
    racers = [subprocess.Popen(command, stdin=begin, stdout=say) for _ in range(3)]
    os.close(say)
    for _ in racers:
        assert os.read(ready, 1) == b"!"
    os.write(go, b"123")
    assert sorted(racer.wait() for racer in racers) == [0, 0, 5]
    assert Ledger(tmp_path / "ledger").spent("user 7", LOCAL).epsilon == 0.8


def test_a_killed_process_has_charged_everybody_or_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is on disk before each thing that is asked of SQLite is what a process leaves that is killed there."""
    folder, users = tmp_path / "ledger", [f"user {n}" for n in range(3000)]
    left: list[Path] = []
    folder.mkdir()

    class Watched(sqlite3.Connection):
        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            left.append(shutil.copytree(folder, tmp_path / f"left {len(left)}"))
            return super().execute(*arguments)

    connect, budget = sqlite3.connect, Budget(definition=LOCAL, epsilon=1.0)
    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", lambda *where, **options: connect(*where, factory=Watched, **options))
        Ledger(folder / "ledger", [budget]).charge([guarantee(0.4)], users)
    assert len(left) > 20
    for copy, spent in [*((copy, 0.0) for copy in left), (folder, 0.4)]:
        ledger = Ledger(copy / "ledger", [budget])
        assert {ledger.spent(user, LOCAL).epsilon for user in users[::1000]} == {spent}
