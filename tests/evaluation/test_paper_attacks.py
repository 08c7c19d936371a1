"""Table 1 in small, on the real populations. Seeds are fixed; processors still differ in the last digits."""

from pathlib import Path

import pytest

from nearveil import DPRS
from nearveil.evaluation.attack_experiment import AttackExperiment, AttackProtocol, set_up_attacks
from nearveil.io.datasets import DatasetName, load_dataset

pytestmark = pytest.mark.realdata


@pytest.mark.parametrize("name", [DatasetName.BRIGHTKITE, DatasetName.GOWALLA])
def test_attacks_on_real_users(real_data_folder: Path, name: DatasetName) -> None:
    dataset = load_dataset(name, real_data_folder)
    setups = set_up_attacks(
        ["gi-lia", "zo-lia", "adaptive", "unfolding"], dataset.region, colluders=[1, 4], tau_m=100.0
    )
    # As in Table 1, where the attacker knows that lists are exact.
    protocol = AttackProtocol(runs=1, instances=10, tells_exact=True)
    gi, zo, one, four, none = (
        row.score for row in AttackExperiment(dataset, protocol, None).run(setups, [10], cores=1)
    )
    assert gi.acc.value >= 0.95
    assert zo.acc.value >= 0.8
    for score in (one, four):
        assert (score.acc.value, score.certified.value, score.false_certificates) == (1.0, 1.0, 0)
    assert one.queries.value <= 10
    assert gi.queries.value / one.queries.value >= 3.5
    assert zo.queries.value / one.queries.value >= 6
    assert four.queries.value <= 6.5
    assert none.acc.value >= 0.92
    assert none.queries_p95 <= 30
    assert (none.others_located or 0) >= 0.9


@pytest.mark.parametrize("published_colluders", [False, True])
def test_protected_users_are_not_found(real_data_folder: Path, published_colluders: bool) -> None:
    dataset = load_dataset(DatasetName.BRIGHTKITE, real_data_folder)
    protocol = AttackProtocol(runs=1, instances=10, published_colluders=published_colluders)
    dprs = DPRS(release="paper", epsilon=1.0, centres=800, region=dataset.region)
    setups = set_up_attacks(["gi-lia", "adaptive", "unfolding"], dataset.region, colluders=[1], tau_m=100.0)
    for row in AttackExperiment(dataset, protocol, dprs).run(setups, [10], cores=1):
        assert row.score.acc.value <= 0.1
        # A certificate supposes that the service has the attacker's accounts where they are.
        assert published_colluders or row.score.false_certificates == 0
