"""Work in processes of their own: everything is done, in order, and a process that dies is missed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nearveil.errors import NearveilError
from nearveil.evaluation.parallel import in_parallel


def double(number: int) -> tuple[int, int]:
    if number == 3:
        raise ValueError("three")
    if number == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number, os.getpid()


@pytest.mark.parametrize("cores", [1, 2])
def test_every_item_is_done_in_order_and_an_error_is_the_same_error_here(cores: int) -> None:
    steps: list[int] = []
    found = list(in_parallel(double, range(5, 14), cores=cores, progress=steps.append))
    assert [result for result, _ in found] == list(range(10, 28, 2))
    assert steps == [1] * 9
    # One core is this process, two are others.
    assert (os.getpid() in {pid for _, pid in found}) is (cores == 1)
    assert list(in_parallel(double, [7], cores=8)) == [(14, os.getpid())]
    assert list(in_parallel(double, [], cores=8)) == []
    with pytest.raises(ValueError, match="three"):
        list(in_parallel(double, range(4), cores=cores))


def test_a_worker_that_dies_is_an_error_in_one_sentence() -> None:
    with pytest.raises(NearveilError, match="a worker process was ended") as caught:
        list(in_parallel(double, range(4, 9), cores=2))
    assert caught.value.exit_code == 1


def test_a_script_without_a_guard_is_run_once(tmp_path: Path) -> None:
    text = "from nearveil.evaluation.parallel import in_parallel\nprint('started')\ndef root(x):\n    return x**0.5\n"
    (tmp_path / "script.py").write_text(f"{text}print(list(in_parallel(root, [1.0, 4.0, 9.0], cores=2)))\n")
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["started", "[1.0, 2.0, 3.0]"]
