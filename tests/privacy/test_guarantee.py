import json
from dataclasses import replace

import pytest

from nearveil.errors import DataError, UsageError
from nearveil.privacy.guarantee import (
    CARD_WIDTH,
    SEED_NOTES,
    Basis,
    Counted,
    Guarantee,
    PrivacyDefinition,
    guarantee_from_dict,
)

CLAIM = Guarantee(
    title="A claim",
    definition=PrivacyDefinition.CENTRAL,
    epsilon=1.0,
    unit="per user",
    delta=1e-5,
    neighbors="one user more or less",
    promise="would protect everything",
    basis=Basis.REFUTED_CLAIM,
    because="there is a counterexample",
)
HELD = Guarantee(
    title="A promise",
    definition=PrivacyDefinition.METRIC,
    epsilon=0.004,
    unit="per meter",
    delta=0.0,
    neighbors="any two locations",
    promise="locations near each other look alike, and the wider neighborhood is not hidden " * 3,
    not_covered="the rest",
    basis=Basis.THEOREM,
    because="the noise",
    also=(CLAIM,),
    notes=("mind the gap",),
)


def test_a_refuted_claim_never_reads_as_a_promise() -> None:
    assert not CLAIM.holds
    assert "DOES NOT HOLD" in CLAIM.card()
    assert "DOES NOT HOLD" not in HELD.card().splitlines()[1]
    assert "DOES NOT HOLD" in HELD.card()


def test_a_card_has_twelve_lines_and_says_what_it_leaves_out() -> None:
    notes = [f"note {number} is short. It has a second sentence." for number in range(9)]
    card = replace(HELD, notes=tuple(notes)).card()
    assert [len(line) for line in card.splitlines()] == [CARD_WIDTH] * 12
    for word in ("A promise", "0.004 per meter", "look alike", "the rest", "A claim", "note 0 is short."):
        assert word in card
    assert "second sentence" not in card
    shown = sum(f"note {number}" in card for number in range(9))
    assert f"{9 - shown} more notes" in card
    assert "guarantee.explain()" in card
    assert "Why it holds: GET /v1/guarantee" in HELD.card(full_is_at="GET /v1/guarantee")


def test_a_card_cuts_what_is_too_long_and_keeps_what_matters() -> None:
    """A seed, the promise, and that a claim does not hold."""
    for words in (50, 200, 1000):
        card = replace(HELD, promise="alike " * words, not_covered="apart " * words, notes=SEED_NOTES).card()
        assert len(card.splitlines()) <= 12
        for word in ("epsilon = 0.004", "protects nobody", "Promise: alike", "Not covered: apart", "NOT HOLD", " ..."):
            assert word in card


def test_json_holds_everything() -> None:
    document = json.loads(json.dumps(HELD.to_dict()))
    assert document["definition"] == "metric"
    assert document["holds"] is True
    assert document["also"][0]["holds"] is False
    assert document["notes"] == ["mind the gap"]
    assert guarantee_from_dict(document) == HELD
    assert guarantee_from_dict(Guarantee.claimed_by_nobody().to_dict()) == Guarantee.claimed_by_nobody()


def test_places_carry_the_loss_of_the_user_with_the_most() -> None:
    """What was learned from all users stays as it was counted."""
    counted = HELD.counted_per_place(12)
    assert "epsilon = 0.004 per meter for each place; 0.048 for the user with the most places, 12" in counted.number
    assert "how many places a user has, and how often" in str(counted)
    assert len(str(counted).splitlines()) <= 12
    assert guarantee_from_dict(json.loads(json.dumps(counted.to_dict()))) == counted
    assert counted.also == (CLAIM,)
    assert replace(HELD, definition=PrivacyDefinition.LOCAL, unit="per user").counted_per_place(3).unit == "per place"
    with pytest.raises(UsageError, match="most must be a whole number"):
        HELD.counted_per_place(0)


@pytest.mark.parametrize("change", [{"epsilon": "much"}, {"definition": "magic"}, {"also": [1]}, {"counted": "cats"}])
def test_a_damaged_guarantee_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(DataError, match="not a guarantee, or it is damaged"):
        guarantee_from_dict({**HELD.to_dict(), **change})


def test_an_explanation_says_everything_and_what_can_be_learned() -> None:
    text = " ".join(HELD.counted_per_place(12).explain().split())
    assert "500 m apart: 89 % sure (at most 7.39 times likelier)" in text
    assert "2,000 m apart: 99.97 % sure" in text
    assert "0.048 for the user with the most places, 12" in text
    assert "A claim of epsilon = 1 that is false" in text
    for word in ("look alike", "any two locations", "the rest", "theorem: the noise", "Note: mind the gap"):
        assert word in text
    assert "Nothing is promised" in Guarantee.claimed_by_nobody().explain()
    steps = replace(HELD, definition=PrivacyDefinition.ELASTIC, unit="per step", epsilon=0.5)
    assert "2 steps apart: 74 % sure" in steps.explain()
    assert "practically no protection" in replace(HELD, definition=PrivacyDefinition.LOCAL, epsilon=9.0).explain()


def test_per_row_says_so_everywhere() -> None:
    counted = HELD.counted_per_row().with_note("rows compose")
    assert counted.also[0].unit == "per row"
    assert {counted.counted, counted.also[0].counted} == {Counted.ROWS}
    assert counted.unit == "per meter"
    assert counted.notes[-1] == "rows compose"


@pytest.mark.parametrize("change", [{"epsilon": float("nan")}, {"epsilon": -1.0}, {"delta": 1.5}])
def test_nonsense_is_no_guarantee(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="guarantee"):
        Guarantee(**{**{name: getattr(CLAIM, name) for name in CLAIM.__slots__}, **change})
