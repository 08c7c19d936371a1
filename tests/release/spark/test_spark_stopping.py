"""A request to end ends what Spark is doing."""

import os
import signal
import threading

import pytest
from pyspark.sql import SparkSession
from tests.release.spark.cluster import wait_until

from nearveil.release.spark.session import session


class AskedToEndError(BaseException):
    """What a handler of signals raises."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_jobs_are_cancelled_when_the_program_is_asked_to_end(spark: SparkSession, number: signal.Signals) -> None:
    def end(_number: int, _frame: object) -> None:
        raise AskedToEndError

    def busy() -> bool:
        return bool(spark.sparkContext.statusTracker().getActiveStageIds())

    def ask_once_it_runs() -> None:
        wait_until(busy, "Spark to be busy")
        os.kill(os.getpid(), number)

    before = signal.signal(number, end)
    try:
        asking = threading.Thread(target=ask_once_it_runs)
        with pytest.raises(AskedToEndError), session({}, show_progress=False):
            asking.start()
            # Hours of work, unless it is cancelled.
            spark.range(10**15).selectExpr("sum(id * id % 7)").toArrow()
        asking.join()
        wait_until(lambda: not busy(), "Spark to be idle")
        assert signal.getsignal(number) is end
    finally:
        signal.signal(number, before)


def test_an_error_of_nobodys_asking_is_itself(spark: SparkSession) -> None:
    with pytest.raises(ZeroDivisionError), session({}, show_progress=False):
        _ = 1 // 0
