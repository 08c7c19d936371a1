"""The picture of the demonstration: a map with its coast for each service, and where attacks put people."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import EllipseCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from nearveil.mechanisms.dprs import DPRS
from nearveil.report.before_after import AttackedService, draw_before_after
from nearveil.report.land import land_in
from nearveil.report.style import LIGHT
from tests.report.outcome_samples import CITY, REGION

MISSES = {"GI-LIA": np.array([[0.0, 10.0], [400.0, 300.0]]), "unfolding": np.array([[-20.0, 0.0], [0.0, 9000.0]])}


@pytest.fixture(scope="module")
def figure(tmp_path_factory: pytest.TempPathFactory) -> Figure:
    figures: list[Figure] = []
    picture = tmp_path_factory.mktemp("before-after") / "p.png"
    people = np.random.default_rng(1).normal(REGION.centre, 0.03, (400, 2))
    dprs = DPRS(release="paper", epsilon=1.0, centres=20, region=REGION, seed=1).fit(people)
    services = [
        AttackedService(title="open", found="words " * 12, places=CITY, protected=False, misses_m=MISSES),
        AttackedService(
            title="words " * 12, found="few", places=dprs.perturb(CITY), protected=True, misses_m=MISSES,
            intervals=dprs.current_intervals,
        ),
    ]  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plt, "close", figures.append)
        draw_before_after(services, REGION, picture, title="attacks", tau_m=100.0)
    assert picture.read_bytes().startswith(b"\x89PNG")
    plt.close(figures[0])
    return figures[0]


def test_every_service_has_a_map_with_the_coast(figure: Figure) -> None:
    for axes in figure.axes[:2]:
        water, *land = (to_hex(each.get_facecolor()).upper() for each in axes.patches)
        assert (water, land) == (LIGHT.water, [LIGHT.land] * len(land_in(REGION)))
    discs = [each for axes in figure.axes[:2] for each in axes.collections if isinstance(each, EllipseCollection)]
    assert len(discs) == 1
    assert np.size(discs[0].get_widths()) == 20
