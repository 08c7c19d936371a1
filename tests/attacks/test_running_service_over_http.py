"""Attacks on a real service, a process of its own: they work with next to no noise, and not with 500 m."""

import math
from pathlib import Path

import numpy as np
import pytest
from tests.evidence import for_evidence
from tests.server.served import Served, served

from nearveil.attacks.running_service import attack_service
from nearveil.client.calls import LocationReport
from nearveil.client.http import Client
from nearveil.region import as_region

# As dense as a town, so that lists reach a few hundred metres.
EDGES = "37.755,-122.44,37.78,-122.41"
REGION = as_region(EDGES)
PEOPLE, TARGETS = 400, 3
# Few questions make few epochs; the other attacks ask ten times as many.
ATTACKS = ["adaptive", *for_evidence("gi-lia", "zo-lia")]
NO_LIMIT = ("--questions-per-minute", "0")
NEXT_TO_NO_NOISE = ("--noise", "1m", "--dwell", "1", "--test-hooks")


def attack(service: Served, method: str, targets: int) -> list[float]:
    """Return the errors, without an estimate infinite."""
    with Client(service.address, service.key, timeout_s=60.0) as client:
        before = client.ledger().document["people"]
        results = attack_service(client, REGION, method=method, targets=targets, seed=2)
        assert client.ledger().document["people"] == before
    return [math.inf if each.error_m is None else each.error_m for each in results]


def populate(service: Served) -> None:
    inside = np.random.default_rng(5).uniform(-0.99, 0.99, (PEOPLE, 2)) * np.array(REGION.half_extent_m)
    places = REGION.clip(REGION.from_metres(inside)).tolist()
    with Client(service.address, service.key, timeout_s=60.0) as client:
        client.create_people([f"person-{number}" for number in range(PEOPLE)])
        client.report_many([LocationReport(f"person-{number}", *place) for number, place in enumerate(places)])
        client.advance_epoch()


@pytest.mark.parametrize("method", ATTACKS)
def test_with_next_to_no_noise_everybody_is_found(method: str, tmp_path: Path) -> None:
    with served(tmp_path, f"--region={EDGES}", *NEXT_TO_NO_NOISE, *NO_LIMIT) as service:
        populate(service)
        errors_m = attack(service, method, TARGETS)
    assert len(errors_m) == TARGETS
    # Accounts move by the noise as well, so a result that is sure to 100 m may be a few meters off that.
    assert max(errors_m) < 150


@pytest.mark.evidence
@pytest.mark.statistical
def test_with_noise_of_500_m_hardly_anybody(tmp_path: Path) -> None:
    """Noise of 500 m is shorter than 100 m with a probability of 0.062: all four times 1.4e-5, for each attack.

    The mean of four lengths is below 60 m with 8e-6.
    """
    with served(tmp_path, f"--region={EDGES}", "--test-hooks", *NO_LIMIT) as service:
        populate(service)
        for method in ("gi-lia", "zo-lia", "adaptive"):
            errors_m = attack(service, method, 4)
            assert sum(error_m <= 100 for error_m in errors_m) <= 3
            assert sum(errors_m) > 60 * len(errors_m)
