"""Claims: read from guarantees and files, and asked what they allow between two places."""

import json
import math

import pytest

from nearveil import DPRS, PlanarLaplace, Square
from nearveil.auditing.claims import Claim, claim_from_dict, claim_from_json, own_claim, paper_claim
from nearveil.auditing.pairs import Pair
from nearveil.errors import DataError, UsageError
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.types import FloatArray

NEAR = Pair((37.70, -122.40), (37.71, -122.40), "one above the other")


@pytest.mark.parametrize(
    ("definition", "same_interval", "expected"),
    [
        (PrivacyDefinition.LOCAL, None, 0.5),
        (PrivacyDefinition.LOCAL, False, 0.5),
        (PrivacyDefinition.INTERVAL, True, 0.5),
        (PrivacyDefinition.INTERVAL, False, None),
        (PrivacyDefinition.INTERVAL, None, None),
        (PrivacyDefinition.CENTRAL, True, None),
    ],
)
def test_which_pairs_a_claim_speaks_of(
    definition: PrivacyDefinition, same_interval: bool | None, expected: float | None
) -> None:
    pair = Pair(NEAR.first, NEAR.second, NEAR.kind, same_interval)
    loss = Claim(definition, 0.5, 0.0, "").claimed_loss(pair)
    assert loss is None if expected is None else loss == pytest.approx(expected)


def test_a_metric_claim_counts_metres_on_great_circles() -> None:
    """A hundredth of a degree of latitude is 1,112 m; the loss comes back as epsilon per meter."""
    claim = own_claim(PlanarLaplace(noise_m=500).guarantee)
    loss = claim.claimed_loss(NEAR)
    assert loss == pytest.approx(1111.95 * 2 / 500, rel=1e-4)
    assert loss is not None
    assert claim.epsilon_of(loss, NEAR) == pytest.approx(claim.epsilon)
    assert claim.unit == "per meter"


def test_round_off_breaks_no_claim() -> None:
    loss = Claim(PrivacyDefinition.LOCAL, 1.0, 0.0, "").claimed_loss(NEAR)
    assert loss is not None
    assert 1 < loss < 1 + 1e-8


def test_the_papers_claim_is_about_any_two_places(city: FloatArray) -> None:
    guarantee = DPRS(release="paper", centres=20, seed=1, region="san-francisco").fit(city).guarantee
    claim = paper_claim(guarantee)
    assert claim.definition is PrivacyDefinition.LOCAL
    assert claim.epsilon == pytest.approx(1.0)
    assert claim.delta == 1e-5
    assert own_claim(guarantee).definition is PrivacyDefinition.INTERVAL
    with pytest.raises(UsageError, match="no claim of the paper's"):
        paper_claim(Square(region="san-francisco").guarantee)


def test_a_claim_is_read_from_json() -> None:
    guarantee = PlanarLaplace().guarantee
    for document in (guarantee.to_dict(), {"guarantee": guarantee.to_dict()}, own_claim(guarantee).to_dict()):
        claim = claim_from_json(json.dumps(document))
        assert (claim.definition, claim.epsilon, claim.delta) == (
            PrivacyDefinition.METRIC,
            guarantee.epsilon,
            guarantee.delta,
        )
    short = claim_from_json('{"definition": "local", "epsilon": 1}')
    assert (short.definition, short.epsilon, short.delta) == (PrivacyDefinition.LOCAL, 1, 0.0)
    assert claim_from_json('{"definition": "metric", "epsilon": 4, "unit": "per kilometre"}').epsilon == 0.004


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        "{}",
        '{"definition": "local"}',
        '{"definition": "secret", "epsilon": 1}',
        '{"definition": "local", "epsilon": "1"}',
        '{"definition": "local", "epsilon": true}',
        '{"definition": "local", "epsilon": NaN}',
        '{"definition": "local", "epsilon": -1}',
        '{"definition": "local", "epsilon": 1, "delta": 1}',
        '{"definition": "local", "epsilon": 1, "delta": null}',
        '{"definition": "metric", "epsilon": 1, "unit": "per mile"}',
        '{"guarantee": null}',
    ],
)
def test_what_is_no_claim_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="not a claim"):
        claim_from_json(text)


def test_an_unlimited_epsilon_is_no_claim() -> None:
    with pytest.raises(UsageError, match="epsilon"):
        claim_from_dict({"definition": "local", "epsilon": math.inf})


def test_an_offset_comes_on_top_of_the_distance() -> None:
    """1,110 m at 0.004 per meter and 2 more; what is shown below the offset is nothing."""
    claim = Claim(PrivacyDefinition.METRIC, 0.004, 0.0, "", offset=2.0)
    loss = claim.claimed_loss(NEAR)
    assert loss == pytest.approx(0.004 * NEAR.distance_m + 2)
    assert loss is not None
    assert claim.epsilon_of(loss, NEAR) == pytest.approx(0.004)
    assert claim.epsilon_of(1.9, NEAR) == 0
    assert claim.amount == "epsilon = 0.004 per meter + 2"
    assert claim.shown(0.005) == "epsilon at least 0.005 per meter + 2"
    assert claim.shown(0.0) == "nothing beyond the offset of 2"
    assert claim_from_json(json.dumps(claim.to_dict())).offset == 2.0


def test_the_loss_together_is_a_claim(city: FloatArray) -> None:
    """Release `metric` for those fitted on: the fit's cost twice, however near two places are."""
    guarantee = DPRS(release="metric", centres=20, seed=1, region="san-francisco").fit(city).guarantee
    together = next(statement for statement in guarantee.also if statement.offset)
    claim = own_claim(together)
    assert (claim.epsilon, claim.offset) == (guarantee.epsilon, together.offset)
    assert claim.offset == pytest.approx(2.0)
    assert "per meter + 2" in claim.text
    assert claim_from_json(json.dumps(together.to_dict())).offset == together.offset


@pytest.mark.parametrize(
    ("definition", "offset", "message"),
    [
        (PrivacyDefinition.METRIC, -1.0, "0 or more"),
        (PrivacyDefinition.METRIC, math.inf, "0 or more"),
        (PrivacyDefinition.LOCAL, 1.0, "no offset"),
    ],
)
def test_what_is_no_offset_is_refused(definition: PrivacyDefinition, offset: float, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Claim(definition, 1.0, 0.0, "", offset)
