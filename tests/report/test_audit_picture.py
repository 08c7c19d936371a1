"""The picture of an audit: what it puts where."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from nearveil.auditing.claims import Claim
from nearveil.auditing.events import DensityScore, HistogramScore, OutputEvent
from nearveil.auditing.external import CallableSubject
from nearveil.auditing.pair_search import interval_pairs
from nearveil.auditing.pairs import Pair
from nearveil.auditing.subjects import MechanismSubject
from nearveil.auditing.witness import Counts, Witness
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.dprs import DPRS
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
    # The border between the two locations is drawn half way between them: a side of both cells.
    towards = (second.place - first.place) / math.dist(first.place, second.place)
    assert sum((np.abs(corners @ towards) < 0.1).sum() == 2 for corners in scene.borders) == 2


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
