"""``nearveil protect --ledger``: a release is charged before it is published, and refused where it costs too much."""

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from nearveil.cli._options import budget_from_text
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.privacy.ledger import Ledger
from tests.cli.conftest import Run

BUDGETS = ("--budget", "metric:0.009/30d", "--budget", "central:4/30d")


def test_a_release_and_its_fit_are_charged_and_a_third_is_refused(run: Run, people_csv: Path, tmp_path: Path) -> None:
    """At 500 m a release costs 0.004 per meter: two fit into 0.009, a third does not, and nothing is written then."""
    ledger = tmp_path / "ledger"
    arguments = ("protect", people_csv, "--person", "id", "--set", "centres=50", "--ledger", ledger, *BUDGETS)
    for number in (1, 2):
        outcome = run(*arguments[:2], tmp_path / f"{number}.csv", *arguments[2:])
        assert outcome.code == 0, outcome.err
    refused = run(*arguments[:2], tmp_path / "3.csv", *arguments[2:])
    assert refused.code == 5
    assert len(refused.err.strip().splitlines()) == 1
    assert not (tmp_path / "3.csv").exists()
    kept = Ledger(ledger)
    assert kept.spent("17", PrivacyDefinition.METRIC).epsilon == pytest.approx(0.008)
    # The third fit was not charged either, though there is budget for it.
    assert kept.spent("17", PrivacyDefinition.CENTRAL).epsilon == pytest.approx(2.0)


def test_a_fit_alone_is_charged(run: Run, people_csv: Path, tmp_path: Path) -> None:
    arguments = (
        "--set",
        "centres=50",
        "--person",
        "id",
        "--ledger",
        tmp_path / "ledger",
        "--budget",
        "central:1.5/30d",
    )
    assert run("fit", people_csv, tmp_path / "i.json", *arguments).code == 0
    assert run("fit", people_csv, tmp_path / "j.json", *arguments).code == 5
    assert not (tmp_path / "j.json").exists()


def test_intervals_made_before_are_not_charged_again(run: Run, people_csv: Path, tmp_path: Path) -> None:
    assert run("fit", people_csv, tmp_path / "i.json", "--set", "centres=50").code == 0
    outcome = run(
        "protect", people_csv, tmp_path / "o.csv", "--intervals", tmp_path / "i.json", "--epsilon", 1, "--person", "id",
        "--ledger", tmp_path / "ledger", "--budget", "interval:1/1d",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    kept = Ledger(tmp_path / "ledger")
    assert kept.spent("3", PrivacyDefinition.INTERVAL).epsilon == 1
    assert set(kept.budgets) == {PrivacyDefinition.INTERVAL}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--budget", "metric:1/1d"), "--ledger"),
        (("--ledger", "l"), "--person"),
        (("--ledger", "l", "--person", "id", "--seed", "1", "--budget", "metric:1/1d"), "it protects nobody"),
        (("--ledger", "l", "--person", "id"), "at least one --budget"),
        (("--ledger", "l", "--person", "id", "--budget", "magic:1/1d"), "--budget takes a privacy definition"),
        (("--ledger", "l", "--person", "id", "--budget", "metric:1"), "--budget takes a privacy definition"),
        (("--ledger", "l", "--person", "id", "--budget", "metric:1.2.3/1d"), "needs numbers"),
        (("--ledger", "l", "--person", "id", "--per-row", "--budget", "metric:1/1d"), "one row per person"),
    ],
)
def test_wrong_usage(
    run: Run, people_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = run("protect", people_csv, tmp_path / "o.csv", *options)
    assert (outcome.code, words in outcome.err) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]


def test_ids_that_could_name_one_person_twice_are_refused(run: Run, people_csv: Path, tmp_path: Path) -> None:
    table = pd_table(people_csv)
    pq.write_table(table, tmp_path / "p.parquet")
    outcome = run(
        "protect", tmp_path / "p.parquet", tmp_path / "o.csv", "--epsilon", 1, "--set", "centres=50", "--person", "id",
        "--ledger", tmp_path / "ledger", *BUDGETS,
    )  # fmt: skip
    assert (outcome.code, "two accounts" in outcome.err) == (3, True)
    assert not (tmp_path / "o.csv").exists()


def pd_table(people_csv: Path) -> pa.Table:
    """The same people with their ids as floating-point numbers, as data frames like to have them."""
    table = pa_csv.read_csv(people_csv)
    return table.set_column(0, "id", table.column("id").cast(pa.float64()))


def test_a_definition_without_a_budget_is_refused_and_nothing_is_published(
    run: Run, people_csv: Path, tmp_path: Path
) -> None:
    outcome = run(
        "protect", people_csv, tmp_path / "o.csv", "--set", "centres=50", "--person", "id",
        "--ledger", tmp_path / "ledger", "--budget", "metric:1/1d",
    )  # fmt: skip
    assert (outcome.code, "central" in outcome.err) == (2, True)
    assert not (tmp_path / "o.csv").exists()
    kept = Ledger(tmp_path / "ledger", [budget_from_text("metric:1/1d")])
    assert kept.spent("3", PrivacyDefinition.METRIC).epsilon == 0
