"""Cells are named by all that decides their result, and measure what a slow computation gives."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from nearveil.audit.auditor import audit
from nearveil.audit.claims import paper_claim
from nearveil.audit.pair_search import mechanism_pairs
from nearveil.audit.subjects import MechanismSubject
from nearveil.evaluation import runner
from nearveil.evaluation.attack_experiment import AttackExperiment, AttackProtocol, set_up_attacks
from nearveil.evaluation.cells import (
    AttackCell,
    AuditCell,
    FrontierCell,
    ReleaseCell,
    UtilityCell,
    metric_length_m,
    released,
)
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.runner import Cell
from nearveil.evaluation.utility import ColluderProtocol, ground_distance_m
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.fitting import build_public_intervals
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.types import FloatArray, IntArray
from tests.evaluation.towns import tiny_town

TOWN = tiny_town("town", users=600)
TRUE_M = TOWN.region.to_metres(TOWN.places)
DPRS_30 = Defence(label="DPRS", mechanism="dprs", epsilon=2.0, centres=30)
PLANAR = Defence(label="planar", mechanism="planar-laplace", noise_m=900.0, region="isotropic")
HERE: dict[str, Any] = {"dataset": "town", "seed": 3, "run": 1}
UTILITY = UtilityCell(**HERE, defence=DPRS_30, queries=25)
ATTACK = AttackCell(**HERE, attack="zo-lia", accounts=1, k=10, instances=3, defence=DPRS_30)
CELLS: tuple[Cell, ...] = (
    UTILITY,
    ATTACK,
    FrontierCell(**HERE, defence=PLANAR, queries=5, targets=3),
    AuditCell(**HERE, defence=replace(DPRS_30, region="isotropic"), claim="own", samples=20_000),
)
TIMES = ("seconds",)


class TwinCell(UtilityCell):
    """Has the fields of another kind of cell, and all of them alike."""


def brute_force(
    town: Dataset, published: FloatArray, asked_m: FloatArray, askers: IntArray | None, k: int
) -> dict[str, float]:
    """Every measure, one query after the other; whoever asks is no neighbour."""
    true_m, published_m = (town.region.to_metres(places) for places in (town.places, published))
    recalls, needed, had, squares = [], [], [], []
    for number, (true, seeming) in enumerate(zip(cdist(asked_m, true_m), cdist(asked_m, published_m), strict=True)):
        own = -1 if askers is None else askers[number]
        nearest, listed = ([row for row in np.argsort(far) if row != own][:k] for far in (true, seeming))
        recalls.append(len(set(nearest) & set(listed)) / k)
        needed.append(true[nearest].sum())
        had.append(true[listed].sum())
        squares += list((seeming[nearest] - true[nearest]) ** 2)
    return {
        "recall": float(np.mean(recalls)),
        "ratio": float(np.mean(np.array(needed) / had)),
        "pooled ratio": float(sum(needed) / sum(had)),
        "distance mse": float(np.mean(squares)),
    }


def test_what_a_defence_is_called_does_not_matter() -> None:
    named = replace(UTILITY, defence=replace(DPRS_30, label="another name"))
    assert named == UTILITY
    assert hash(named) == hash(UTILITY)
    assert named.key("here") == UTILITY.key("here")


def test_everything_else_does() -> None:
    changes: list[dict[str, Any]] = [
        {"dataset": "gowalla"}, {"seed": 4}, {"run": 0}, {"queries": 26},
        *({"defence": replace(DPRS_30, **change)} for change in (
            {"epsilon": 2.5}, {"centres": 31}, {"gamma": 0.4}, {"noise": "gaussian"}, {"region": "isotropic"},
            {"centres_from": "public"}, {"release": "interval"}, {"fit_epsilon": 1.0},
        )),
    ]  # fmt: skip
    cells: list[Cell] = [UTILITY, *(replace(UTILITY, **change) for change in changes)]
    cells += [replace(ATTACK, **change) for change in ({}, {"colluders": "published"}, {"k": 11}, {"defence": None})]
    keys = [cell.key("here") for cell in cells]
    assert len(set(keys)) == len(set(cells)) == len(cells)
    assert UTILITY.key("there") not in keys
    # A cell of another kind with the same fields is another measurement.
    assert TwinCell(**HERE, defence=DPRS_30, queries=25).key("here") not in keys


def test_data_and_measuring_code_are_part_of_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = TOWN.places.copy()
    moved[17, 1] += 1e-9
    assert runner.circumstances_of(replace(TOWN, places=moved)) != runner.circumstances_of(TOWN)
    for name in (
        "__init__.py",
        "mechanisms/dprs.py",
        "evaluation/cells.py",
        "cli/b.py",
        "cli/a.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("before", encoding="utf-8")
    monkeypatch.setattr(runner, "nearveil", SimpleNamespace(__file__=str(tmp_path / "__init__.py")))

    def after_changing(name: str) -> str:
        (tmp_path / name).write_text("after", encoding="utf-8")
        return runner.code_fingerprint.__wrapped__()

    before = runner.code_fingerprint.__wrapped__()
    assert after_changing("cli/b.py") == before
    assert after_changing("cli/a.py") == before
    cells = after_changing("evaluation/cells.py")
    assert len({before, cells, after_changing("mechanisms/dprs.py")}) == 3


def test_runs_and_seeds_have_noise_of_their_own_that_attacks_share() -> None:
    seeds = {replace(UTILITY, seed=seed, run=run).run_seed for seed in range(20) for run in range(20)}
    assert len(seeds) == 400
    assert UTILITY.run_seed == ATTACK.run_seed == AttackProtocol(seed=3).seed_of(1)
    assert UTILITY.rng(1).random() == replace(UTILITY, defence=PLANAR).rng(1).random() != UTILITY.rng(2).random()


def without_times(value: Any) -> Iterator[Any]:
    for name, found in value.items():
        if name == "attempts":
            yield from ([*attempt[:4], *attempt[5:]] for attempt in found)
        elif name not in TIMES:
            yield name, found


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: type(cell).__name__)
def test_the_same_cell_gives_the_same(cell: Cell) -> None:
    first, again = (list(without_times(cell.measure(TOWN))) for _ in range(2))
    assert first == again
    other = list(without_times(replace(cell, run=2).measure(TOWN)))
    assert other != first
    assert cell.seconds > 0


def test_utility_by_brute_force() -> None:
    found = UTILITY.measure(TOWN)
    published = DPRS_30.build(TOWN.region, UTILITY.run_seed).fit(TOWN.places).perturb(TOWN.places)
    rng = np.random.default_rng([UTILITY.run_seed, 1])
    region = TOWN.region
    degrees = [region.south, region.west] + rng.random((25, 2)) * [region.height_deg, region.width_deg]
    askers = rng.integers(600, size=25)
    for protocol, asked_m, who in (("uniform", region.to_metres(degrees), None), ("users", TRUE_M[askers], askers)):
        for k in (10, 50):
            for name, value in brute_force(TOWN, published, asked_m, who, k).items():
                assert found[f"{protocol} {name}@{k}"] == pytest.approx(value)
    moved_m = ground_distance_m(TOWN.places, published)
    assert found["displacement_m"] == pytest.approx(moved_m.mean())
    assert found["moved under 100 m"] == pytest.approx((moved_m < 100).mean())


def test_the_best_attacker_by_brute_force() -> None:
    """Planar Laplace far from the edge: the posterior is a list of weights, and its median is found by descent."""
    cell = FrontierCell(**HERE, defence=PLANAR, queries=25, targets=12)
    found = cell.measure(TOWN)
    assert {name: found[name] for name in found if "recall" in name} == {
        name: value for name, value in replace(UTILITY, defence=PLANAR).measure(TOWN).items() if "recall" in name
    }
    published_m = TOWN.region.to_metres(PLANAR.build(TOWN.region, cell.run_seed).perturb(TOWN.places))
    errors, read_off = [], []
    for row in cell.rng(2).choice(600, size=12, replace=False):
        weights = np.exp(-2 * np.hypot(*(TRUE_M - published_m[row]).T) / 900.0)
        guess = published_m[row]
        for _ in range(3000):
            pull = weights / np.maximum(np.hypot(*(TRUE_M - guess).T), 1e-3)
            guess = pull @ TRUE_M / pull.sum()
        errors.append(np.hypot(*(guess - TRUE_M[row])))
        read_off.append(np.hypot(*(published_m[row] - TRUE_M[row])))
    assert found["attacker error_m"] == pytest.approx(np.mean(errors), rel=0.01)
    assert found["read off error_m"] == pytest.approx(np.mean(read_off))
    assert found["attacker acc"] * 12 == pytest.approx(round(found["attacker acc"] * 12))


@pytest.mark.parametrize("defence", [None, DPRS_30, PLANAR], ids=lambda one: one.label if one else "open")
@pytest.mark.parametrize("colluders", ["exact", "published"])
def test_attacks_run_by_run_are_the_attack_experiment(defence: Defence | None, colluders: ColluderProtocol) -> None:
    cells = [replace(ATTACK, run=run, defence=defence, colluders=colluders) for run in range(2)]
    row = cells[0].row(TOWN, [cell.measure(TOWN) for cell in cells])
    protocol = AttackProtocol(runs=2, instances=3, seed=3, published_colluders=colluders == "published")
    mechanism = None if defence is None else defence.build(TOWN.region, 1)
    attack_setup = set_up_attacks(["zo-lia"], TOWN.region, colluders=[], tau_m=100.0)
    (expected,) = AttackExperiment(TOWN, protocol, mechanism).run(attack_setup, [10], cores=1)
    assert replace(row, score=replace(row.score, cost_s=expected.score.cost_s)) == expected
    assert row.score.runs == 2


def test_audits_are_those_of_the_fitted_mechanism() -> None:
    cell = AuditCell(**HERE, defence=replace(DPRS_30, region="isotropic"), claim="paper", samples=20_000)
    found = cell.measure(TOWN)
    mechanism = cell.defence.build(TOWN.region, cell.run_seed).fit(TOWN.places)
    claim = paper_claim(mechanism.guarantee)
    pairs = mechanism_pairs(mechanism, claim)
    report = audit(MechanismSubject(mechanism), claim, pairs, samples=20_000, seed=cell.run_seed)
    assert (found["verdict"], found["at least"], found["claimed"]) == ("violated", report.epsilon_lower, claim.epsilon)
    assert claim.epsilon == pytest.approx(2.0)
    assert found["hits"] > 0.5
    assert found["false hits"] < 0.01
    own = replace(cell, claim="own", defence=replace(cell.defence, release="interval")).measure(TOWN)
    assert own["verdict"] != "violated"


def test_the_three_releases_at_equal_intervals() -> None:
    """At epsilon 5 what is calibrated to the disc keeps more even in a small town. One seed, far from the limit."""
    town = tiny_town("town", users=900)
    cell = ReleaseCell(dataset="town", seed=1, run=0, method="private-grid", epsilon=5.0, queries=60)
    found = cell.measure(town)
    assert found["interval recall@10"] > 1.02 * found["paper recall@10"]
    fit, release, query = np.random.SeedSequence([1, 0]).generate_state(3)
    paper = DPRS(
        release="paper", epsilon=5.0, fit_method="private-grid", region=town.region.with_scaling("isotropic"),
        centres=800, seed=int(fit),
    ).fit(town.places)  # fmt: skip
    true_m = town.region.to_metres(town.places)
    askers = np.random.default_rng(query).integers(900, size=60)
    for name in ("paper", "interval", "metric"):
        mechanism = released(name, paper.intervals_, 5.0, seed=int(release))  # type: ignore[arg-type]
        expected = brute_force(town, mechanism.perturb(town.places), true_m[askers], askers, 10)
        assert found[f"{name} recall@10"] == pytest.approx(expected["recall"])
    assert found["metric noise_m"] == pytest.approx(4 * np.median(paper.intervals_.radii_m) / 2.5)


def test_releases_get_the_half_of_epsilon_that_is_left() -> None:
    intervals = build_public_intervals(region=TOWN.region, centres=31, rng=5)
    metric = released("metric", intervals, 3.0, seed=1)
    across_m = 2 * float(np.median(intervals.radii_m))
    # The other half pays for the intervals.
    assert metric.guarantee.epsilon * across_m == pytest.approx(1.5)
    interval, paper = (released(name, intervals, 3.0, seed=1) for name in ("interval", "paper"))
    assert (interval.chosen_epsilon, paper.chosen_epsilon) == (1.5, 3.0)
    assert metric_length_m(intervals, 4.0) == pytest.approx(metric_length_m(intervals, 1.0) / 4)


def test_epsilon_of_planar_laplace_is_the_loss_between_opposite_corners() -> None:
    mechanism = replace(PLANAR, noise_m=None, epsilon=3.0).build(TOWN.region, 1)
    assert isinstance(mechanism, PlanarLaplace)
    assert mechanism.guarantee.epsilon * 2 * TOWN.region.radius_m == pytest.approx(3.0)
