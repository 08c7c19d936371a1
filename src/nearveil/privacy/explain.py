"""Explanation of a guarantee: everything it states, and what anyone who sees the result may learn, in plain numbers."""

from __future__ import annotations

import math
import textwrap

from nearveil.privacy.guarantee import NUMERICAL_DELTA, Guarantee, PrivacyDefinition, round_up

_WIDTH = 96
_DISTANCES_M = (10, 50, 100, 250, 500, 1000, 2000, 5000)
_STEPS = (1, 2, 3, 5, 10, 20)
# From this loss on, one of two locations is as good as known: 99 % sure.
_HARDLY_ANY_PROTECTION = 5.0
_HARDLY_ANY = " This is practically no protection against anyone who knows a few locations: home, work."


def explain(guarantee: Guarantee) -> str:
    """Return what a guarantee means to someone who has never heard of epsilon."""
    statements = (guarantee, *guarantee.also)
    notes = [_wrapped(f"Note: {note}") for statement in statements for note in statement.notes]
    return "\n\n".join([*map(_statement, statements), *(["\n".join(notes)] if notes else [])])


def believed_at_most(loss: float) -> float:
    """Return how sure one can become of one of two locations held equally likely, after a privacy loss of ``loss``."""
    return 1 / (1 + math.exp(-loss))


def _statement(guarantee: Guarantee) -> str:
    title = guarantee.title.upper()
    if not guarantee.holds:
        claim = f"A claim of epsilon = {round_up(guarantee.epsilon)} that is false"
        what = claim if guarantee.is_promised else "Nothing is promised"
        return f"{title}\n" + _wrapped(f"{what}: {guarantee.because}. Do not rely on it.")
    delta = f", delta = {round_up(guarantee.delta)}" if guarantee.delta else ""
    facts = {
        title: guarantee.number + delta,
        "Promise": guarantee.promise,
        "Between": guarantee.neighbors,
        "Not covered": guarantee.not_covered,
        "Basis": f"{guarantee.basis}: {guarantee.because}",
    }
    return "\n".join([*(_wrapped(f"{label}: {text}") for label, text in facts.items() if text), *_meaning(guarantee)])


def _meaning(guarantee: Guarantee) -> list[str]:
    if guarantee.definition is PrivacyDefinition.METRIC:
        return _by_distance(guarantee, "how far apart two locations are", _DISTANCES_M, "m")
    if guarantee.definition is PrivacyDefinition.ELASTIC:
        depends = "how many steps apart two locations are; steps are short where users are dense"
        return _by_distance(guarantee, depends, _STEPS, "steps")
    # Where delta is more than a rounding error, the ratio alone is not a bound.
    but = ", but for delta" if guarantee.delta > NUMERICAL_DELTA else ""
    weak = guarantee.epsilon >= _HARDLY_ANY_PROTECTION and guarantee.is_of_release
    return [
        _wrapped(
            f"Whatever is published, it is {_times(guarantee.epsilon)} likelier from one of the two than from the "
            f"other{but}. Anyone who held both equally likely can become "
            f"{_percent(believed_at_most(guarantee.epsilon))} sure of one at most.{_HARDLY_ANY if weak else ''}"
        )
    ]


def _by_distance(guarantee: Guarantee, depends: str, distances: tuple[int, ...], unit: str) -> list[str]:
    head = f"How much can be learned depends on {depends}."
    lines = [_wrapped(f"{head} Anyone who held both equally likely can become so sure of the one, at most:")]
    for distance in distances:
        loss = guarantee.epsilon * distance + guarantee.offset
        sure = _percent(believed_at_most(loss))
        lines.append(
            f"    {distance:>5,} {unit if distance > 1 else 'step'} apart: {sure} sure ({_times(loss)} likelier)"
        )
    return lines


def _percent(share: float) -> str:
    """A share, never less than it is, and never a whole that it is not."""
    digits = 0 if share < 0.99 else 2
    rounded = math.ceil(share * 10 ** (2 + digits) - 1e-9) / 10**digits
    return f"{rounded:.{digits}f} %" if rounded < 100 else "all but completely"


def _times(loss: float) -> str:
    factor = math.exp(loss) if loss < 25 else math.inf
    return f"at most {round_up(factor)} times" if factor < 1e6 else "perhaps more than a million times"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH, subsequent_indent="    ", break_long_words=False)
