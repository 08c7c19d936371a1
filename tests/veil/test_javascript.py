"""veil.js gives the answers of the test vectors."""

import shutil
import subprocess
from pathlib import Path

import pytest


def test_veil_js() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node (Debian: nodejs)")
    done = subprocess.run(
        [node, "veil.test.js"],
        cwd=Path(__file__).parents[2] / "clients/js",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
