"""One attack in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nearveil.attacks.result import TraceStep
from nearveil.report.attack_pictures.answers import Account, Bounds, accounts_of, bounds_of
from nearveil.report.attack_pictures.scene import Scene


def length(metres: float) -> str:
    """A length in words, which stay on one line."""
    if metres >= 1000:
        return f"{metres / 1000:,.{0 if metres >= 10_000 else 1}f}\N{NO-BREAK SPACE}km"
    return f"{metres:.{0 if metres >= 9.95 else 1}f}\N{NO-BREAK SPACE}m"


def summary(scene: Scene) -> str:
    """The attack in one line."""
    queries = scene.result.queries
    parts = (
        f"{scene.result.attack}: {scene.result.outcome}",
        f"{queries:,} question{'s' if queries != 1 else ''}",
        _error_words(scene),
        _certificate(scene) if scene.result.certified else "not certified",
    )
    return " · ".join(parts)


def question_words(scene: Scene, numbers: range, ring: Bounds | None, area_km2: float | None) -> str:
    """What was asked and answered: one question, or the last of several from the same place."""
    step, several = scene.steps[numbers[-1] - 1], len(numbers) > 1
    accounts = accounts_of(step)
    rulers = [account for account in accounts if not account.is_sentinel]
    which = f"Questions {numbers[0]}–{numbers[-1]}" if several else f"Question {numbers[0]}"
    aim = "the target" if scene.published is None else "the published place"
    asked = f"{which} of {len(scene.steps)}: asked {length(math.dist(step.place, scene.seen))} from {aim}"
    if rulers:
        who = "the colluder" if len(rulers) == 1 else "colluders"
        at = _and([length(account.distance_m) for account in rulers])
        asked += f", {'the last ' if several else ''}with {who} at {at}"
    sentences = [asked, *_sentinel_words(accounts), _answer_words(step, rulers, several=several)]
    if area_km2 is not None:
        sentences.append(f"Possible area: {_area(area_km2)}")
    elif ring is not None:
        sentences.append(_ring_words(*ring))
    return ". ".join(sentences) + "."


def result_words(scene: Scene) -> str:
    """What came of it."""
    result = scene.result
    words = f"Result: {result.outcome}"
    if result.others:
        words += f", and {len(result.others):,} others as well"
    if result.estimate is None:
        return words + ". There is no estimate."
    error_m = math.dist(result.estimate, scene.truth)
    words += f". The estimate is {length(error_m)} from the person"
    if scene.published is not None:
        words += f" and {length(math.dist(result.estimate, scene.published))} from the published place"
        if error_m > scene.tau_m:
            words += ": the attack missed the person"
    if not result.certified:
        return words + ". Not certified."
    return f"{words}. {_certificate(scene).capitalize()}, within {length(scene.tau_m)}."


def _error_words(scene: Scene) -> str:
    """How far the estimate is off, from the person and from what is published."""
    estimate = scene.result.estimate
    if estimate is None:
        return "no estimate"
    words = f"error {length(math.dist(estimate, scene.truth))}"
    if scene.published is not None:
        words += f" ({length(math.dist(estimate, scene.published))} from the published place)"
    return words


def _certificate(scene: Scene) -> str:
    """What is certified: a place as the service knows it, which a protected one does not know well."""
    return "certified" if scene.published is None else "certified for the published place"


def _sentinel_words(accounts: Sequence[Account]) -> list[str]:
    """Whether the account at the very place asked from came first."""
    sentinel = next((account for account in accounts if account.is_sentinel), None)
    if sentinel is None:
        return []
    words = "The attacker's own account, put right here, is "
    if sentinel.rank == 1:
        return [words + "listed first: accounts are where they are put"]
    found = "not listed" if sentinel.rank is None else f"only listed {_ordinal(sentinel.rank)}"
    return [words + f"{found}: accounts may not be where they are put"]


def _answer_words(step: TraceStep, rulers: Sequence[Account], *, several: bool) -> str:
    """Where the target was listed, and between which accounts."""
    listed = "not listed" if step.rank is None else f"listed {_ordinal(step.rank)}"
    words = f"The target is {'then ' if several else ''}{listed}"
    low, high = bounds_of(rulers, step.rank)
    if (low, high) == (0.0, math.inf):
        return words
    if len(rulers) == 1:
        return f"{words}, {'nearer' if low == 0 else 'farther'} than the colluder"
    if math.isinf(high):
        return f"{words}, farther than the colluder at {length(low)}"
    if low == 0:
        return f"{words}, nearer than the colluder at {length(high)}"
    if low < high:
        return f"{words}, between the colluders at {length(low)} and {length(high)}"
    return f"{words}, farther than the colluder at {length(low)}, and yet nearer than the one at {length(high)}"


def _ring_words(low_m: float, high_m: float) -> str:
    if math.isinf(high_m):
        return f"So it is more than {length(low_m)} away"
    if low_m == 0:
        return f"So it is less than {length(high_m)} away"
    if length(low_m) == length(high_m):
        return f"So it is {length(low_m)} away"
    if low_m > high_m:
        return "The answers from here contradict each other"
    return f"So it is {length(low_m)} to {length(high_m)} away"


def _area(square_km: float) -> str:
    if square_km < 0.01:
        return f"{1e6 * square_km:,.0f}\N{NO-BREAK SPACE}m²"
    return (f"{square_km:,.0f}" if square_km >= 10 else f"{square_km:.2g}") + "\N{NO-BREAK SPACE}km²"


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
