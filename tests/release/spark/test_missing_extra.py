"""Without pyspark: nothing breaks that does not need it, and one sentence says what to install."""

import subprocess
import sys

_WITHOUT = """
import sys
sys.modules["pyspark"] = None
from nearveil import PlanarLaplace, UsageError
from nearveil.release.spark import protect
try:
    protect(None, mechanism=PlanarLaplace(), key="id")
except UsageError as error:
    print(error)
"""


def test_one_sentence_says_what_to_install() -> None:
    result = subprocess.run([sys.executable, "-c", _WITHOUT], capture_output=True, text=True, check=True)
    assert "pip install 'nearveil[spark]'" in result.stdout
    assert result.stdout.count("\n") == 1
