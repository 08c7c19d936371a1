"""``nearveil protect --engine spark``: what the local engine says and does, on a cluster."""

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.cli.conftest import Run

from nearveil.mechanisms.intervals import Intervals
from nearveil.release.spark.session import session

SPARK = ("--engine", "spark", "--key", "id")
PLANAR = ("--mechanism", "planar-laplace")


@pytest.fixture(scope="module")
def source(people: DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("people") / "true.parquet"
    people.selectExpr("*", "id % 3 as day").coalesce(1).write.parquet(str(folder))
    return folder


@pytest.fixture(scope="module")
def file(source: Path) -> Path:
    """The same people as one file, for the local engine."""
    return next(source.glob("part-*"))


def parsed(text: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text)
    return document


def test_both_engines_say_the_same(run: Run, source: Path, file: Path, tmp_path: Path, intervals: Intervals) -> None:
    (tmp_path / "i.json").write_text(intervals.to_json())
    given = ("--intervals", tmp_path / "i.json", "--json")
    here = run("protect", file, tmp_path / "here.parquet", *given)
    there = run("protect", source, tmp_path / "there", *SPARK, *given)
    assert (here.code, there.code) == (0, 0), there.err
    assert parsed(there.out) == parsed(here.out)
    rows, wanted = pq.read_table(tmp_path / "there"), pq.read_table(tmp_path / "here.parquet")
    assert rows.schema.names == wanted.schema.names
    assert sorted(rows.column("id").to_pylist()) == sorted(wanted.column("id").to_pylist())


def test_a_fit_is_on_the_card(run: Run, source: Path, file: Path, tmp_path: Path) -> None:
    fitted = ("--epsilon", "1", "--centres", "60", "--json")
    here = run("protect", file, tmp_path / "here.parquet", *fitted)
    there = run("protect", source, tmp_path / "there", *SPARK, *fitted)
    assert there.code == 0, there.err
    document = parsed(there.out)
    assert document["fitted_on_these_people"]
    for name in ("holds_for_these_people", "epsilon_holds", "epsilon", "mechanism", "release", "region"):
        assert document[name] == parsed(here.out)[name]


def test_the_session_that_is_there_stays(run: Run, source: Path, tmp_path: Path, spark: SparkSession) -> None:
    outcome = run("protect", source, tmp_path / "out", *SPARK, *PLANAR, "--partition-by", "day", "--drop", "id")
    assert outcome.code == 0, outcome.err
    assert "spark.io.encryption.enabled" in outcome.err
    assert f"rows written to {tmp_path / 'out'}" in outcome.out
    assert sorted(path.name for path in (tmp_path / "out").glob("day=*")) == ["day=0", "day=1", "day=2"]
    assert "id" not in spark.read.parquet(str(tmp_path / "out")).columns
    with session({}, show_progress=False) as same:
        assert same is spark


def test_everybody_is_charged_once(run: Run, source: Path, tmp_path: Path) -> None:
    charged = (*PLANAR, "--person", "id", "--ledger", tmp_path / "ledger", "--budget", "metric:0.006/30d")
    assert run("protect", source, tmp_path / "first", *SPARK, *charged).code == 0
    again = run("protect", source, tmp_path / "second", *SPARK, *charged)
    assert again.code == 5
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--engine", "spark"), 2, "needs --key"),
        (("--key", "id"), 2, "--key is for the Spark engine"),
        (("--partition-by", "day"), 2, "--partition-by is for the Spark engine"),
        ((*SPARK, "--seed", "1"), 2, "does not support --seed"),
        ((*SPARK, "--keep-order"), 2, "always writes rows in random order"),
        ((*SPARK, "--spark-conf", "master"), 2, "--spark-conf takes a setting"),
        ((*SPARK, "--input-format", "nonsense"), 2, "does not know the format"),
        (("--engine", "spark", "--key", "name"), 3, "no column 'name'"),
    ],
)
def test_one_sentence_says_what_is_wrong(
    run: Run, source: Path, tmp_path: Path, spark: SparkSession, options: tuple[str, ...], code: int, words: str
) -> None:
    outcome = run("protect", source, tmp_path / "out", *PLANAR, *options)
    assert outcome.code == code
    assert words in outcome.err
    assert outcome.err.startswith("error: ")
    assert outcome.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


MINE = """
import numpy as np
import nearveil as nv


class Rounded(nv.Mechanism):
    name = "rounded"

    def __init__(self, *, region="san-francisco"):
        self.region = region

    def draw(self, x, rows):
        return np.rint(x / 500) * 500

    @property
    def guarantee(self):
        return nv.Guarantee.claimed_by_nobody()
"""


def test_somebody_elses_file_is_sent_along_and_a_package_must_be_there(
    run: Run, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    package = tmp_path / "nobodys_package"
    package.mkdir()
    (package / "__init__.py").touch()
    for file in (tmp_path / "mine_on_spark.py", package / "mine.py"):
        file.write_text(MINE)
    done = run(
        "protect",
        source,
        tmp_path / "there",
        *SPARK,
        "--mechanism",
        f"{tmp_path / 'mine_on_spark.py'}:Rounded",
        "--json",
    )
    assert done.code == 0, done.err
    assert parsed(done.out)["mechanism"] == "rounded"
    assert parsed(done.out)["holds_for_these_people"] is None
    refused = run("protect", source, tmp_path / "not", *SPARK, "--mechanism", "nobodys_package.mine:Rounded")
    assert refused.code != 0
    assert "executors cannot import nobodys_package; install it on them" in refused.err
    assert not (tmp_path / "not").exists()
