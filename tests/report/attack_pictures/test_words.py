"""Captions say what was asked and answered, and nothing that the list did not say."""

from dataclasses import replace

import numpy as np
import pytest

from nearveil.attacks.base import AttackResult, Outcome, Trace, TraceStep
from nearveil.attacks.oracle import Spot
from nearveil.nearby.index import Person
from nearveil.region import Region
from nearveil.report.attack_scene import Scene, frames_of, heading, summary, verdict
from tests.report.attack_pictures.samples import TAU_M, protected

HERE, AT_100_M, AT_500_M = (412.0, 0.0), (512.0, 0.0), (912.0, 0.0)


def words_of(region: Region, *steps: TraceStep) -> list[str]:
    """Captions where the target is in the middle of the region."""
    trace = Trace(steps)
    result = AttackResult(attack="x", outcome=Outcome.LOST, estimate=None, queries=5, seconds=0.0, trace=trace)
    scene = Scene(result, region, np.zeros((1, 2)), (0.0, 0.0), TAU_M)
    return [frame.text.replace("\N{NO-BREAK SPACE}", " ") for frame in frames_of(scene)[:-1]]


def test_words_say_what_was_asked_and_answered(san_francisco: Region) -> None:
    words = words_of(
        san_francisco,
        TraceStep(HERE, 4, ((672.0, 0.0),), (2,), np.array([[0.0, 0.0, 50.0]])),
        TraceStep(HERE, None, (AT_100_M,), (2,), np.array([[0.0, 0.0, 500.0]])),
        TraceStep((0.0, 2500.0), 1),
        TraceStep(HERE, 3, (AT_100_M, AT_500_M), (1, 7)),
        TraceStep(HERE, None, (AT_100_M, AT_500_M), (1, None)),
    )
    asked = "asked 412 m from the target, with the colluder at"
    answered = "The target is listed 4th, farther than the colluder"
    assert words[0] == f"Question 1 of 5: {asked} 260 m. {answered}. Possible area: 0.01 km²."
    assert words[1].endswith("is not listed, farther than the colluder. Possible area: 1 km².")
    assert words[2] == "Question 3 of 5: asked 2.5 km from the target. The target is listed 1st."
    assert "listed 3rd, between the colluders at 100 m and 500 m." in words[3]
    assert "not listed, farther than the colluder at 100 m." in words[4]


@pytest.mark.parametrize(
    ("rank", "account", "said"),
    [
        (3, 5, "listed 3rd, nearer than the colluder. So it is less than 500 m away."),
        (3, None, "listed 3rd, nearer than the colluder. So it is less than 500 m away."),
        (5, 3, "listed 5th, farther than the colluder. So it is more than 500 m away."),
        (None, 3, "not listed, farther than the colluder. So it is more than 500 m away."),
        (None, None, "The target is not listed."),
    ],
)
def test_comparisons_come_from_the_list_even_where_it_is_not_true(
    san_francisco: Region, rank: int | None, account: int | None, said: str
) -> None:
    (words,) = words_of(san_francisco, TraceStep(HERE, rank, (AT_500_M,), (account,)))
    assert words.endswith(said)


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ((7, 9), "nearer than the colluder at 100 m."),
        ((7, 3), "farther than the colluder at 500 m, and yet nearer than the one at 100 m. The answers from here"),
    ],
)
def test_several_colluders_are_compared_one_by_one(
    san_francisco: Region, ranks: tuple[int | None, ...], said: str
) -> None:
    (words,) = words_of(san_francisco, TraceStep(HERE, 5, (AT_100_M, AT_500_M), ranks))
    assert said in words


@pytest.mark.parametrize(
    ("rank", "said"),
    [
        (1, "is listed first: accounts are where they are put."),
        (2, "is only listed 2nd: accounts may not be where they are put."),
        (None, "is not listed: accounts may not be where they are put."),
    ],
)
def test_a_sentinel_is_no_ruler(san_francisco: Region, rank: int | None, said: str) -> None:
    alone, among = words_of(
        san_francisco,
        TraceStep(HERE, 3, (HERE,), (rank,), np.array([[0.0, 0.0, 20.0]])),
        TraceStep(HERE, 3, (HERE, AT_100_M), (rank, 5)),
    )
    sentinel = f"The attacker's own account, put right here, {said}"
    assert alone == (
        f"Question 1 of 2: asked 412 m from the target. {sentinel} The target is listed 3rd. Possible area: 1,600 m²."
    )
    assert f"with the colluder at 100 m. {sentinel} The target is listed 3rd, nearer than the colluder." in among


def plain(words: str) -> str:
    return words.replace("\N{NO-BREAK SPACE}", " ")


def test_a_miss_is_never_called_found(gi_lia: Scene, adaptive: Scene) -> None:
    """What the attacker finds in a protected service is the published place."""
    missed = "published place found, person missed by 500 m"
    assert plain(verdict(protected(gi_lia))) == missed
    assert plain(heading(protected(gi_lia), "One attack")) == f"One attack: {missed}"
    result = plain(frames_of(protected(gi_lia))[-1].text)
    assert result.startswith(f"Result: {missed}. The estimate is 500 m from the person and ")
    for words in (summary(protected(gi_lia)), summary(protected(adaptive))):
        assert "found" not in words
    assert verdict(gi_lia) == "person found"
    far = replace(gi_lia, result=replace(gi_lia.result, estimate=(gi_lia.truth[0] + 300, gi_lia.truth[1])))
    assert plain(verdict(far)) == "person missed by 300 m"
    assert plain(verdict(replace(far, published=gi_lia.truth))).startswith(
        "published place missed by 300 m, person missed"
    )
    assert verdict(replace(gi_lia, published=gi_lia.truth)) == "published place found, person found"


def test_an_attack_that_ended_early_says_so(gi_lia: Scene) -> None:
    lost = replace(gi_lia, result=replace(gi_lia.result, outcome=Outcome.LOST))
    assert summary(lost).endswith("the attack ended early, the target was lost from sight")
    nothing = replace(lost, result=replace(lost.result, estimate=None))
    assert verdict(nothing) == "no estimate, the target was lost from sight"
    assert frames_of(nothing)[-1].text == "Result: no estimate, the target was lost from sight."


def test_others_located_are_counted(gi_lia: Scene) -> None:
    others: dict[Person, Spot] = {number: (40.0 * number, 0.0) for number in (1, 2, 3)}
    unfolded = replace(gi_lia, result=replace(gi_lia.result, others=others))
    assert ", and estimates of 3 others as well." in frames_of(unfolded)[-1].text
    assert ", and estimates of 3 others' published places as well." in frames_of(protected(unfolded))[-1].text


def test_a_summary_says_what_is_certified(adaptive: Scene) -> None:
    assert plain(summary(adaptive)).endswith("· certified: the answers leave no place farther off than 100 m")
    assert plain(summary(protected(adaptive))).endswith("the answers leave no published place farther off than 100 m")
    wrong = replace(adaptive, result=replace(adaptive.result, estimate=(adaptive.truth[0] + 300, adaptive.truth[1])))
    assert plain(summary(wrong)).endswith("· certified wrongly: the place is farther off than 100 m")
    assert summary(replace(adaptive, result=replace(adaptive.result, certified=False))).endswith("· not certified")
