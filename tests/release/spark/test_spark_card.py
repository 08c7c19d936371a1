"""The same card and the same ledger events as the local engine's."""

import json
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from tests.release.spark.failing import failing_mechanism
from typer.testing import CliRunner

from nearveil.cli.main import app_for
from nearveil.errors import DataError, NearveilError, UsageError
from nearveil.io.people import ReadOptions
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.intervals import Intervals
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.privacy.guarantee import Notion
from nearveil.privacy.ledger import Budget, Ledger, OverspentError
from nearveil.release.spark.api import protect, protect_path
from nearveil.types import FloatArray

BUDGETS = ("metric:0.01/30d", "central:4/365d")


@pytest.fixture
def file(tmp_path: Path, city: FloatArray) -> Path:
    path = tmp_path / "people.csv"
    rows = np.column_stack([np.arange(300), city[:300]])
    np.savetxt(path, rows, delimiter=",", header="id,latitude,longitude", comments="", fmt=["%d", "%.6f", "%.6f"])
    return path


def local(file: Path, *options: str) -> dict[str, Any]:
    output = file.with_name("published.csv")
    arguments = ["protect", str(file), str(output), "--json", "--force", *options]
    result = CliRunner().invoke(app_for(arguments), arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def budgets() -> list[Budget]:
    return [
        Budget(notion=Notion.METRIC, epsilon=0.01, delta=1e-9, window=timedelta(days=30)),
        Budget(notion=Notion.CENTRAL, epsilon=4, delta=1e-9, window=timedelta(days=365)),
    ]


@pytest.mark.parametrize("clip", [False, True])
def test_cards_are_the_same(clip: bool, file: Path, spark: SparkSession, intervals: Intervals, tmp_path: Path) -> None:
    (tmp_path / "intervals.json").write_text(intervals.to_json())
    asked = ["--intervals", str(tmp_path / "intervals.json"), "--person", "id"]
    if clip:
        with file.open("a") as rows:
            rows.write("999,38.5,-122.4\n")
        asked.append("--clip")
    mechanism = DPRS(intervals=intervals, release="metric", noise_m=500.0)
    df = spark.read.csv(str(file), header=True)
    done = protect(df, mechanism=mechanism, key="id", read=ReadOptions(clip=clip))
    document = local(file, *asked)
    assert done.guarantee.to_dict() == document["guarantee"]
    assert done.count == document["rows"]
    assert done.clipped == int(clip)


@pytest.mark.parametrize("fitted", [False, True])
def test_the_ledger_says_the_same(fitted: bool, file: Path, spark: SparkSession, tmp_path: Path) -> None:
    options = ["--centres", "20"] if fitted else ["--mechanism", "planar-laplace"]
    mechanism: Mechanism = DPRS(centres=20, release="metric", noise_m=500.0) if fitted else PlanarLaplace()
    local(file, *options, "--person", "id", "--ledger", str(tmp_path / "local"), *_budget_options())
    ledger = Ledger(tmp_path / "spark", budgets())
    df = spark.read.csv(str(file), header=True)
    protect(df, mechanism=mechanism, key="id", ledger=ledger)
    histories = [events.history("17") for events in (Ledger(tmp_path / "local", budgets()), ledger)]
    here, there = (
        [(event.kind, event.notion, event.epsilon, event.delta, sorted(event.who)) for event in events]
        for events in histories
    )
    assert here == there
    assert len(here) == (2 if fitted else 1)


def test_what_the_ledger_refuses_is_not_published(file: Path, spark: SparkSession, tmp_path: Path) -> None:
    tight = Budget(notion=Notion.METRIC, epsilon=0.001, delta=1e-9, window=timedelta(days=30))
    df = spark.read.csv(str(file), header=True)
    ledger = Ledger(tmp_path / "ledger", [tight])
    with pytest.raises(OverspentError):
        protect(df, mechanism=PlanarLaplace(), key="id", ledger=ledger)
    with pytest.raises(UsageError, match="one row each"):
        protect(df, mechanism=PlanarLaplace(), key="id", ledger=ledger, read=ReadOptions(per_row=True))


def test_nobody_is_charged_for_what_is_not_published(file: Path, spark: SparkSession, tmp_path: Path) -> None:
    """What fails while it is written is not charged, so it can be tried again."""
    ledger, output = Ledger(tmp_path / "ledger", budgets()), tmp_path / "out"
    for mechanism, fails in ((failing_mechanism(), True), (PlanarLaplace(), False)):
        with pytest.raises(NearveilError) if fails else nullcontext():
            protect_path(spark, str(file), str(output), mechanism=mechanism, key="id", ledger=ledger)
        assert len(ledger.history("17")) == (0 if fails else 1)
        assert output.exists() != fails


def test_ids_that_would_share_an_account_are_refused(file: Path, spark: SparkSession, tmp_path: Path) -> None:
    df = spark.read.csv(str(file), header=True).selectExpr("if(id = '3', '4 ', id) as id", "latitude", "longitude")
    with pytest.raises(DataError, match="differ only in blanks"):
        protect(df, mechanism=PlanarLaplace(), key="id", ledger=Ledger(tmp_path / "ledger", budgets()))


def _budget_options() -> list[str]:
    return [word for budget in BUDGETS for word in ("--budget", budget)]
