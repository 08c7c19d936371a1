"""Experiments: the same for any number of cores, the same targets for every attack, and protection that shows."""

import math

import numpy as np
import pytest

from nearveil import PlanarLaplace
from nearveil.attacks.registry import ATTACKS
from nearveil.errors import UsageError
from nearveil.evaluation.attack_experiment import AttackExperiment, AttackProtocol, Trial, set_up_attacks
from nearveil.evaluation.best_attacker import _groups, measure_best_attacker
from nearveil.io.datasets import Dataset
from nearveil.region import Region
from nearveil.types import FloatArray


@pytest.fixture
def town(san_francisco: Region, city: FloatArray) -> Dataset:
    return Dataset("town", san_francisco, city)


@pytest.mark.evidence
def test_rows_do_not_depend_on_the_number_of_cores(town: Dataset, san_francisco: Region) -> None:
    protocol = AttackProtocol(runs=1, instances=1, seed=5, published_colluders=True)
    mechanism = PlanarLaplace(noise_m=300, region=san_francisco)
    experiment = AttackExperiment(town, protocol, mechanism)
    attack_setups = set_up_attacks(["gi-lia", "adaptive"], san_francisco, colluders=[1], tau_m=100.0)
    alone, together = (experiment.run(attack_setups, [5, 10], cores=cores) for cores in (1, 2))
    for one, other in zip(alone, together, strict=True):
        assert (one.attack, one.k, one.colluders) == (other.attack, other.k, other.colluders)
        assert one.score.dist_m == other.score.dist_m
        assert one.score.queries == other.score.queries
    assert [(row.attack, row.k) for row in alone] == [
        ("gi-lia", 5), ("adaptive", 5), ("gi-lia", 10), ("adaptive", 10),
    ]  # fmt: skip


def test_targets_are_the_kth_in_the_list_at_the_start(town: Dataset) -> None:
    experiment = AttackExperiment(town, AttackProtocol(runs=1, instances=20), None)
    for one in experiment.instances(0, 7):
        distances = np.sort(np.hypot(*(experiment.true_m - one.start).T))
        assert math.dist(one.start, experiment.true_m[one.target]) == pytest.approx(distances[6])
        assert distances[0] <= 100.0


def test_a_person_is_attacked_from_places_where_they_are_listed(town: Dataset) -> None:
    experiment = AttackExperiment(town, AttackProtocol(runs=1, instances=5), None)
    for one in experiment.instances(0, 7, person=42):
        assert one.target == 42
        distances = np.hypot(*(experiment.true_m - one.start).T)
        assert (distances < distances[42]).sum() < 7


def test_published_accounts_mislead(town: Dataset, san_francisco: Region) -> None:
    """With exact accounts GI-LIA finds the published place; with published ones it does not."""
    mechanism = PlanarLaplace(noise_m=300, region=san_francisco)
    attack_setups = set_up_attacks(["gi-lia"], san_francisco, colluders=[1], tau_m=100.0)
    errors = {}
    for published in (False, True):
        protocol = AttackProtocol(runs=1, instances=20, published_colluders=published)
        experiment = AttackExperiment(town, protocol, mechanism)
        trial = Trial(experiment.setup(0), attack_setups[0], 10, experiment.instances(0, 10))
        served_m = experiment.setup(0).served_m
        errors[published] = np.median(
            [
                math.dist(result.estimate or one.start, served_m[one.target])
                for one, result in zip(trial.instances, trial.run(), strict=True)
            ]
        )
    assert errors[False] < 1
    assert errors[True] > 100


def test_runs_are_published_anew(town: Dataset, san_francisco: Region) -> None:
    mechanism = PlanarLaplace(noise_m=300, region=san_francisco)
    experiment = AttackExperiment(town, AttackProtocol(runs=2, instances=1), mechanism)
    first, second = (experiment.published(run).served for run in (0, 1))
    assert (first != second).any(axis=1).all()


def test_the_best_attacker_is_beside_protected_people_only(town: Dataset, san_francisco: Region) -> None:
    assert measure_best_attacker(AttackExperiment(town, AttackProtocol(runs=1, instances=1), None)) is None
    mechanism = PlanarLaplace(noise_m=300, region=san_francisco)
    best = measure_best_attacker(AttackExperiment(town, AttackProtocol(runs=1, instances=1), mechanism), targets=400)
    assert best is not None
    # Reading off the published place is wrong by 300 m on average, and within 100 m in about 0.14 of cases.
    assert best.dist_m.value < 300
    assert best.acc > 0.15
    # The tenths of density together are everybody who is guessed.
    assert best.targets == 400 == sum(tenth.targets for tenth in best.tenths)
    for of in ("named", "found"):
        parts = [getattr(tenth, of).value * tenth.targets for tenth in best.tenths]
        assert sum(parts) == pytest.approx(getattr(best, of).value * best.targets)
    assert best.named_sparsest is not None
    assert best.named_sparsest.value > best.tenths[0].named.value


def test_known_people_are_never_targets_and_everybody_else_is_once() -> None:
    for people, share, targets in ((1000, 0.9, 1000), (1000, 0.9, 250), (1000, 0.35, 1000), (50, 0.96, 50)):
        groups = _groups(people, share, targets, np.random.default_rng(1))
        guessed = np.concatenate([group.targets for group in groups])
        assert len(np.unique(guessed)) == len(guessed) == targets
        for group in groups:
            assert len(np.unique(group.unknown)) == round((1 - share) * people)
            assert np.isin(group.targets, group.unknown).all()


@pytest.mark.parametrize("wrong", [{"runs": 0}, {"instances": 0}, {"tau_m": 0.0}, {"tau_m": math.nan}])
def test_wrong_protocols(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        AttackProtocol(**wrong)  # type: ignore[arg-type]


def test_contenders_by_name(san_francisco: Region) -> None:
    found = set_up_attacks(("gi-lia", "adaptive", "unfolding"), san_francisco, colluders=[1, 4], tau_m=50.0)
    assert [(one.attack.name, one.colluders) for one in found] == [
        ("gi-lia", 1), ("adaptive", 1), ("adaptive", 4), ("unfolding", 0),
    ]  # fmt: skip
    everything = set_up_attacks(tuple(ATTACKS), san_francisco, colluders=[1], tau_m=50.0)
    assert [one.attack.name for one in everything] == list(ATTACKS)
    for colluders, tau_m, name in (([0], 100.0, "adaptive"), ([1], 0.0, "adaptive"), ([1], 100.0, "magic")):
        with pytest.raises(UsageError):
            set_up_attacks([name], san_francisco, colluders=colluders, tau_m=tau_m)
