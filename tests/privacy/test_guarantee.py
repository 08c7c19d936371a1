import json

import pytest

from nearveil.privacy.guarantee import CARD_WIDTH, Basis, Guarantee, Notion

CLAIM = Guarantee(
    title="A claim",
    notion=Notion.CENTRAL,
    epsilon=1.0,
    unit="per person",
    delta=1e-5,
    neighbours="one person more or less",
    protects="would protect everything",
    basis=Basis.REFUTED_CLAIM,
    because="there is a counterexample",
)
HELD = Guarantee(
    title="A promise",
    notion=Notion.METRIC,
    epsilon=0.004,
    unit="per metre",
    delta=0.0,
    neighbours="any two places",
    protects="places near each other look alike, and the wider neighbourhood is not hidden " * 3,
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


def test_card_is_a_box_that_keeps_its_width() -> None:
    lines = str(HELD).splitlines()
    assert {len(line) for line in lines} == {CARD_WIDTH}
    for word in ("A promise", "0.004 per metre", "any two places", "theorem", "mind the gap", "A claim"):
        assert word in str(HELD)


def test_json_holds_everything() -> None:
    document = json.loads(json.dumps(HELD.to_dict()))
    assert document["notion"] == "metric"
    assert document["holds"] is True
    assert document["also"][0]["holds"] is False
    assert document["notes"] == ["mind the gap"]


def test_per_row_says_so_everywhere() -> None:
    counted = HELD.counted_per_row().with_note("rows compose")
    assert counted.also[0].unit == "per row"
    assert counted.also[0].neighbours == "one row more or less"
    assert counted.unit == "per metre"
    assert counted.notes[-1] == "rows compose"


@pytest.mark.parametrize("change", [{"epsilon": float("nan")}, {"epsilon": -1.0}, {"delta": 1.5}])
def test_nonsense_is_no_guarantee(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="guarantee"):
        Guarantee(**{**{name: getattr(CLAIM, name) for name in CLAIM.__slots__}, **change})
