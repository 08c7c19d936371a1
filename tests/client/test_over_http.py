"""The three attacks on a real service, a process of its own: they work with next to no noise, and not with 500 m."""

import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from nearveil.client.audit import Audit, AuditPlan, ServiceAudit
from nearveil.client.http import Client
from nearveil.region import as_region
from tests.evidence import for_evidence
from tests.server.served import Served, served

# As dense as a town, so that lists reach a few hundred metres.
EDGES = "37.755,-122.44,37.78,-122.41"
REGION = as_region(EDGES)
PEOPLE, TARGETS = 400, 3
# Few questions make few epochs; the other attacks ask ten times as many.
ATTACKS = [["adaptive"], *for_evidence(["gi-lia", "zo-lia"])]
NO_LIMIT = ("--questions-per-minute", "0")
NEXT_TO_NO_NOISE = ("--noise", "1m", "--dwell", "1", "--test-hooks")


def audit(service: Served, names: Sequence[str], targets: int = TARGETS) -> ServiceAudit:
    with Client(service.address, service.key, timeout_s=60.0) as client:
        before = client.ledger().document["people"]
        found = Audit(client, REGION, AuditPlan(names=names, targets=targets, seed=2)).run(lambda _: None)
        assert client.ledger().document["people"] == before
    return found


def populate(service: Served, count: int = PEOPLE) -> None:
    rng = np.random.default_rng(5)
    inside = rng.uniform(-0.99, 0.99, (count, 2)) * np.array(REGION.half_extent_m)
    places = REGION.clip(REGION.from_metres(inside))
    people = [f"person-{number}" for number in range(count)]
    with Client(service.address, service.key, timeout_s=60.0) as client:
        assert client.create_people(people) == count
        # Many at once, which the service keeps in one transaction.
        with ThreadPoolExecutor(32) as pool:
            # With a receipt of the phone's own, so that a report whose connection breaks is sent again.
            own = secrets.token_hex(12)
            reports = pool.map(lambda one, place: client.report(one, *place, previous=own), people, places.tolist())
            receipts = list(reports)
        assert receipts[-1].waits
        client.advance_epoch()


@pytest.mark.parametrize("names", ATTACKS)
def test_with_next_to_no_noise_everybody_is_found(names: list[str], tmp_path: Path) -> None:
    with served(tmp_path, f"--region={EDGES}", *NEXT_TO_NO_NOISE, *NO_LIMIT) as service:
        populate(service)
        found = audit(service, names)
    assert [row.found for row in found.rows] == [TARGETS] * len(names)
    assert found.not_listed == 0


@pytest.mark.evidence
@pytest.mark.statistical
def test_with_noise_of_500_m_hardly_anybody(tmp_path: Path) -> None:
    """Noise of 500 m is shorter than 100 m with a probability of 0.062: all four times 1.4e-5, for each attack.

    The mean of four lengths is below 60 m with 8e-6.
    """
    with served(tmp_path, f"--region={EDGES}", "--test-hooks", *NO_LIMIT) as service:
        populate(service)
        found = audit(service, ["gi-lia", "zo-lia", "adaptive"], targets=4)
        assert found.epochs > 20
    for row in found.rows:
        assert row.found <= 3
        assert row.mean_error_m > 60
