"""The picture of an audit: what it puts where."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.image import imread

from nearveil.audit.claims import Claim
from nearveil.audit.events import DensityScore, HistogramScore, OutputEvent
from nearveil.audit.external import CallableSubject
from nearveil.audit.pair_search import cell_pairs, interval_pairs
from nearveil.audit.pairs import Pair
from nearveil.audit.subjects import MechanismSubject
from nearveil.audit.witness import Counts, Witness
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.region import named_region
from nearveil.report.audit_picture import AuditScene, draw_audit, most_allowed, rates

REGION = named_region("san-francisco")
EVERYTHING = HistogramScore(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(1))


@pytest.fixture(scope="module")
def paper() -> DPRS:
    return DPRS(release="paper", centres=40, region=REGION, seed=1).fit(synthetic_city(3000, REGION, rng=1))


def witness_of(pair: Pair, score: DensityScore | HistogramScore | None = None, threshold: float = 999.0) -> Witness:
    return Witness(
        claim=Claim(PrivacyDefinition.LOCAL, 1.0, 0.0, "everything"), pair=pair,
        event=OutputEvent(score or DensityScore(), threshold, "first"),
        counts=Counts(hits=1000, trials=1000, false_hits=0, false_trials=1000),
        confidence=0.99, events_counted=1, seed=1,
    )  # fmt: skip


def test_places_outputs_and_borders_lie_where_they_do(paper: DPRS) -> None:
    pair = interval_pairs(paper.current_intervals)[0]
    scene = AuditScene(witness_of(pair), MechanismSubject(paper), paper.current_intervals)
    first, second = scene.clouds
    assert math.dist(first.place, second.place) == pytest.approx(pair.distance_m, rel=3e-3)
    assert first.place + second.place == pytest.approx([0, 0], abs=1e-6)
    assert first.hits.all()
    assert not second.hits.any()
    assert scene.discs is not None
    for cloud in scene.clouds:
        inside = np.hypot(*(cloud.outputs[:, None] - scene.discs[:, :2]).transpose(2, 0, 1)) <= scene.discs[:, 2] + 1e-6
        # All outputs of a place are in one and the same disc.
        assert inside.all(axis=0).sum() == 1
    # The border between the two places is drawn, once, half way between them.
    towards = (second.place - first.place) / math.dist(first.place, second.place)
    along = np.abs(scene.borders @ towards).max(axis=1)
    assert (along < 0.1).sum() == 1


def test_rates_and_what_is_allowed() -> None:
    found = witness_of(Pair((37.6, -122.4), (37.7, -122.4), "somewhere"))
    likely, unlikely = rates(found)
    assert (likely.side, unlikely.side) == ("first", "second")
    assert likely.low < likely.share == likely.high == 1.0
    # 0 of 1000, the error shared by the two sides.
    assert unlikely.high == pytest.approx(1 - 0.005 ** (1 / 1000))
    assert most_allowed(found, unlikely) == pytest.approx(math.e * unlikely.high, rel=1e-6)
    assert (likely.low > most_allowed(found, unlikely)) is found.violates
    assert rates(replace(found, event=replace(found.event, direction="second")))[0].side == "second"
    untold = replace(found, claim=Claim(PrivacyDefinition.CENTRAL, 1.0, 0.0, "nothing"))
    assert most_allowed(untold, unlikely) == 1.0


@pytest.mark.parametrize("scaling", ["isotropic", "per-axis"])
def test_cells_are_outlined_where_the_places_and_outputs_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scaling: Literal["isotropic", "per-axis"]
) -> None:
    """The reader can count the steps: each of the two places, and every output, lies in one outline."""
    region = REGION.with_scaling(scaling)
    cells = cells_from_points(synthetic_city(2000, region, rng=1), region, CellPlan(hide_among=200))
    pair, mechanism = cell_pairs(cells)[0], HideAmong(200, cells=cells)
    subjects = (MechanismSubject(mechanism), CallableSubject(mechanism.perturb, region))
    for subject in subjects:
        scene = AuditScene(witness_of(pair, EVERYTHING, -1.0), subject, cells)
        assert scene.cells is not None
        west, south, east, north = scene.cells.T
        for cloud, place in zip(scene.clouds, (pair.first, pair.second), strict=True):
            x, y = np.vstack([cloud.place, cloud.outputs]).T[:, :, None]
            inside = (west <= x) & (x <= east) & (south <= y) & (y <= north)
            assert np.flatnonzero(inside[0]) == cells.find(region.to_square(np.array([place])))
            assert inside.any(axis=1).mean() > 0.999
    drawn: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    draw_audit(witness_of(pair, EVERYTHING, -1.0), subjects[0], tmp_path / "p.png", title="t", learned=cells)
    for axes in drawn[0].axes[:2]:
        (outlines,) = [part for part in axes.collections if isinstance(part, PolyCollection)]
        assert 2 <= len(outlines.get_paths()) <= len(cells)
    assert "a cell" in [text.get_text() for text in drawn[0].legends[0].get_texts()]


def test_it_is_drawn_even_of_one_that_always_gives_the_same_point(paper: DPRS, tmp_path: Path) -> None:
    """The latter has no spread at all, no density, and an event that covers everything."""
    pair = interval_pairs(paper.current_intervals)[0]
    draw_audit(witness_of(pair), MechanismSubject(paper), tmp_path / "a", title="t", learned=paper.current_intervals)
    same = CallableSubject(lambda points, _rng: points * 0 + [37.7, -122.4], REGION)
    draw_audit(witness_of(pair, EVERYTHING, -1.0), same, tmp_path / "b", title="INCONCLUSIVE")
    for path in tmp_path.iterdir():
        image = imread(path, format="png")
        assert image.shape[1] > 1200
        assert image.std() > 0.05
