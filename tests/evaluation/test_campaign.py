"""A campaign beside the truth, by hand: which users count as located, and to which location."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nearveil.attacks.base import Outcome
from nearveil.attacks.campaign import CampaignResult
from nearveil.cli.attack_campaign import campaign_document, campaign_sentences, campaign_table
from nearveil.errors import UsageError
from nearveil.evaluation import campaign
from nearveil.evaluation.attack_experiment import Instance
from nearveil.evaluation.campaign import (
    CampaignOutcome,
    FurtherPeople,
    attack_campaign,
)
from nearveil.evaluation.simulation import simulate
from nearveil.evaluation.stats import Mean, Share
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.region import Region

# Four users in a row; the third was never listed, and the second is 150 m off.
TRUE_M = np.array([[0.0, 0.0], [1000.0, 0.0], [2000.0, 0.0], [3000.0, 0.0]])
RESULT = CampaignResult(
    outcome=Outcome.FOUND, people=(3, 0, 1), estimates_m=np.array([[3000.0, 10.0], [0.0, 30.0], [1150.0, 0.0]]),
    radii_m=np.array([20.0, 20.0, 200.0]), queries=5, seconds=1.0, disorder=0.0,
)  # fmt: skip
FURTHER = FurtherPeople(people=10, queries=Mean(3.4, 0.5), found=Share(0.9, 0.55, 0.99))


@pytest.fixture
def outcome(san_francisco: Region) -> CampaignOutcome:
    return CampaignOutcome(
        name="four", region=san_francisco, k=2, tau_m=100.0, result=RESULT, rows=np.array([3, 0, 1]), true_m=TRUE_M,
        served_m=TRUE_M, further=FURTHER, protection=None, is_protected=False,
    )  # fmt: skip


def test_all_users_count_and_not_only_those_who_were_seen(outcome: CampaignOutcome) -> None:
    assert outcome.errors_m.tolist() == [10.0, 30.0, 150.0]
    assert (outcome.people, outcome.located, outcome.queries_per_located) == (4, 2, 2.5)
    assert outcome.coverage == pytest.approx(2 / 3)
    assert campaign_sentences(outcome) == ["50 % of 4 users located within 100 m, 2.50 queries each."]
    row = dict(zip(campaign_table(outcome)[0], campaign_table(outcome)[1][0], strict=True))
    assert (row["users seen"], row["queries for a further user"], row["further users found"]) == ("75 %", "3.4", "90 %")
    # Where users are protected, their published locations are located.
    moved = replace(outcome, true_m=TRUE_M + np.array([0.0, 500.0]), is_protected=True)
    assert "50 % of 4 users located within 100 m of where they are published, and 0 %" in campaign_sentences(moved)[0]
    wanted = {"located": 2, "truly_located": 0, "protected": True, "median_error_m": 30.0}
    assert campaign_document(moved).items() >= wanted.items()


def test_nothing_found_is_said_as_nothing(outcome: CampaignOutcome) -> None:
    empty = replace(RESULT, outcome=Outcome.NOBODY, people=(), estimates_m=np.empty((0, 2)), radii_m=np.empty(0))
    nobody = replace(outcome, result=empty, rows=np.empty(0, dtype=int), further=None)
    first, ended = campaign_sentences(nobody)
    assert (first, ended[:25]) == ("0 % of 4 users located within 100 m.", "The campaign ended early:")
    document = campaign_document(nobody)
    assert (document["queries_per_located"], document["median_error_m"], document["radius_holds"]) == (None,) * 3
    assert campaign_table(nobody)[1][0][3:] == ["–", "–", "–", "–"]


def test_a_protected_crowd_keeps_its_true_locations(
    san_francisco: Region, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """With noise of 2 km, 100 m of a true location are chance: 1 in 800 by area, and 15 of 146 would be absurd.

    Of the four who join, the second is listed nowhere: neither found nor missed.
    """
    asked: list[int] = []

    def listed(service: Any, people_m: Any, target: int, **options: Any) -> list[Instance]:
        asked.append(target)
        if len(asked) == 2:
            raise UsageError("listed nowhere")
        return [Instance(tuple(people_m[target]), target)]

    monkeypatch.setattr(campaign, "instances_of_person", listed)
    city, noise = synthetic_city(150, san_francisco, rng=1), PlanarLaplace(noise_m=2000, region=san_francisco)
    found = attack_campaign(simulate(city, k=30, mechanism=noise), further=4)
    assert found.people == 146
    assert found.located > 0.7 * found.people
    assert found.truly_located < 15
    assert found.protection is not None
    assert found.further is not None
    assert (found.further.people, found.further.never_listed) == (3, 1)
    with pytest.raises(UsageError, match="between 1 and the number of users at first, 135"):
        attack_campaign(simulate(city, k=136))
