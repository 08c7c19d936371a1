"""Without pyspark: nothing breaks that does not need it, and one sentence says what to install."""

import subprocess
import sys

_WITHOUT = """
import sys
sys.modules["pyspark"] = None
from nearveil import PlanarLaplace, UsageError
from nearveil.release.spark import api as spark
for call, given in ((spark.protect, (None,)), (spark.protect_path, (None, "a", "b"))):
    try:
        call(*given, mechanism=PlanarLaplace(), key="id")
    except UsageError as error:
        print(error)
"""


def test_one_sentence_says_what_to_install() -> None:
    result = subprocess.run([sys.executable, "-c", _WITHOUT], capture_output=True, text=True, check=True)
    assert result.stdout == (
        "the Spark engine needs pyspark, which is not installed; run pip install 'nearveil[spark]'\n" * 2
    )


def test_pyspark_is_loaded_when_it_is_needed() -> None:
    code = "import sys, nearveil.release.spark.api; print('pyspark' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"
