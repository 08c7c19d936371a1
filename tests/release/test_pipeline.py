"""The pipeline: in order, little in flight, and nothing left running."""

import os
import threading
from collections.abc import Iterator

import pytest

from nearveil.release.parallel_map import mapped_in_order


def threads() -> int:
    return threading.active_count()


def test_results_come_in_order() -> None:
    done = [threading.Event() for _ in range(100)]

    def work(number: int) -> int:
        # Where there are two cores, every other item is ready only after the next one is.
        if number % 2 == 0 and (os.cpu_count() or 1) > 1:
            assert done[number + 1].wait(60)
        done[number].set()
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
    assert [next(results) for _ in range(100)] == list(range(100))
    results.close()
    # Two for each core, and a few at hand.
    assert len(fetched) < 100 + 2 * (os.cpu_count() or 1) + 8
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

    # Held here, so that it is closed by the pipeline and not because nobody refers to it.
    before, seen, source = threads(), [], items()
    with pytest.raises(ZeroDivisionError):
        for number in mapped_in_order(work, source):
            seen.append(number)
            if where == "consumer" and number == 19:
                raise ZeroDivisionError
    assert seen == list(range(len(seen)))
    assert where == "items" or len(seen) == 20
    assert closed.wait(60)
    assert threads() == before
