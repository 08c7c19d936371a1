"""The picture of the demonstration: a map with its coast for each service, and where attacks put its users."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import EllipseCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from nearveil.mechanisms.dprs import DPRS
from nearveil.region import named_region
from nearveil.report.before_after import AttackedService, draw_before_after
from nearveil.report.land import land_in
from nearveil.report.style import LIGHT

REGION = named_region("san-francisco")
MISSES = {"GI-LIA": np.array([[0.0, 10.0], [400.0, 300.0]]), "unfolding": np.array([[-20.0, 0.0], [0.0, 9000.0]])}


def test_every_service_has_a_map_with_the_coast_and_the_misses_of_each_attack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = np.random.default_rng(1).normal(REGION.centre, 0.03, (400, 2))
    dprs = DPRS(release="paper", epsilon=1.0, centres=20, region=REGION, seed=1).fit(people)
    published, discs = dprs.perturb(people), dprs.current_intervals
    rest: dict[str, Any] = {"title": "t", "found": "f", "misses_m": MISSES}
    services = [
        AttackedService(places=people, protected=False, **rest),
        AttackedService(places=published, protected=True, intervals=discs, **rest),
    ]
    drawn: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    draw_before_after(services, REGION, tmp_path / "p.png", title="attacks", tau_m=100.0)
    (figure,) = drawn
    for axes in figure.axes[:2]:
        water, *land = (to_hex(each.get_facecolor()).upper() for each in axes.patches)
        assert (water, land) == (LIGHT.water, [LIGHT.land] * len(land_in(REGION)))
    (circles,) = [each for axes in figure.axes[:2] for each in axes.collections if isinstance(each, EllipseCollection)]
    assert np.size(circles.get_widths()) == 20
    for axes in figure.axes[2:]:
        # What is off by 9 km is counted, not drawn.
        assert [len(line.get_xdata()) for line in axes.lines] == [2, 1, 100]  # type: ignore[arg-type]
        assert [text.get_text() for text in axes.texts] == ["1 more beyond the edge"]
