"""Work in processes of their own: everything is done, once, and whoever dies is missed."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nearveil.evaluation.workers import WorkerError, map_in_processes


def double(number: int) -> tuple[int, int]:
    return 2 * number, os.getpid()


def fail_at_three(number: int) -> int:
    if number == 3:
        raise ValueError("three")
    return number


def die_at_three(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def count_in(place: tuple[Path, int]) -> tuple[int, int]:
    folder, number = place
    with (folder / str(number)).open("x") as file:
        file.write("done")
    return 10 * number, os.getpid()


@pytest.mark.parametrize("cores", [1, 2])
def test_every_item_is_done_once_and_told_by_its_number(tmp_path: Path, cores: int) -> None:
    items = [(tmp_path, number) for number in range(9)]
    found = sorted(map_in_processes(count_in, items, cores=cores))
    assert [(index, result) for index, (result, _) in found] == [(number, 10 * number) for number in range(9)]
    assert len(list(tmp_path.iterdir())) == 9
    # One core is this process, two are two others.
    workers = {pid for _, (_, pid) in found}
    assert workers == {os.getpid()} if cores == 1 else os.getpid() not in workers


def test_one_item_or_none_starts_no_process() -> None:
    assert list(map_in_processes(double, [7], cores=8)) == [(0, (14, os.getpid()))]
    assert list(map_in_processes(double, [], cores=8)) == []


def test_one_core_does_nothing_before_it_is_asked(tmp_path: Path) -> None:
    """Whoever keeps results one by one has kept all that were made."""
    work = map_in_processes(count_in, [(tmp_path, 0), (tmp_path, 1)], cores=1)
    next(work)
    assert [path.name for path in tmp_path.iterdir()] == ["0"]


@pytest.mark.parametrize("cores", [1, 2])
def test_an_error_in_a_worker_is_the_same_error_here(cores: int) -> None:
    with pytest.raises(ValueError, match="three"):
        list(map_in_processes(fail_at_three, range(6), cores=cores))


def test_a_worker_that_dies_is_an_error_in_one_sentence() -> None:
    with pytest.raises(WorkerError, match="a worker process was ended") as caught:
        list(map_in_processes(die_at_three, range(6), cores=2))
    assert caught.value.exit_code == 1
    assert caught.value.__suppress_context__


def linger(place: tuple[Path, int]) -> int:
    folder, number = place
    if number:
        threading.Event().wait(120)
        (folder / f"{number}").touch()
    return os.getpid()


def test_whoever_stops_early_waits_for_nobody_and_leaves_nobody_behind(tmp_path: Path) -> None:
    before = threading.active_count()
    work = map_in_processes(linger, [(tmp_path, number) for number in range(5)], cores=2)
    _, pid = next(work)
    work.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert list(tmp_path.iterdir()) == []


_SCRIPT = """
import math
from pathlib import Path
from nearveil.evaluation.workers import map_in_processes

with Path("started").open("a") as file:
    file.write("x")
{guard}
print(sorted(map_in_processes({work}, [1.0, 4.0, 9.0], cores=2)))
print(__file__)
"""


def test_a_script_without_a_guard_is_run_once(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(_SCRIPT.format(guard="", work="math.sqrt"), encoding="utf-8")
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "[(0, 1.0), (1, 2.0), (2, 3.0)]"
    assert done.stdout.splitlines()[1].endswith("script.py")
    assert (tmp_path / "started").read_text(encoding="utf-8") == "x"


def test_a_script_with_a_guard_can_use_its_own_functions(tmp_path: Path) -> None:
    guard = 'def root(x):\n    return math.sqrt(x)\nif __name__ != "__main__":\n    raise SystemExit'
    text = _SCRIPT.format(guard=guard, work="root").replace("    raise SystemExit\nprint", "    pass\nelse:\n  print")
    text = text.replace("\nprint(__file__)", "")
    (tmp_path / "script.py").write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[(0, 1.0), (1, 2.0), (2, 3.0)]"
