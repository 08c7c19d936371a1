"""Captions say what was asked and answered, and nothing that the list did not say."""

from dataclasses import replace

import numpy as np
import pytest

from nearveil.attacks.oracle import Spot
from nearveil.attacks.result import AttackResult, Outcome, Trace, TraceStep
from nearveil.nearby.index import Person
from nearveil.region import Region
from nearveil.report.attack_pictures.scene import Scene
from nearveil.report.attack_pictures.story import frames_of
from nearveil.report.attack_pictures.words import summary
from tests.report.attack_pictures.samples import TAU_M, protected

HERE, AT_100_M, AT_500_M = (412.0, 0.0), (512.0, 0.0), (912.0, 0.0)


def words_of(region: Region, *steps: TraceStep) -> list[str]:
    """Captions where the target is in the middle of the region."""
    trace = Trace(steps)
    result = AttackResult(attack="x", outcome=Outcome.LOST, estimate=None, queries=5, seconds=0.0, trace=trace)
    scene = Scene(result, region, np.zeros((1, 2)), (0.0, 0.0), TAU_M)
    return [frame.words.replace("\N{NO-BREAK SPACE}", " ") for frame in frames_of(scene)[:-1]]


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


def test_a_protected_person_is_said_to_be_missed(gi_lia: Scene) -> None:
    words = frames_of(protected(gi_lia))[-1].words.replace("\N{NO-BREAK SPACE}", " ")
    assert "500 m from the person" in words
    assert "missed the person" in words
    assert "missed" not in frames_of(gi_lia)[-1].words


def test_others_located_are_counted(gi_lia: Scene) -> None:
    others: dict[Person, Spot] = {number: (40.0 * number, 0.0) for number in (1, 2, 3)}
    unfolded = replace(gi_lia, result=replace(gi_lia.result, others=others))
    assert "3 others as well" in frames_of(unfolded)[-1].words


def test_a_summary_says_what_is_certified(adaptive: Scene) -> None:
    assert summary(adaptive).endswith("· certified")
    assert summary(protected(adaptive)).endswith("· certified for the published place")
    assert summary(replace(adaptive, result=replace(adaptive.result, certified=False))).endswith("· not certified")
