"""Spark on this machine: in one process, or a real cluster of a master and two workers, on 127.0.0.1 only."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyspark
from pyspark.sql import SparkSession
from tests.services.running import free_port
from tests.waiting import until

HOST = "127.0.0.1"
_HOME = Path(pyspark.__file__).parent
_ON_EXECUTORS = Path(__file__).parent / "on_executors"

# Everything that Spark writes can be searched for what must not be in it.
# Small processes that start quickly; what they compute for long is not their own code.
JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_NOTHING_HIDDEN = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.broadcast.compress": "false",
    "spark.rdd.compress": "false",
    # Shuffle files and broadcasts would be removed once they are garbage, whenever that is noticed.
    "spark.cleaner.referenceTracking": "false",
}
# To compile each query and to plan it again while it runs takes longer than to compute it.
_FOR_FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
SPARK_DEFAULTS = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.adaptive.enabled": "true",
}


class Cluster:
    """A master and workers with one core each, all their files in one folder."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        assert shutil.which("java") or os.environ.get("JAVA_HOME"), "Spark needs Java 17 or newer: install a JRE"
        self.folder = folder
        self._port = free_port()
        self._master: subprocess.Popen[bytes] | None = None
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        self._size = workers

    @property
    def url(self) -> str:
        return f"spark://{HOST}:{self._port}"

    def start(self) -> None:
        _make_folders(self.folder)
        options = ("--host", HOST, "--port", str(self._port), "--webui-port", "0")
        self._master = self._launch("master", "org.apache.spark.deploy.master.Master", *options)
        until(self._master_listens)
        for number in range(self._size):
            self.start_worker(number)

    def start_worker(self, number: int) -> None:
        """Start a worker that is not running."""
        work = self.folder / "work" / str(number)
        options = ("--host", HOST, "--webui-port", "0", "--cores", "1", "--memory", "1g", "--work-dir", str(work))
        self._workers[number] = self._launch(
            f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *options, self.url
        )

    def complete(self, spark: SparkSession) -> None:
        """Start the workers that were killed, and wait until a session has all its executors."""
        for number in range(self._size):
            if number not in self._workers:
                self.start_worker(number)
        until(lambda: executors(spark) == self._size)

    def kill_worker(self, number: int) -> list[int]:
        """End a worker and its executors as a power cut would; return the ids of the executors."""
        worker = self._workers.pop(number)
        executors = psutil.Process(worker.pid).children()
        for process in (worker.pid, *(executor.pid for executor in executors)):
            os.kill(process, signal.SIGKILL)
        worker.wait(60)
        psutil.wait_procs(executors, timeout=60)
        return [executor.pid for executor in executors]

    def stop(self) -> None:
        for process in (*self._workers.values(), self._master):
            if process is not None:
                process.terminate()
                process.wait(60)

    def session(self) -> SparkSession:
        """Return a session whose executors are processes of their own, one on each worker."""
        return _session(self.url, self.folder)

    def _launch(self, name: str, main: str, *options: str) -> subprocess.Popen[bytes]:
        with (self.folder / "logs" / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [str(_HOME / "bin" / "spark-class"), main, *options],
                stdout=log,
                stderr=log,
                env=_environment(self.folder),
            )

    def _master_listens(self) -> bool:
        assert self._master is not None
        log = self.folder / "logs" / "master.log"
        assert self._master.poll() is None, f"the master ended: {log.read_text()[-2000:]}"
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self._port)) == 0


def _make_folders(folder: Path) -> None:
    for name in ("conf", "events", "work", "local", "logs"):
        (folder / name).mkdir(parents=True, exist_ok=True)


def driver_log(folder: Path) -> Path:
    """What the driver's JVM prints."""
    return folder / "driver.log"


def _session(master: str, folder: Path) -> SparkSession:
    builder = SparkSession.builder.master(master).appName("nearveil tests")
    settings = {
        **_NOTHING_HIDDEN,
        **_FOR_FEW_ROWS,
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": JVM,
        "spark.executor.extraJavaOptions": JVM,
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.local.dir": str(folder / "local"),
        "spark.executorEnv.PYTHONPATH": os.pathsep.join([str(_ON_EXECUTORS), os.environ.get("PYTHONPATH", "")]),
        "spark.python.daemon.module": "loaded_daemon",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _as_driver(folder):
        return builder.getOrCreate()


@contextmanager
def _as_driver(folder: Path) -> Iterator[None]:
    """Start the driver's JVM with settings of its own, and with what it prints in a file."""
    before, streams = dict(os.environ), (os.dup(1), os.dup(2))
    os.environ.update(_environment(folder))
    with driver_log(folder).open("ab") as log:
        for number in (1, 2):
            os.dup2(log.fileno(), number)
    try:
        yield
    finally:
        for number, stream in zip((1, 2), streams, strict=True):
            os.dup2(stream, number)
            os.close(stream)
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


def _environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "SPARK_HOME": str(_HOME),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": JVM,
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def executors(spark: SparkSession) -> int:
    """How many executors there are, the driver aside."""
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


@contextmanager
def spark_defaults(spark: SparkSession) -> Iterator[None]:
    """Let Spark compile and plan queries as it does where nothing is set."""
    try:
        for name, value in SPARK_DEFAULTS.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in _FOR_FEW_ROWS.items():
            spark.conf.set(name, value)


@contextmanager
def running_cluster(folder: Path) -> Iterator[tuple[Cluster, SparkSession]]:
    """Run a cluster and a session on it, and end both."""
    cluster = Cluster(folder)
    try:
        cluster.start()
        spark = cluster.session()
        try:
            cluster.complete(spark)
            yield cluster, spark
        finally:
            spark.stop()
    finally:
        cluster.stop()


@contextmanager
def running_in_one_process(folder: Path) -> Iterator[SparkSession]:
    """Run Spark with two threads of one JVM, which starts in a few seconds; Python workers are processes as ever."""
    assert shutil.which("java") or os.environ.get("JAVA_HOME"), "Spark needs Java 17 or newer: install a JRE"
    _make_folders(folder)
    spark = _session("local[2]", folder)
    try:
        yield spark
    finally:
        spark.stop()
