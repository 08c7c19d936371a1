"""Attacks on a population: fair targets, how they are scored, by hand, and the best attacker beside them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nearveil import DPRS, PlanarLaplace
from nearveil.attacks.base import AttackResult, Outcome
from nearveil.attacks.registry import ATTACKS
from nearveil.errors import UsageError
from nearveil.evaluation.attack_experiment import (
    AttackExperiment,
    AttackProtocol,
    Attempt,
    Instance,
    compare,
    draw_instances,
    instances_of_person,
    score_attempts,
    set_up_attacks,
)
from nearveil.evaluation.stats import share_over_runs
from nearveil.evaluation.tradeoff import measure_best_attacker
from nearveil.io.datasets import Dataset, DatasetName, load_dataset
from nearveil.region import Region
from nearveil.types import FloatArray


@pytest.fixture
def town(san_francisco: Region, city: FloatArray) -> Dataset:
    return Dataset("town", san_francisco, city)


@pytest.mark.evidence
def test_rows_do_not_depend_on_the_number_of_cores(town: Dataset) -> None:
    protocol = AttackProtocol(runs=1, instances=1, seed=5)
    experiment = AttackExperiment(town, protocol, PlanarLaplace(noise_m=300, region=town.region))
    setups = set_up_attacks(["gi-lia", "adaptive"], town.region, accounts=[1], tau_m=100.0)
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


def test_no_start_counts_twice_where_starts_are_rare(town: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20 * 5 starts that are tried the last two list the user; the interval is that of two attacks in each run."""
    options: Any = {"k": 1, "count": 5, "rng": np.random.default_rng(1)}
    found = instances_of_person(ListsAfter(98), np.zeros((9, 2)), 3, **options)  # type: ignore[arg-type]
    assert len(found) == len(set(found)) == 2
    with pytest.raises(UsageError, match="listed from no place"):
        instances_of_person(ListsAfter(100), np.zeros((9, 2)), 3, **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="lists nobody"):
        draw_instances(ListsAfter(999), np.zeros((5, 2)), **options)  # type: ignore[arg-type]
    experiment = AttackExperiment(town, AttackProtocol(runs=2, instances=3), None)
    drawn = [experiment.instances(run, 5, 42)[:fewer] for run, fewer in ((0, 3), (1, 2))]
    monkeypatch.setattr(experiment, "instances", lambda run, _k, _person: drawn[run])
    setups = set_up_attacks(["gi-lia"], town.region, accounts=[1], tau_m=100.0)
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
    assert best.targets == 400
    assert best.named_sparsest is not None
    assert best.named_sparsest.value > 1.5 * best.named.value


def test_attacks_by_name(san_francisco: Region) -> None:
    found = set_up_attacks(tuple(ATTACKS), san_francisco, accounts=[1, 4], tau_m=50.0)
    pairs = [(one.attack.name, one.accounts) for one in found]
    assert pairs == [("gi-lia", 1), ("zo-lia", 1), ("adaptive", 1), ("adaptive", 4), ("unfolding", 0)]
    for accounts, tau_m, name in (([0], 100.0, "adaptive"), ([1], 0.0, "adaptive"), ([1], 100.0, "magic")):
        with pytest.raises(UsageError):
            set_up_attacks([name], san_francisco, accounts=accounts, tau_m=tau_m)


def attempt(estimate: tuple[float, float] | None, **options: Any) -> Attempt:
    """An attack on a user at the origin, whom the service has at (300, 400), from 100 m north of it."""
    result = AttackResult(
        attack="gi-lia", outcome=Outcome.FOUND, estimate=estimate, seconds=0.5, **{"queries": 7} | options
    )
    region = SimpleNamespace(half_extent_m=(5000.0, 5000.0))
    service: Any = SimpleNamespace(served_m=np.array([[300.0, 400.0]]), region=region)
    return compare(result, Instance((0.0, 100.0), 0), service, true_m=np.zeros((1, 2)))


def test_errors_are_to_the_user_and_to_where_the_service_has_it() -> None:
    """Who believes nothing is at the start, and nobody is outside the region."""
    found = attempt((300.0, 400.0))
    assert (found.error_m, found.served_error_m) == (500.0, 0.0)
    assert (attempt(None).error_m, attempt((90_000.0, 0.0)).error_m) == (100.0, 5000.0)


def test_a_score_counts_false_certificates_of_the_served_location_and_radii_that_hold() -> None:
    runs = [
        [attempt((300.0, 400.0), certified=True), attempt((0.0, 0.0), certified=True, queries=9, radius_m=600.0)],
        [attempt((0.0, 50.0), radius_m=10.0), attempt(None)],
    ]
    score = score_attempts(runs, tau_m=100.0)
    assert (score.runs, score.instances) == (2, 2)
    assert score.dist_m.value == pytest.approx((500 + 0 + 50 + 100) / 4)
    assert score.queries.value == 7.5
    assert score.queries_p95 == pytest.approx(np.percentile([7, 9, 7, 7], 95))
    assert score.acc == share_over_runs([1, 2], 2)
    assert score.acc_served == share_over_runs([1, 0], 2)
    assert score.certified == share_over_runs([2, 0], 2)
    assert score.false_certificates == 1
    assert (score.radius_m, score.radius_held) == (305.0, 0.5)
    nobody = score_attempts([[attempt(None)]], tau_m=100.0)
    assert (nobody.radius_m, nobody.radius_held) == (None, None)


@pytest.mark.realdata
def test_users_are_found_unless_they_are_protected(real_data_folder: Path) -> None:
    dataset, protocol = load_dataset(DatasetName.BRIGHTKITE, real_data_folder), AttackProtocol(runs=1, instances=10)
    attacks = ("gi-lia", "zo-lia", "adaptive", "unfolding")
    setups = set_up_attacks(attacks, dataset.region, accounts=[1, 4], tau_m=100.0)
    rows = AttackExperiment(dataset, protocol, None).run(setups, [10], cores=1)
    gi, zo, one, four, none = (row.score for row in rows)
    assert min(gi.acc.value, none.acc.value) >= 0.9
    assert zo.acc.value >= 0.8
    for score in (one, four):
        assert (score.acc.value, score.certified.value, score.false_certificates) == (1.0, 1.0, 0)
    assert four.queries.value < one.queries.value < gi.queries.value / 2 < zo.queries.value / 2
    dprs = DPRS(release="paper", epsilon=1.0, centres=800, region=dataset.region)
    for row in AttackExperiment(dataset, protocol, dprs).run(setups, [10], cores=1):
        assert row.score.acc.value <= 0.1
        assert row.score.false_certificates == 0
