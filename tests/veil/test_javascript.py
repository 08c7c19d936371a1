"""veil.js gives the answers of the test vectors, also where node has no global WebCrypto, as version 18."""

import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "clients" / "js"


@pytest.mark.parametrize("before", ["0", "delete globalThis.crypto"])
def test_veil_js(before: str) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node (Debian: nodejs)")
    command = [node, f"--import=data:text/javascript,{before}", "veil.test.js"]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
