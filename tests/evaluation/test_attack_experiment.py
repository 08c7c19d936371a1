"""Attacks on a population: the same for any number of cores, fair targets, and the best attacker beside them."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nearveil import PlanarLaplace
from nearveil.attacks.registry import ATTACKS
from nearveil.errors import UsageError
from nearveil.evaluation import attack_experiment
from nearveil.evaluation.attack_experiment import (
    AttackExperiment,
    AttackProtocol,
    draw_instances,
    instances_of_person,
    set_up_attacks,
)
from nearveil.evaluation.best_attacker import measure_best_attacker
from nearveil.io.datasets import Dataset
from nearveil.region import Region
from nearveil.types import FloatArray


@pytest.fixture
def town(san_francisco: Region, city: FloatArray) -> Dataset:
    return Dataset("town", san_francisco, city)


@pytest.mark.evidence
def test_rows_do_not_depend_on_the_number_of_cores(town: Dataset) -> None:
    protocol = AttackProtocol(runs=1, instances=1, seed=5)
    experiment = AttackExperiment(town, protocol, PlanarLaplace(noise_m=300, region=town.region))
    setups = set_up_attacks(["gi-lia", "adaptive"], town.region, colluders=[1], tau_m=100.0)
    alone, together = (
        [
            (row.attack, row.k, row.score.dist_m, row.score.queries)
            for row in experiment.run(setups, [5, 10], cores=cores)
        ]
        for cores in (1, 2)
    )
    assert alone == together
    assert [row[:2] for row in alone] == [("gi-lia", 5), ("adaptive", 5), ("gi-lia", 10), ("adaptive", 10)]


def test_targets_are_the_kth_in_the_list_at_the_start_or_the_user_asked_for(town: Dataset) -> None:
    experiment = AttackExperiment(town, AttackProtocol(runs=1, instances=5), None)
    for person in (None, 42):
        for one in experiment.instances(0, 7, person):
            distances = np.hypot(*(experiment.true_m - one.start).T)
            assert distances.min() <= 100.0
            before = (distances < distances[one.target]).sum()
            assert before == 6 if person is None else (one.target == 42 and before < 7)


class ListsAfter:
    """A service that lists user 3, and only from the given query on."""

    def __init__(self, silent: int) -> None:
        self.silent = silent

    def oracle(self, **_: Any) -> Any:
        def nearby(_start: object) -> list[int]:
            self.silent -= 1
            return [] if self.silent >= 0 else [3]

        return SimpleNamespace(nearby=nearby)


def test_the_last_start_that_is_tried_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack_experiment, "_MOST_STARTS", 4)
    options: Any = {"k": 1, "count": 1, "rng": np.random.default_rng(1)}
    (found,) = draw_instances(ListsAfter(4), np.zeros((5, 2)), **options)  # type: ignore[arg-type]
    assert found.target == 3
    with pytest.raises(UsageError, match="lists nobody"):
        draw_instances(ListsAfter(5), np.zeros((5, 2)), **options)  # type: ignore[arg-type]


def test_no_start_counts_twice_where_starts_are_rare(town: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20 * 5 starts that are tried the last two list the user; the interval is that of two attacks in each run."""
    options: Any = {"k": 1, "count": 5, "rng": np.random.default_rng(1)}
    found = instances_of_person(ListsAfter(98), np.zeros((9, 2)), 3, **options)  # type: ignore[arg-type]
    assert len(found) == len(set(found)) == 2
    with pytest.raises(UsageError, match="listed from no place"):
        instances_of_person(ListsAfter(100), np.zeros((9, 2)), 3, **options)  # type: ignore[arg-type]
    experiment = AttackExperiment(town, AttackProtocol(runs=2, instances=3), None)
    drawn = [experiment.instances(run, 5, 42)[:fewer] for run, fewer in ((0, 3), (1, 2))]
    monkeypatch.setattr(experiment, "instances", lambda run, _k, _person: drawn[run])
    setups = set_up_attacks(["gi-lia"], town.region, colluders=[1], tau_m=100.0)
    (row,) = experiment.run(setups, [5], person=42, cores=1)
    assert (row.score.runs, row.score.instances, row.score.acc.value) == (2, 2, 1.0)


def test_runs_are_published_anew_and_the_best_attacker_guesses_from_the_first(town: Dataset) -> None:
    """Reading off the published location is wrong by 300 m on average, and within 100 m in about 0.14 of cases."""
    protocol = AttackProtocol(runs=2, instances=1)
    assert measure_best_attacker(AttackExperiment(town, protocol, None)) is None
    experiment = AttackExperiment(town, protocol, PlanarLaplace(noise_m=300, region=town.region))
    assert (experiment.service(0).places != experiment.service(1).places).any(axis=1).all()
    best = measure_best_attacker(experiment, targets=400)
    assert best is not None
    assert best.dist_m.value < 300
    assert best.found.value > 0.15
    # The tenths of density together are everybody who is guessed.
    assert best.targets == 400 == sum(tenth.targets for tenth in best.tenths)
    for of in ("named", "found"):
        parts = [getattr(tenth, of).value * tenth.targets for tenth in best.tenths]
        assert sum(parts) == pytest.approx(getattr(best, of).value * best.targets)
    assert best.tenths[-1].named.value > best.tenths[0].named.value


@pytest.mark.parametrize("wrong", [{"runs": 0}, {"instances": 0}, {"tau_m": 0.0}, {"tau_m": math.nan}])
def test_wrong_protocols(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        AttackProtocol(**wrong)  # type: ignore[arg-type]


def test_attacks_by_name(san_francisco: Region) -> None:
    found = set_up_attacks(tuple(ATTACKS), san_francisco, colluders=[1, 4], tau_m=50.0)
    accounts = [(one.attack.name, one.colluders) for one in found]
    assert accounts == [("gi-lia", 1), ("zo-lia", 1), ("adaptive", 1), ("adaptive", 4), ("unfolding", 0)]
    for colluders, tau_m, name in (([0], 100.0, "adaptive"), ([1], 0.0, "adaptive"), ([1], 100.0, "magic")):
        with pytest.raises(UsageError):
            set_up_attacks([name], san_francisco, colluders=colluders, tau_m=tau_m)
