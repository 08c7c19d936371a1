"""What ``pip install nearveil`` holds works without the packages of any extra."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nearveil.errors import EXTRA_OF

ROOT = Path(__file__).parents[1]
PAGE = re.findall(r"```python\n(.*?)```", (ROOT / "docs/guides/in-your-app.md").read_text(encoding="utf-8"), re.DOTALL)
# Frames are a user's own, and their packages not Nearveil's.
_HIDE = """
import sys, warnings
warnings.simplefilter("error")
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
"""


def run(code: str, *, there: tuple[str, ...] = ()) -> str:
    """Run code where the packages of all extras are hidden, but for those that a user has."""
    script = _HIDE.format(hidden=set(EXTRA_OF) - set(there)) + code
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def test_the_package_and_veil_load_nothing_heavy() -> None:
    code = """
import nearveil
assert nearveil.Veil(nearveil.Veil.new_key()).blur("ann", 52.52, 13.405)
print(sorted({"numpy", "pyproj", "cryptography", "narwhals", "click"} & set(sys.modules)))
"""
    assert run(code) == "[]\n"


def test_noise_for_arrays() -> None:
    code = """
import nearveil, numpy as np
points = np.tile([[52.52, 13.405]], (1000, 1))
for mechanism in (nearveil.PlanarLaplace(500, region="berlin"), nearveil.PlanarLaplace("1km")):
    print(mechanism.perturb(points).shape)
"""
    assert run(code) == "(1000, 2)\n" * 2


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_noise_for_frames(kind: str) -> None:
    code = f"""
import nearveil as nv, {kind}
users = {kind}.DataFrame({{"latitude": [52.52, 48.85], "longitude": [13.405, 2.35]}})
for frame in (nv.PlanarLaplace(500).transform(users), nv.protect(users, nv.PlanarLaplace(500)).frame):
    print(frame.shape, type(frame).__module__.partition(".")[0])
"""
    assert run(code, there=("pandas", "polars")) == f"(2, 2) {kind}\n" * 2


def test_what_needs_an_extra_names_it() -> None:
    calls = (
        "DPRS(epsilon=1, region='berlin').fit(points)",
        "protect('a.csv', 'b.csv')",
        "attack(points)",
        "audit(None)",
    )
    code = f"""
import nearveil, numpy as np
points = np.random.default_rng(1).normal([52.52, 13.405], 0.01, (1000, 2))
for call in {calls}:
    try:
        eval("nearveil." + call)
    except nearveil.UsageError as error:
        print(error)
"""
    needs = (("scipy", "files"), ("pyarrow", "files"), ("scipy", "files"), ("scipy", "files"))
    assert run(code).splitlines() == [
        f"this needs {package}, which is not installed; run pip install 'nearveil[{extra}]'" for package, extra in needs
    ]


def test_nearby_as_its_page_shows_it() -> None:
    assert "NearbyLedger(people=2" in run(PAGE[0])


def test_nearby_answers_alike_with_and_without_compiled_code() -> None:
    code = """
import json, numpy as np
from nearveil.nearby.index import NearbyIndex, nearest_rows
from nearveil.region import named_region
rng = np.random.default_rng(5)
places = rng.normal(0, 3000, (600, 2)).round(-2)  # many at one distance
index = NearbyIndex(named_region("berlin"), [f"user {row}" for row in range(600)], places)
index.move("user 3", 1.0, 2.0)
index.remove("user 4")
asked = rng.normal(0, 3000, (40, 2)).round(-2)
lists = [index.ranked_metres(x, y, 20, exclude="user 9", within_m=4000.0) for x, y in asked.tolist()]
print(json.dumps([lists, nearest_rows(places, asked, 5).tolist()]))
"""
    plain = json.loads(run(code))
    assert plain == json.loads(run(code, there=("numba",)))
    assert 15 < len(plain[0][0]) <= 20


def test_the_command_starts() -> None:
    assert "nearveil" in run("sys.argv = ['nearveil', '--help']\nfrom nearveil.cli.main import main\nmain()")
