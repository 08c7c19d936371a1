"""Mechanisms work inside scikit-learn, and without it."""

import subprocess
import sys

import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from nearveil import DPRS, SRR, AxisLaplace, Mechanism, PlanarLaplace, Square, UsageError
from nearveil.types import FloatArray

MECHANISMS = [
    DPRS(release="interval", centres=50, seed=1, region="san-francisco"),
    PlanarLaplace(seed=1),
    AxisLaplace(seed=1, region="san-francisco"),
    SRR(cells=[(0, 0), (3, 4), (5, 5)], seed=1, region="san-francisco"),
    Square(seed=1, region="san-francisco"),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: type(mechanism).__name__)
def test_clone_pipeline_and_tags(mechanism: Mechanism, city: FloatArray) -> None:
    copy = clone(mechanism)
    assert copy is not mechanism and copy.get_params() == mechanism.get_params()
    pipeline = Pipeline([("hide", copy), ("count", KMeans(3, n_init=1, random_state=0))])
    assert len(pipeline.fit_predict(city)) == len(city)
    assert (clone(mechanism).fit_transform(city) == clone(mechanism).fit(city).perturb(city)).all()
    assert get_tags(mechanism).estimator_type == "transformer"
    assert not get_tags(pipeline).target_tags.required


def test_set_params_checks_and_forgets_what_was_fitted(city: FloatArray) -> None:
    dprs = DPRS(centres=50, region="san-francisco").fit(city)
    assert dprs.set_params(epsilon=2.0).epsilon == 2.0
    assert not hasattr(dprs, "intervals_")
    with pytest.raises(UsageError, match="epsilon"):
        dprs.set_params(epsilon=-1)
    with pytest.raises(UsageError, match="no parameter 'epsilonn'"):
        dprs.set_params(epsilonn=1)


def test_scikit_learn_is_not_needed() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None\nimport nearveil, nearveil.cli.main\n"
        "for verb in nearveil.cli.main.VERBS: nearveil.cli.main.nearveil.get_command(None, verb)\n"
        "print(nearveil.PlanarLaplace())"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "noise_m=500.0" in result.stdout
