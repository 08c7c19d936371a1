"""Attacks on a real population. Seeds are fixed; processors still differ in the last digits."""

from pathlib import Path

import pytest

from nearveil import DPRS
from nearveil.evaluation.attack_experiment import AttackExperiment, AttackProtocol, set_up_attacks
from nearveil.io.datasets import DatasetName, load_dataset

pytestmark = pytest.mark.realdata


def test_users_are_found_unless_they_are_protected(real_data_folder: Path) -> None:
    dataset, protocol = load_dataset(DatasetName.BRIGHTKITE, real_data_folder), AttackProtocol(runs=1, instances=10)
    attacks = ("gi-lia", "zo-lia", "adaptive", "unfolding")
    setups = set_up_attacks(attacks, dataset.region, colluders=[1, 4], tau_m=100.0)
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
