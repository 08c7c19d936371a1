"""Kinds of answers: how they are written, and the simulated services that give them."""

import numpy as np
import pytest

from nearveil.attacks.answers import Answers
from nearveil.attacks.oracle import CountedDistance
from nearveil.errors import UsageError

AT = (4321.0, -7654.0)


@pytest.mark.parametrize(
    "text",
    ["list", "distance:1km", "distance:1mi", "distance:500m-floor", "bands:500m", "filter:5km-fixed", "circle:2km"],
)
def test_answers_are_read_and_written_alike(text: str) -> None:
    assert str(Answers.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "one of list"),
        ("distances:1km", "one of list"),
        ("distance:1 furlong", "one of list"),
        ("distance:-1km", "one of list"),
        ("distance", "takes a length"),
        ("list:1km", "takes no length"),
        ("distance:0km", "between 1 m"),
        ("distance:1.2.3km", "between 1 m"),
        ("circle:9999km", "between 1 m"),
        ("distance:1km-fixed", "ceil, floor, nearest"),
        ("bands:500m-floor", "no variant"),
    ],
)
def test_other_texts_are_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        Answers.parse(text)


def test_a_list_is_not_about_one_user() -> None:
    with pytest.raises(UsageError, match="about everybody"):
        Answers().simulated(AT, most_queries=5, rng=np.random.default_rng(1))


def test_a_rounding_that_is_not_stated_is_drawn() -> None:
    drawn = set()
    for seed in range(20):
        oracle = Answers.parse("distance:1km").simulated(AT, most_queries=5, rng=np.random.default_rng(seed))
        assert isinstance(oracle, CountedDistance)
        drawn.add(oracle.distance((AT[0] + 1200.0, AT[1])))
    assert drawn == {1.0, 2.0}
