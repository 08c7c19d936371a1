"""Nothing that Spark writes has the secret or a true place in it: logs, event log, plans, shuffle and work files."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.release.spark.cluster import driver_log, spark_defaults
from tests.release.spark.failing import failing_mechanism
from tests.services.leaks import files_under, leaks

from nearveil.io.people import ReadOptions
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.randomness import subkey
from nearveil.region import Region
from nearveil.release import spark as spark_module
from nearveil.release.spark import _Job, job_key, protect
from nearveil.release.spark_tasks import run_on_batches

SECRET = bytes.fromhex("d1c7a93e5b8846f2a0e4c3917b6d25f8")
# Nine digits, so that none is met by chance.
PLACES = [(37.712345678 + number / 1e4, -122.412345678 - number / 1e4) for number in range(60)]
SOUGHT = PLACES[::6]
FILES = 6


@pytest.fixture(scope="module")
def secret_people(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataFrame]:
    """A few people; as long as they are needed, Spark plans and compiles as it would elsewhere."""
    table = pa.table({"id": range(60), "latitude": [p[0] for p in PLACES], "longitude": [p[1] for p in PLACES]})
    path = tmp_path_factory.mktemp("people") / "true"
    path.mkdir()
    # From files: rows made by a driver would be in its plan, whoever reads them. And from several, or nothing is
    # shuffled that should not be.
    for number in range(FILES):
        pq.write_table(table.slice(10 * number, 10), path / f"{number}.parquet")
    with spark_defaults(spark):
        people = spark.read.parquet(str(path))
        assert people.rdd.getNumPartitions() > 1
        yield people


@pytest.fixture
def job_keys(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The keys of the jobs that run."""
    return watched_job_keys(monkeypatch)


def watched_job_keys(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    seen: list[bytes] = []
    original = job_key

    def spy(*arguments: object) -> bytes:
        seen.append(original(*arguments))  # type: ignore[arg-type]
        return seen[-1]

    monkeypatch.setattr(spark_module, "job_key", spy)
    return seen


class Releases(NamedTuple):
    """Two releases: the keys of their jobs, the rows of one, and the folder that the other wrote."""

    job_keys: list[bytes]
    rows: DataFrame
    output: Path


@pytest.fixture(scope="module")
def releases(secret_people: DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Releases:
    output = tmp_path_factory.mktemp("out") / "published"
    with pytest.MonkeyPatch.context() as monkeypatch:
        keys = watched_job_keys(monkeypatch)
        # As it comes about where none is given, but known.
        monkeypatch.setattr("nearveil.release.spark.checked_secret", lambda _given: SECRET)
        fitted = DPRS(release="interval", centres=5, fit_method="pic", rounds=2, region="san-francisco")
        rows = protect(secret_people, mechanism=fitted, key="id").rows
        gridded = protect(
            secret_people, mechanism=DPRS(release="interval", centres=5, region="san-francisco"), key="id"
        )
        gridded.rows.write.parquet(str(output))
    return Releases(keys, rows, output)


def traces(secret: bytes) -> list[bytes]:
    forms = [secret, secret.hex().encode(), secret.hex().upper().encode(), base64.b64encode(secret).rstrip(b"=")]
    return [*forms, base64.urlsafe_b64encode(secret).rstrip(b"="), repr(secret).encode()]


def names_of_files_with(folder: Path, secrets: list[bytes]) -> list[str]:
    wanted = [trace for secret in secrets for trace in traces(secret)]
    return [name for name, content in files_under(folder) if any(trace in content for trace in wanted)]


@pytest.mark.evidence
@pytest.mark.usefixtures("cluster")
def test_the_secret_is_written_nowhere(releases: Releases, spark_folder: Path) -> None:
    """Files that a cluster writes during releases hold neither the secret nor a key made of it."""
    assert releases.rows.count() == 60
    assert len(set(releases.job_keys)) == 2
    events = list((spark_folder / "events").iterdir())
    assert any(b"SparkListenerSQLExecutionStart" in path.read_bytes() for path in events)
    assert any(b"ReleaseRows" in path.read_bytes() for path in events)
    noise_keys = [subkey(key, "noise") for key in releases.job_keys]
    assert names_of_files_with(spark_folder, [SECRET, *releases.job_keys, *noise_keys]) == []


def test_the_secret_is_in_no_plan(secret_people: DataFrame, job_keys: list[bytes]) -> None:
    job = _Job(PlanarLaplace(), "id", ReadOptions(), None, SECRET, False, None)
    plan = job.planned(secret_people).rows
    execution = plan._jdf.queryExecution()
    texts = [execution.toString(), execution.logical().treeString(), execution.logical().toJSON(), repr(job)]
    assert "ReleaseRows" in texts[0]
    for secret in (SECRET, *job_keys):
        for trace in traces(secret):
            assert not any(trace in text.encode() for text in texts)


@pytest.mark.evidence
@pytest.mark.usefixtures("cluster")
def test_true_places_are_written_nowhere(releases: Releases, spark_folder: Path, san_francisco: Region) -> None:
    """Files that a cluster writes during releases hold no true location."""
    assert leaks(files_under(spark_folder), SOUGHT, san_francisco) == []
    assert leaks(files_under(releases.output), SOUGHT, san_francisco) == []


def test_errors_tell_no_place_and_no_secret(
    secret_people: DataFrame, spark_folder: Path, san_francisco: Region, job_keys: list[bytes]
) -> None:
    with pytest.raises(Exception, match="Nearveil failed on an executor") as caught:
        protect(secret_people, mechanism=failing_mechanism(), key="id", secret=SECRET)
    assert leaks([("error", f"{caught.value!r} {caught.value}".encode())], SOUGHT, san_francisco) == []
    assert b"Nearveil failed on an executor" in driver_log(spark_folder).read_bytes()
    assert leaks(files_under(spark_folder), SOUGHT, san_francisco) == []
    assert names_of_files_with(spark_folder, [SECRET, *job_keys]) == []


def test_the_search_would_find_them(spark: SparkSession, spark_folder: Path, san_francisco: Region) -> None:
    """A job that is careless on purpose: its error and its broadcast are found."""
    place = (37.765432198, -122.465432198)
    careless = bytes(range(200, 216))
    shared = spark.sparkContext.broadcast(careless)

    def fail(_batches: object) -> Iterator[pa.RecordBatch]:
        raise ValueError(f"at {place} with {shared.value.hex()}")

    with pytest.raises(Exception, match="ValueError"):
        run_on_batches(spark.range(1), fail, "id bigint").collect()
    assert names_of_files_with(spark_folder, [careless]) != []
    assert leaks(files_under(spark_folder), [place], san_francisco) != []
