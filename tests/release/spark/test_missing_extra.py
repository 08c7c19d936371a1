"""Without pyspark: nothing breaks that does not need it, and one sentence says what to install."""

import subprocess
import sys

import pytest

_WITHOUT = """
import sys
sys.modules["pyspark"] = None
from nearveil import PlanarLaplace, UsageError
from nearveil.release.spark import api as spark
try:
    spark.{call}
except UsageError as error:
    print(error)
"""


@pytest.mark.parametrize(
    "call",
    [
        "protect(None, mechanism=PlanarLaplace(), key='id')",
        "protect_path(None, 'a', 'b', mechanism=PlanarLaplace(), key='id')",
    ],
)
def test_one_sentence_says_what_to_install(call: str) -> None:
    code = _WITHOUT.format(call=call)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == (
        "the Spark engine needs pyspark, which is not installed; run pip install 'nearveil[spark]'\n"
    )


def test_pyspark_is_loaded_when_it_is_needed() -> None:
    code = "import sys, nearveil.release.spark.api; print('pyspark' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"
