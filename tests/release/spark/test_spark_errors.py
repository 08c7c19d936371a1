"""What Spark says when something fails: one sentence, whose fault it is, and no values."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession
from tests.release.spark.cluster import JVM

from nearveil.errors import DataError, NearveilError, OutputError, UsageError
from nearveil.release.spark.errors import SparkFailedError, spark_errors
from nearveil.release.spark.session import _with_defaults

Act = Callable[[SparkSession, Path], object]

_SESSION = """
from nearveil.release.spark.session import session
with session({}, show_progress=False) as spark:
    print(spark.sparkContext.pythonExec, spark.conf.get("spark.log.level"))
"""


def read_mixed(spark: SparkSession, folder: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), folder / "a.parquet")
    pq.write_table(pa.table({"id": ["x", "y"]}), folder / "b.parquet")
    spark.read.parquet(str(folder)).toArrow()


def read_no_parquet(spark: SparkSession, folder: Path) -> None:
    (folder / "a.parquet").write_text("hello")
    spark.read.parquet(str(folder)).count()


def write_over(spark: SparkSession, folder: Path) -> None:
    spark.range(5).write.parquet(str(folder))


def write_into_a_file(spark: SparkSession, folder: Path) -> None:
    (folder / "file").write_text("hello")
    spark.range(5).write.parquet(str(folder / "file" / "out"))


def ask_for_nothing_known(spark: SparkSession, _: Path) -> None:
    jvm: Any = spark._jvm
    jvm.java.lang.Math.nothing()


@pytest.mark.parametrize(
    ("act", "kind", "words"),
    [
        (read_no_parquet, DataError, "FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER"),
        (read_mixed, DataError, "FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH"),
        (lambda spark, folder: spark.read.parquet(str(folder / "none")), DataError, "PATH_NOT_FOUND"),
        (lambda spark, folder: spark.read.parquet(str(folder)), DataError, "UNABLE_TO_INFER_SCHEMA"),
        (lambda spark, _: spark.sql("SELECT CAST('37.7123x' AS DOUBLE)").collect(), DataError, "CAST_INVALID_INPUT"),
        (lambda spark, _: spark.range(1).select("37.7123"), DataError, "UNRESOLVED_COLUMN"),
        (lambda spark, _: spark.sql("SELECT make_interval(1, 2) AS i").toArrow(), DataError, "UNSUPPORTED_DATA_TYPE"),
        (write_over, OutputError, "PATH_ALREADY_EXISTS"),
        (write_into_a_file, OutputError, "ParentNotDirectoryException"),
        (lambda spark, _: spark.range(5).write.parquet("/proc/x/y"), OutputError, "could not write the result"),
        (lambda spark, _: spark.range(5).write.parquet("no://x/y"), OutputError, "UnsupportedFileSystemException"),
        (lambda spark, _: spark.read.parquet("no://x/y"), SparkFailedError, "UnsupportedFileSystemException"),
        (lambda spark, _: spark.read.parquet("hdfs://127.0.0.1:1/y"), SparkFailedError, "java.net.ConnectException"),
        (ask_for_nothing_known, SparkFailedError, "Spark is gone"),
    ],
)
def test_one_sentence_says_whose_fault_it_is(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str], act: Act, kind: type, words: str
) -> None:
    with pytest.raises(NearveilError) as caught, spark_errors():
        act(spark, tmp_path)
    assert type(caught.value) is kind
    sentence = str(caught.value)
    assert words in sentence
    assert sentence.startswith("Spark ")
    assert "\n" not in sentence
    assert "37.7123" not in sentence + "".join(capfd.readouterr())
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_exit_codes() -> None:
    assert [kind.exit_code for kind in (SparkFailedError, DataError, OutputError)] == [1, 3, 4]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("python", ["/nonexistent/python", sys.executable])
def test_a_python_that_does_not_serve(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, python: str) -> None:
    def fails(_batches: object) -> object:
        raise ImportError("37.7123")

    monkeypatch.setattr(spark.sparkContext, "pythonExec", python)
    with pytest.raises(SparkFailedError, match="PYSPARK_PYTHON") as caught, spark_errors():
        spark.range(3).mapInArrow(fails, "id long").collect()  # type: ignore[arg-type]
    assert "37.7123" not in str(caught.value)
    assert python not in str(caught.value)


@pytest.mark.parametrize(("java", "words"), [(True, "look at its settings"), (False, "install Java 17")])
def test_java_that_ended_and_java_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: bool, words: str
) -> None:
    if java:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "java").touch(mode=0o755)
    for home, path in ((str(tmp_path), "/nowhere"), ("", str(tmp_path / "bin"))):
        monkeypatch.setenv("JAVA_HOME", home)
        monkeypatch.setenv("PATH", path)
        with pytest.raises(UsageError, match=words), spark_errors():
            raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})


@pytest.mark.parametrize("error", [DataError("row 3"), ZeroDivisionError("mine")])
@pytest.mark.parametrize("there", [True, False])
def test_other_errors_stay_as_they_are(error: Exception, there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Around a function, too, more than once, and where there is no pyspark."""

    @spark_errors()
    def fails() -> None:
        raise error

    if not there:
        monkeypatch.setitem(sys.modules, "pyspark", None)
    for _ in range(2):
        with pytest.raises(type(error)) as caught:
            fails()
        assert caught.value is error


def test_what_is_set_stays(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/of/the/environment")
    assert _with_defaults({"spark.a": "b"}) == {"spark.a": "b", "spark.log.level": "OFF"}
    assert os.environ["PYSPARK_PYTHON"] == "/of/the/environment"
    assert _with_defaults({"spark.log.level": "INFO"}) == {"spark.log.level": "INFO"}
    _with_defaults({"spark.pyspark.python": "/of/the/settings"})
    assert os.environ["PYSPARK_PYTHON"] == "/of/the/settings"
    monkeypatch.delenv("PYSPARK_PYTHON")
    _with_defaults({})
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_a_session_that_cannot_start_prints_one_sentence(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "latitude": [37.7], "longitude": [-122.4]}), tmp_path / "in.parquet")
    main = "from nearveil_command import main; main()"
    command = [sys.executable, "-c", main, "protect", "in.parquet", "out", "--engine", "spark"]
    options = ["--key", "id", "--mechanism", "planar-laplace", "--spark-conf", "spark.master=nonsense"]
    options += ["--spark-conf", f"spark.driver.extraJavaOptions={JVM}"]
    result = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.startswith("error: Spark did not start; look at its settings")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_a_session_that_starts_prints_nothing_and_keeps_to_spark_defaults(tmp_path: Path) -> None:
    settings = ("spark.master local[1]", "spark.ui.enabled false", "spark.pyspark.python /some/python")
    quick = f"spark.driver.extraJavaOptions {JVM}"
    (tmp_path / "spark-defaults.conf").write_text("\n".join((*settings, quick)))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    result = subprocess.run(
        [sys.executable, "-c", _SESSION],
        env={**environment, "SPARK_CONF_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == "/some/python OFF\n"
    assert result.stderr == ""
