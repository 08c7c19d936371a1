"""Audits by steps: what an elastic claim allows, where pairs are, and witnesses whose steps are counted again."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.auditing.judged import REGION, falling_faster, hiding_among_200

import nearveil as nv
from nearveil.auditing.auditor import AuditReport, Verdict, audit
from nearveil.auditing.check import check_witness
from nearveil.auditing.claims import Claim, claim_from_json, own_claim, parse_claim
from nearveil.auditing.pair_search import (
    audit_pairs,
    cell_pairs,
    channel_pairs,
    mechanism_pairs,
    place_pairs,
    with_steps,
)
from nearveil.auditing.pairs import Pair, pair_from_dict
from nearveil.auditing.witness import Witness, witness_from_json
from nearveil.errors import DataError, UsageError
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.cell_steps import graph_of, steps_from
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.randomness import RowKeystream
from nearveil.region import Region
from nearveil.types import FloatArray

pytestmark = pytest.mark.statistical

NEAR = Pair((37.70, -122.40), (37.71, -122.40), "one above the other", steps=2.5)
ELASTIC = Claim(PrivacyDefinition.ELASTIC, 1.5, 0.0, "a test's claim")


def test_an_elastic_claim_counts_steps() -> None:
    assert ELASTIC.claimed_loss(NEAR) == pytest.approx(3.75)
    assert ELASTIC.epsilon_of(3.75, NEAR) == pytest.approx(1.5)
    assert ELASTIC.unit == "per step"
    unknown = replace(NEAR, steps=None)
    assert ELASTIC.claimed_loss(unknown) is None
    assert ELASTIC.epsilon_of(3.0, unknown) == 0.0


def test_two_places_of_one_cell_may_lose_nothing_but_the_offset() -> None:
    together, with_offset = replace(NEAR, steps=0.0), replace(ELASTIC, offset=2.0)
    assert ELASTIC.claimed_loss(together) == pytest.approx(0.0, abs=1e-8)
    assert ELASTIC.epsilon_of(0.0, together) == 0.0
    assert ELASTIC.epsilon_of(0.1, together) == math.inf
    assert with_offset.claimed_loss(together) == pytest.approx(2.0)
    assert with_offset.epsilon_of(1.9, together) == 0.0
    assert "two places of one cell" in ELASTIC.shown(math.inf)


def test_an_elastic_claim_is_read_and_written() -> None:
    claim = parse_claim("elastic:1.5+2:1e-6")
    assert (claim.definition, claim.epsilon, claim.offset, claim.delta) == (PrivacyDefinition.ELASTIC, 1.5, 2.0, 1e-6)
    assert claim.amount == "epsilon = 1.5 per step + 2"
    assert claim_from_json(json.dumps(claim.to_dict())).offset == 2.0
    with pytest.raises(UsageError, match="not per distance in metres"):
        parse_claim("elastic:1.5/km")
    with pytest.raises(DataError, match="per step"):
        claim_from_json('{"definition": "elastic", "epsilon": 1, "unit": "per meter"}')


def test_pairs_lie_where_a_violation_would_show() -> None:
    mechanism = hiding_among_200()
    cells, claim = mechanism.current_cells, own_claim(mechanism.guarantee)
    pairs = mechanism_pairs(mechanism, claim)
    kinds = " | ".join(pair.kind for pair in pairs)
    for word in ("certificate", "largest bound", "differ most", "smallest", "two of the largest", "unequal", "one of"):
        assert word in kinds
    for pair in pairs:
        ends = mechanism.enter(np.array([pair.first, pair.second]))
        assert cells.region.contains([pair.first, pair.second]).all()
        source, target = cells.find(ends)
        assert pair.steps == steps_from(cells, int(source))[target]
    by_kind = {pair.kind: pair for pair in pairs}
    certified = by_kind["that the certificate names"]
    assert str(certified).startswith(f"two places 3,710 m and {certified.steps:g} step apart")
    for kind, pair in by_kind.items():
        neighbors = "neighboring cells" in kind and "farther" not in kind
        assert not neighbors or 0.9 < (pair.steps or 0) < 1.5
        assert "corners of one of" not in kind or pair.steps == 0
    assert {round(pair.steps or 0) for kind, pair in by_kind.items() if "farther" in kind} == {2, 3}
    assert {round(pair.steps or 0) for pair in with_steps(cell_pairs(cells), cells)} >= {0, 1, 2}


def test_the_pairs_by_its_own_numbers_attain_the_bound() -> None:
    """The edges with the largest bounds lose as much, from one of their places."""
    mechanism = hiding_among_200()
    pairs = with_steps(channel_pairs(mechanism.channel, mechanism.guarantee.epsilon), mechanism.current_cells)
    for pair in pairs:
        first, second = mechanism.enter(np.array([pair.first, pair.second]))
        loss = float(mechanism.log_density(first, first) - mechanism.log_density(second, first))
        if "bound" in pair.kind or "certificate" in pair.kind:
            back = float(mechanism.log_density(second, second) - mechanism.log_density(first, second))
            assert max(loss, back) / (pair.steps or 1) == pytest.approx(mechanism.guarantee.epsilon, rel=1e-3)
    assert len(graph_of(mechanism.current_cells).edges[0]) > len(pairs)


def test_pairs_around_a_place_are_few_steps_away() -> None:
    cells = hiding_among_200().current_cells
    for place in (REGION.centre, (REGION.south, REGION.west), (37.77, -122.42)):
        pairs = place_pairs(REGION, place, ELASTIC, cells)
        assert [round(pair.steps or 0) for pair in pairs] == [0, 1, 2, 3]
        assert all(pair.first == place and pair.distance_m > 1 for pair in pairs)


def test_steps_survive_json() -> None:
    assert pair_from_dict(NEAR.to_dict()) == NEAR
    for wrong in (-1.0, math.nan):
        with pytest.raises(ValueError, match="steps"):
            pair_from_dict({**NEAR.to_dict(), "steps": wrong})


def test_without_cells_an_elastic_claim_is_inconclusive() -> None:
    report = nv.audit(nv.PlanarLaplace(noise_m=500), "elastic:1.5", samples=20_000, seed=1)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "an elastic one the cells" in report.explanation


@pytest.fixture(scope="module")
def violated() -> AuditReport:
    """Half of the loss is claimed."""
    report = nv.audit(hiding_among_200(), "elastic:0.6", samples=60_000, seed=1)
    assert report.verdict is Verdict.VIOLATED
    return report


def test_a_witness_is_checked_with_steps_counted_again(violated: AuditReport, tmp_path: Path) -> None:
    """Also if the file says that the places are nearer than they are, where a violation would be easier to show."""
    assert violated.witness is not None
    document = json.loads(violated.witness.to_json())
    assert document["pair"]["steps"] == violated.witness.pair.steps
    document["pair"]["steps"] = 0.001
    path = tmp_path / "witness.json"
    path.write_text(json.dumps(document))
    check = check_witness(path, samples=60_000, seed=2)
    assert check.verdict is Verdict.VIOLATED
    assert isinstance(check.witness, Witness)
    assert check.witness.pair.steps == violated.witness.pair.steps
    assert violated.claim.epsilon < check.epsilon_lower < 1.3
    # So few steps would make a claim that is true look violated.
    document["claim"]["epsilon"] = hiding_among_200().guarantee.epsilon
    path.write_text(json.dumps(document))
    assert check_witness(path, samples=60_000, seed=2).verdict is not Verdict.VIOLATED


def publish_faster(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    return falling_faster().rescaled(0.7).perturb(points, rng)


def test_a_mechanism_from_outside_is_audited_by_cells() -> None:
    cells = hiding_among_200().current_cells
    claim = own_claim(hiding_among_200().guarantee)
    found = audit(publish_faster, claim, learned=cells, samples=200_000, seed=1)
    assert found.verdict is Verdict.VIOLATED
    sound = audit(hiding_among_200().perturb, claim, learned=cells, samples=100_000, seed=1)
    assert sound.verdict is Verdict.CONSISTENT
    with pytest.raises(UsageError, match="another region"):
        audit(publish_faster, claim, learned=cells, region=Region(0.0, 0.0, 1.0, 1.0), samples=2_000)
    pairs = audit_pairs(REGION, claim, cells)
    assert all(pair.steps is not None for pair in pairs)


def test_the_steps_of_a_witness_are_those_of_its_cells_and_no_others(violated: AuditReport, tmp_path: Path) -> None:
    """The digest is of the boundaries: other counts of people make the same steps, one cell more makes others."""
    cells, witness = hiding_among_200().current_cells, violated.witness
    assert witness is not None
    assert witness.cells == cells.digest == json.loads(witness.to_json())["cells"]
    assert replace(cells, people=cells.people + 1).digest == cells.digest
    cells.save(tmp_path / "cells.geojson")
    assert nv.load_cells(tmp_path / "cells.geojson").digest == cells.digest
    others = [
        nv.cells_from_points(synthetic_city(500, REGION, rng=seed), REGION, nv.CellPlan(hide_among=200))
        for seed in (1, 2)
    ]
    assert len({cells.digest, *(other.digest for other in others)}) == 3
    assert witness_from_json(witness.to_json()).cells == cells.digest
    with pytest.raises(DataError, match="not a witness file"):
        witness_from_json(json.dumps({**json.loads(witness.to_json()), "cells": 7}))
    metric = nv.audit(nv.PlanarLaplace(noise_m=500), "metric:2/km", samples=20_000, seed=1)
    assert metric.witness is not None
    assert metric.witness.cells is None


class KeepsTheHalfOfTheCell(HideAmong):
    """Where the own cell is drawn, what is published lies in the half of it that the true place is in."""

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        drawn, cells = super().draw(x, rows), self.current_cells
        own = cells.find(x)
        middle = cells.centres[own]
        other_half = (cells.find(drawn) == own) & ((drawn > middle) != (x > middle))[:, 0]
        mirrored = np.column_stack([2 * middle[:, 0] - drawn[:, 0], drawn[:, 1]])
        return np.where(other_half[:, None], mirrored, drawn)


def test_a_place_that_shows_within_its_cell_is_found() -> None:
    """No density says so: places of one cell have the same. No epsilon allows it, and JSON has no infinity."""
    sound = hiding_among_200()
    report = nv.audit(
        KeepsTheHalfOfTheCell(200, cells=sound.current_cells, calibration=sound.channel.calibration),
        samples=200_000,
        seed=1,
    )
    assert report.verdict is Verdict.VIOLATED
    assert report.witness is not None
    assert report.witness.pair.steps == 0
    assert report.epsilon_lower == math.inf
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["epsilon_lower"] is None
