"""What attacks are made of: fair targets, attempts beside the truth by hand, and what the best attacker gets."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nearveil import DPRS, PlanarLaplace
from nearveil.attacks.base import AttackResult, Outcome
from nearveil.errors import UsageError
from nearveil.evaluation.attack_experiment import (
    Attempt,
    Instance,
    compare,
    draw_instances,
    instances_of_person,
    run_attacks,
    set_up_attacks,
)
from nearveil.evaluation.population import attack_population
from nearveil.evaluation.simulation import Simulation, simulate
from nearveil.io.datasets import DatasetName, load_dataset
from nearveil.region import Region
from nearveil.types import FloatArray


@pytest.fixture
def town(san_francisco: Region, city: FloatArray) -> Simulation:
    return simulate(city, region=san_francisco, k=7)


@pytest.mark.evidence
def test_results_do_not_depend_on_the_number_of_cores(town: Simulation) -> None:
    setups = set_up_attacks(["gi-lia", "adaptive"], town.service.region, accounts=[1], tau_m=100.0)
    tasks = [(town.service, one, town.k, town.instances(3)) for one in setups]
    alone, together = (
        [[(each.estimate, each.queries) for each in results] for results in run_attacks(tasks, cores=cores)]
        for cores in (1, 2)
    )
    assert alone == together


def test_targets_are_the_kth_in_the_list_at_the_start_or_the_user_asked_for(town: Simulation) -> None:
    for target in (None, 42):
        for one in town.instances(5, target):
            distances = np.hypot(*(town.true_m - one.start).T)
            assert distances.min() <= 100.0
            before = (distances < distances[one.target]).sum()
            assert before == 6 if target is None else (one.target == 42 and before < 7)


class ListsAfter:
    """A service that lists user 3, and only from the given query on."""

    def __init__(self, silent: int) -> None:
        self.silent = silent

    def oracle(self, **_: Any) -> Any:
        def nearby(_start: object) -> list[int]:
            self.silent -= 1
            return [] if self.silent >= 0 else [3]

        return SimpleNamespace(nearby=nearby)


def test_no_start_counts_twice_where_starts_are_rare() -> None:
    """Of 20 * 5 starts that are tried the last two list the user."""
    options: Any = {"k": 1, "count": 5, "rng": np.random.default_rng(1)}
    found = instances_of_person(ListsAfter(98), np.zeros((9, 2)), 3, **options)  # type: ignore[arg-type]
    assert len(found) == len(set(found)) == 2
    with pytest.raises(UsageError, match="in no list near"):
        instances_of_person(ListsAfter(100), np.zeros((9, 2)), 3, **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="lists nobody"):
        draw_instances(ListsAfter(999), np.zeros((5, 2)), **options)  # type: ignore[arg-type]


def test_the_best_attacker_does_better_than_reading_off_what_is_published(city: FloatArray) -> None:
    """Reading off the published location is wrong by 300 m on average, and within 100 m in about 0.14 of cases."""
    assert simulate(city).protection() is None
    best = simulate(city[:2000], mechanism=PlanarLaplace(noise_m=300)).protection()
    assert best is not None
    assert best["error_m"].value < 300
    assert best["found"].value > 0.15
    assert best["named_sparsest"].value > 1.5 * best["named"].value


def test_attacks_by_name(san_francisco: Region) -> None:
    found = set_up_attacks(["gi-lia", "zo-lia", "adaptive"], san_francisco, accounts=[1, 4], tau_m=50.0)
    pairs = [(one.attack.name, one.accounts) for one in found]
    assert pairs == [("gi-lia", 1), ("zo-lia", 1), ("adaptive", 1), ("adaptive", 4)]
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


@pytest.mark.realdata
def test_users_are_found_unless_they_are_protected(real_data_folder: Path) -> None:
    dataset = load_dataset(DatasetName.BRIGHTKITE, real_data_folder)
    names = ("gi-lia", "zo-lia", "adaptive")
    service = simulate(dataset.places, region=dataset.region)
    gi, zo, four = attack_population(service, attacks=names, users=10).rows
    assert min(gi.found.value, four.found.value) >= 0.9
    assert zo.found.value >= 0.8
    assert (four.hits, four.certified, four.false_certificates) == (10, 10, 0)
    assert four.queries.value < gi.queries.value / 2 < zo.queries.value / 2
    dprs = DPRS(release="paper", epsilon=1.0, centres=800, region=dataset.region)
    hidden = simulate(dataset.places, region=dataset.region, mechanism=dprs)
    for row in attack_population(hidden, attacks=names, users=10).rows:
        assert row.found.value <= 0.3
        assert row.false_certificates == 0
