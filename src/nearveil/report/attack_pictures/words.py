"""One attack in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nearveil.attacks.oracle import Spot
from nearveil.attacks.result import Outcome, TraceStep
from nearveil.report.attack_pictures.answers import Account, Bounds, accounts_of, bounds_of
from nearveil.report.attack_pictures.scene import Scene


def length(metres: float) -> str:
    """A length in words, which stay on one line."""
    if metres >= 1000:
        return f"{metres / 1000:,.{0 if metres >= 10_000 else 1}f}\N{NO-BREAK SPACE}km"
    return f"{metres:.{0 if metres >= 9.95 else 1}f}\N{NO-BREAK SPACE}m"


def verdict(scene: Scene) -> str:
    """Whether the person was found, which is another question than whether the published place was."""
    estimate = scene.result.estimate
    if estimate is None:
        return f"no estimate, {scene.result.outcome}"
    person = _hit_or_miss("person", math.dist(estimate, scene.truth), scene.tau_m)
    if scene.published is None:
        return person
    return f"{_hit_or_miss('published place', math.dist(estimate, scene.published), scene.tau_m)}, {person}"


def _hit_or_miss(what: str, error_m: float, tau_m: float) -> str:
    return f"{what} found" if error_m <= tau_m else f"{what} missed by {length(error_m)}"


def legend_name(scene: Scene, name: str) -> str:
    """What a legend calls a mark: a protected service has published places only, and so has whoever asks it."""
    as_published = {"people": "people, as published", "others located": "others' published places located"}
    if name == "a colluder":
        return "a colluder (the attacker's account)"
    return name if scene.published is None else as_published.get(name, name)


def heading(scene: Scene, title: str) -> str:
    """A title that says what came of the attack."""
    return f"{title}: {verdict(scene)}"


def summary(scene: Scene) -> str:
    """The attack in one line, below the heading."""
    queries = scene.result.queries
    parts = [f"{queries:,} question{'s' if queries != 1 else ''}"]
    if scene.result.estimate is not None:
        parts += [_error_words(scene, scene.result.estimate), _certificate(scene)]
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
    sentences = [f"Result: {verdict(scene)}"]
    if result.others:
        whose = "others" if scene.published is None else "others' published places"
        sentences[0] += f", and estimates of {len(result.others):,} {whose} as well"
    if result.estimate is not None:
        sentences += [f"The {_error_words(scene, result.estimate)}", _certificate(scene).capitalize()]
    return ". ".join(sentences) + "."


def _error_words(scene: Scene, estimate: Spot) -> str:
    """How far the estimate is off, from the person and from what is published."""
    words = f"estimate is {length(math.dist(estimate, scene.truth))} from the person"
    if scene.published is not None:
        words += f" and {length(math.dist(estimate, scene.published))} from the published place"
    return words


def _certificate(scene: Scene) -> str:
    """What is certified: a place as the service has it. Of a protected person that is the published place only."""
    result, what = scene.result, "place" if scene.published is None else "published place"
    if result.outcome is not Outcome.FOUND:
        return f"the attack ended early, {result.outcome}"
    if not result.certified:
        return "not certified"
    if result.estimate is None or math.dist(result.estimate, scene.seen) > scene.tau_m:
        return f"certified wrongly: the {what} is farther off than {length(scene.tau_m)}"
    return f"certified: the answers leave no {what} farther off than {length(scene.tau_m)}"


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
