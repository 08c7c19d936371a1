"""``--ledger``: releases and fits are charged before anything is published, and refused where they cost too much."""

from datetime import timedelta
from pathlib import Path

import pytest

from nearveil.cli._options import budget_from_text
from nearveil.errors import UsageError
from tests.cli.conftest import Run, check


def test_a_third_release_is_refused_and_nothing_is_written(run: Run, people_csv: Path, tmp_path: Path) -> None:
    """At 500 m a release costs 0.004 per meter: two fit into 0.009, a third does not."""
    charged = ("--user", "id", "--ledger", tmp_path / "ledger", "--budget", "metric:0.009/30d")
    for number in (1, 2):
        outcome = run("protect", people_csv, tmp_path / f"{number}.csv", *charged)
        assert outcome.code == 0, outcome.err
    refused = run("protect", people_csv, tmp_path / "3.csv", *charged)
    assert (refused.code, refused.out, len(refused.err.strip().splitlines())) == (5, "", 1)
    assert not (tmp_path / "3.csv").exists()
    (tmp_path / "new.csv").write_text("id,latitude,longitude\nnewcomer,37.7,-122.4\n")
    assert run("protect", tmp_path / "new.csv", tmp_path / "4.csv", *charged).code == 0


def test_a_fit_is_charged(run: Run, people_csv: Path, tmp_path: Path) -> None:
    charged = ("--user", "id", "--ledger", tmp_path / "ledger", "--budget", "central:1.5/30d")
    fit = ("--mechanism", "dprs", "--set", "centres=50", *charged)
    assert run("fit", people_csv, tmp_path / "a.json", *fit).code == 0
    assert run("fit", people_csv, tmp_path / "b.json", *fit).code == 5
    assert not (tmp_path / "b.json").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--budget", "metric:1/1d"), "add --ledger FILE"),
        (("--ledger", "l", "--budget", "metric:1/1d"), "with --user"),
        (("--ledger", "l", "--user", "id", "--seed", "1", "--budget", "metric:1/1d"), "protects nobody"),
        (("--ledger", "l", "--user", "id", "--budget", "metric:1.2.3/1d"), "--budget takes a privacy definition"),
    ],
)
def test_wrong_usage(
    run: Run, people_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    check(run("protect", people_csv, tmp_path / "o.csv", *options), 2, words)
    assert not (tmp_path / "o.csv").exists()


def test_a_budget_has_a_definition_an_epsilon_and_perhaps_a_delta_and_days() -> None:
    budget = budget_from_text("central:4,1e-5/365d")
    assert (budget.epsilon, budget.delta, budget.window) == (4.0, 1e-5, timedelta(days=365))
    assert budget_from_text("metric:0.02").window is None
    for text in ("central", "central:4/2w", "central:4/d", ":4/1d"):
        with pytest.raises(UsageError, match="--budget"):
            budget_from_text(text)
