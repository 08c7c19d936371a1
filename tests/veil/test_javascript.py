"""veil.js gives the answers of the test vectors, in the node that is here and where it has no global WebCrypto."""

import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "clients" / "js"
# Node 18 has WebCrypto in a module only.
WITHOUT_WEBCRYPTO = "--import=data:text/javascript,delete globalThis.crypto"


@pytest.mark.parametrize("options", [[], [WITHOUT_WEBCRYPTO]], ids=["node", "without-global-webcrypto"])
def test_veil_js(options: list[str]) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node (Debian: nodejs)")
    done = subprocess.run([node, *options, "veil.test.js"], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_it_is_one_short_file_without_dependencies() -> None:
    lines = (FOLDER / "veil.js").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 200
    assert not any(line.startswith("import ") for line in lines)
