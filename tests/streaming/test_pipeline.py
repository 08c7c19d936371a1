"""The pipeline: in order, little in flight, and nothing left running."""

import threading
import time
from collections.abc import Iterator

import pytest

from nearveil.streaming.pipeline import mapped_in_order


def threads() -> int:
    return threading.active_count()


def test_results_come_in_order() -> None:
    def work(number: int) -> int:
        time.sleep(0.001 * (number % 3))
        return number * number

    assert list(mapped_in_order(work, iter(range(100)))) == [number**2 for number in range(100)]


def test_little_is_fetched_ahead() -> None:
    fetched = []

    def items() -> Iterator[int]:
        for number in range(1000):
            fetched.append(number)
            yield number

    before = threads()
    results = mapped_in_order(lambda number: number, items())
    assert next(results) == 0
    time.sleep(0.2)
    assert len(fetched) < 50
    results.close()
    assert threads() == before


@pytest.mark.parametrize("where", ["items", "work", "consumer"])
def test_errors_stop_everything(where: str) -> None:
    closed = threading.Event()

    def items() -> Iterator[int]:
        try:
            for number in range(1000):
                if where == "items" and number == 20:
                    raise ZeroDivisionError
                yield number
        finally:
            closed.set()

    def work(number: int) -> int:
        if where == "work" and number == 20:
            raise ZeroDivisionError
        return number

    before, seen = threads(), []
    with pytest.raises(ZeroDivisionError):
        for number in mapped_in_order(work, items()):
            seen.append(number)
            if where == "consumer" and number == 19:
                raise ZeroDivisionError
    assert seen == list(range(len(seen)))
    assert where == "items" or len(seen) == 20
    assert closed.wait(5)
    assert threads() == before


def test_nothing_in_nothing_out() -> None:
    assert list(mapped_in_order(lambda item: item, iter(()))) == []
