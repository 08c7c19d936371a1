"""Compiled code that several processes share."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nearveil import kernels
from nearveil.mechanisms._disc_law import half_chord


@pytest.fixture(scope="module")
def another_process() -> list[str]:
    """What the next process calls its files, and how much of the code it finds compiled."""
    script = (
        "from nearveil.mechanisms._disc_law import half_chord as h; assert h(0.5) > 0.8;"
        "print(h._cache._cache_file._data_name(1), sum(h.stats.cache_hits.values()))"
    )
    assert half_chord(0.5) > 0.8
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()


def test_files_of_compiled_code_are_named_by_process(another_process: list[str]) -> None:
    """Numba's own names are numbers alone, under which another process may have written something else."""
    name = half_chord._cache._cache_file._data_name(1)
    assert kernels._TOKEN in name
    assert name.endswith(".1.nbc")
    assert another_process[0].endswith(".1.nbc")
    assert another_process[0] != name


def test_code_compiled_by_one_process_is_used_by_the_next(another_process: list[str]) -> None:
    assert another_process[1] == "1"


def test_numba_multiplies_matrices_for_whoever_else_uses_it() -> None:
    """It is loaded without scipy here, which it needs for that and must find later."""
    script = (
        "import sys; import numpy as np; import nearveil.kernels; assert 'scipy.linalg' not in sys.modules;"
        "from numba import njit; product = njit(lambda a, b: a @ b); print(product(np.eye(2), np.full((2, 2), 3.0))[0])"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[3. 3.]"


def test_code_older_than_the_sources_is_not_used_wherever_it_is_kept(tmp_path: Path) -> None:
    """Numba looks at a function's own file; what that calls in other files may have changed."""
    script = (
        "from nearveil.mechanisms._disc_law import half_chord as h; h(0.5); print(sum(h.stats.cache_hits.values()))"
    )

    def cache_hits() -> str:
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        shown = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
        )
        return shown.stdout.strip()

    assert cache_hits() == "0"
    for file in tmp_path.rglob("*.nb*"):
        os.utime(file, (0, 0))
    assert cache_hits() == "0"
    assert cache_hits() == "1"


def test_where_nothing_can_be_kept_kernels_run_all_the_same() -> None:
    """Neither beside the source nor at home, as in a container with a read-only root."""
    script = (
        "from numba.core import caching; caching.CacheImpl._locator_classes = [];"
        "from nearveil.mechanisms._disc_law import half_chord as h; print(round(h(0.6), 3), h.stats.cache_path)"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["0.917", "None"]


def test_on_a_full_disk_kernels_run_all_the_same(tmp_path: Path) -> None:
    script = (
        "from nearveil.mechanisms._disc_law import half_chord as h; import errno\n"
        "def save(*_): raise OSError(errno.ENOSPC, 'No space left on device')\n"
        "h._cache._cache_file.save = save; print(round(h(0.6), 3))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert shown.stdout.strip() == "0.917"


# -- whose code is run ---------------------------------------------------------------------------------------------

WHERE = "from nearveil.mechanisms._disc_law import half_chord as h; assert h(0.5) > 0.8; print(h._cache.cache_path)"


def where_code_is_kept(**environment: str) -> str:
    shown = subprocess.run(
        [sys.executable, "-c", WHERE], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return shown.stdout.strip()


def test_code_is_not_read_from_a_folder_that_others_can_write(tmp_path: Path) -> None:
    """Compiled code is a pickle: whoever can put one there would run code here."""
    shared, home = tmp_path / "shared", tmp_path / "home"
    for folder in (shared, home):
        folder.mkdir(mode=0o700)
    environment = {"NUMBA_CACHE_DIR": str(shared), "XDG_CACHE_HOME": str(home)}
    assert where_code_is_kept(**environment).startswith(str(shared))
    shared.chmod(0o777)
    assert where_code_is_kept(**environment).startswith(str(home / "nearveil" / "kernels"))
    # Its own subfolder, which somebody else may have made before.
    shared.chmod(0o1777)
    for folder in shared.iterdir():
        folder.chmod(0o770)
    assert where_code_is_kept(**environment).startswith(str(home / "nearveil" / "kernels"))
    # Nowhere private: every process compiles anew.
    home.chmod(0o777)
    assert where_code_is_kept(**environment) == "None"


def test_a_folder_like_tmp_may_hold_a_private_one(tmp_path: Path) -> None:
    like_tmp = tmp_path / "tmp"
    (like_tmp / "mine").mkdir(parents=True)
    like_tmp.chmod(0o1777)
    assert kernels.is_private(str(like_tmp / "mine"))
    assert not kernels.is_private(str(like_tmp))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
def test_somebody_else_s_folder_is_not_private(tmp_path: Path) -> None:
    (theirs := tmp_path / "theirs").mkdir(mode=0o700)
    (inside := theirs / "inside").mkdir(mode=0o700)
    os.chown(theirs, 12_345, 12_345)
    assert not kernels.is_private(str(theirs))
    assert not kernels.is_private(str(inside))


def test_a_link_does_not_make_a_folder_private(tmp_path: Path) -> None:
    (shared := tmp_path / "shared").mkdir()
    shared.chmod(0o777)
    (tmp_path / "link").symlink_to(shared)
    assert not kernels.is_private(str(tmp_path / "link"))
