"""The same card and the same charges as the local engine's."""

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from nearveil.errors import DataError, UsageError
from nearveil.io.people import ReadOptions
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.intervals import Intervals
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.privacy.ledger import Budget, Ledger, OverspentError
from nearveil.release.protect import ProtectResult, protect_file
from nearveil.release.spark import protect
from nearveil.types import FloatArray


@pytest.fixture
def file(tmp_path: Path, city: FloatArray) -> Path:
    path = tmp_path / "people.csv"
    rows = np.column_stack([np.arange(300), city[:300]])
    np.savetxt(path, rows, delimiter=",", header="id,latitude,longitude", comments="", fmt=["%d", "%.6f", "%.6f"])
    return path


def local(file: Path, mechanism: Mechanism, read: ReadOptions, ledger: Ledger | None = None) -> ProtectResult:
    return protect_file(file, file.with_name("published.csv"), mechanism, read=read, ledger=ledger)


def budgets() -> list[Budget]:
    return [
        Budget(definition=PrivacyDefinition.METRIC, epsilon=0.01, delta=1e-9, window=timedelta(days=30)),
        Budget(definition=PrivacyDefinition.CENTRAL, epsilon=4, delta=1e-9, window=timedelta(days=365)),
    ]


@pytest.mark.parametrize("clip", [pytest.param(False, marks=pytest.mark.evidence), True])
def test_cards_are_the_same(clip: bool, file: Path, spark: SparkSession, intervals: Intervals) -> None:
    if clip:
        with file.open("a") as rows:
            rows.write("999,38.5,-122.4\n")
    mechanism = DPRS(intervals=intervals, release="metric", noise_m=500.0)
    here = local(file, mechanism, ReadOptions(person="id", clip=clip))
    done = protect(spark.read.csv(str(file), header=True), mechanism=mechanism, key="id", read=ReadOptions(clip=clip))
    assert done.guarantee == here.guarantee
    assert done.count == here.rows
    assert done.clipped == here.true_figures.clipped == int(clip)


@pytest.mark.parametrize("fitted", [pytest.param(False, marks=pytest.mark.evidence), True])
def test_the_ledger_says_the_same(fitted: bool, file: Path, spark: SparkSession, tmp_path: Path) -> None:
    def mechanism() -> Mechanism:
        return DPRS(centres=20, release="metric", noise_m=500.0, region="san-francisco") if fitted else PlanarLaplace()

    ledgers = [Ledger(tmp_path / name, budgets()) for name in ("local", "spark")]
    local(file, mechanism(), ReadOptions(person="id"), ledgers[0])
    protect(spark.read.csv(str(file), header=True), mechanism=mechanism(), key="id", ledger=ledgers[1])
    definitions = (PrivacyDefinition.METRIC, PrivacyDefinition.CENTRAL)
    here, there = ([ledger.spent("17", definition) for definition in definitions] for ledger in ledgers)
    assert here == there
    assert [amount.epsilon > 0 for amount in here] == [True, fitted]


def test_what_the_ledger_refuses_is_not_published(file: Path, spark: SparkSession, tmp_path: Path) -> None:
    tight = Budget(definition=PrivacyDefinition.METRIC, epsilon=0.001, delta=1e-9, window=timedelta(days=30))
    df = spark.read.csv(str(file), header=True)
    ledger = Ledger(tmp_path / "ledger", [tight])
    with pytest.raises(OverspentError):
        protect(df, mechanism=PlanarLaplace(), key="id", ledger=ledger)
    with pytest.raises(UsageError, match="one row each"):
        protect(df, mechanism=PlanarLaplace(), key="id", ledger=ledger, read=ReadOptions(per_row=True))


def test_ids_that_would_share_an_account_are_refused(file: Path, spark: SparkSession, tmp_path: Path) -> None:
    df = spark.read.csv(str(file), header=True).selectExpr("if(id = '3', '4 ', id) as id", "latitude", "longitude")
    with pytest.raises(DataError, match="would share an account"):
        protect(df, mechanism=PlanarLaplace(), key="id", ledger=Ledger(tmp_path / "ledger", budgets()))
