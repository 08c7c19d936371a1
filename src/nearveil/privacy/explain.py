"""Explanation of a guarantee: what somebody who sees the result may learn, in plain numbers."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable

from nearveil.privacy.guarantee import Certificate, Guarantee, PrivacyDefinition, round_up

_WIDTH = 96
_DISTANCES_M = (10, 50, 100, 250, 500, 1000, 2000, 5000)
_STEPS = (1, 2, 3, 5, 10, 20)
_HOPELESS = 0.9999
_NUMERICAL_DELTA = 1e-9


def explain(guarantee: Guarantee) -> str:
    """Return the card as an explanation for someone who has never heard of epsilon.

    Examples
    --------
    >>> from nearveil.mechanisms.square import Square
    >>> print(explain(Square(epsilon=1.0, region="berlin").guarantee).splitlines()[0])
    EVERY PUBLISHED PLACE
    """
    statements = (guarantee, *guarantee.also)
    parts = [_statement(statement) for statement in statements]
    notes = [note for statement in statements for note in statement.notes]
    if notes:
        parts.append("\n".join(["BESIDES", *(_wrapped(note, bullet="- ") for note in notes)]))
    return "\n\n".join(parts)


def believed_at_most(loss: float) -> float:
    """Return how sure one can become of one of two places held equally likely, after a privacy loss of ``loss``.

    Examples
    --------
    >>> round(believed_at_most(1.0), 2)
    0.73
    """
    return 1 / (1 + math.exp(-loss))


def meaning_of_loss(loss: float) -> str:
    """Say in words what a loss between two places allows somebody to learn, and where that is nearly everything.

    Examples
    --------
    >>> print(meaning_of_loss(1.0))  # doctest: +ELLIPSIS
    With a loss of 1, what is published is at most 2.72 times likelier from one of two places than from the other. ...
    """
    hardly_any = f" {_HARDLY_ANY}" if loss >= HARDLY_ANY_PROTECTION else ""
    return (
        f"With a loss of {loss:g}, what is published is {_times(loss)} likelier from one of two places than from the "
        f"other. {_belief(loss)}{hardly_any}"
    )


HARDLY_ANY_PROTECTION = 5.0
"""From this loss on, one of two places is as good as known: 99 % sure."""
_HARDLY_ANY = (
    "This is practically no protection against somebody who knows a few places where the person may be, such as home "
    "and work."
)


def _statement(guarantee: Guarantee) -> str:
    title = guarantee.title.upper()
    if not guarantee.is_promised:
        return "\n".join([title, _wrapped(f"Nothing is promised: {guarantee.because}. Do not rely on it.")])
    if not guarantee.holds:
        claim = f"A claim of epsilon = {round_up(guarantee.epsilon)} that is false: {guarantee.because}."
        return "\n".join([title, _wrapped(f"{claim} Do not rely on it.")])
    lines = [_wrapped(f"Two worlds are compared: {guarantee.neighbors}."), *_MEANINGS[guarantee.definition](guarantee)]
    lines.append(_wrapped(f"In short: {guarantee.promise}."))
    if guarantee.not_covered:
        lines.append(_wrapped(f"Not covered: {guarantee.not_covered}."))
    lines.append(_wrapped(f"Why it may be believed ({guarantee.basis}): {guarantee.because}."))
    if guarantee.certificate is not None:
        lines.append(_wrapped(_certificate(guarantee.certificate, _unit(guarantee))))
    if guarantee.delta:
        lines.append(_wrapped(f"To a probability so bounded, {round_up(guarantee.delta)} (delta) may come on top."))
    return "\n".join([title, *lines])


def _one_number(guarantee: Guarantee) -> list[str]:
    loss = guarantee.epsilon
    ratio = f"Whatever is published, it is {_times(loss)} likelier in the one than in the other{_but_for(guarantee)}."
    hardly_any = (
        f" {_HARDLY_ANY}"
        if loss >= HARDLY_ANY_PROTECTION and guarantee.definition is not PrivacyDefinition.CENTRAL
        else ""
    )
    return [_wrapped(f"{ratio} {_belief(loss)}{hardly_any}")]


def _but_for(guarantee: Guarantee) -> str:
    """Where delta is more than a rounding error, the ratio alone is not a bound."""
    return ", but for delta" if guarantee.delta > _NUMERICAL_DELTA else ""


def _by_metres(guarantee: Guarantee) -> list[str]:
    return _by_distance(guarantee, "how far apart two places are", {f"{m:>5,} m apart": m for m in _DISTANCES_M})


def _by_steps(guarantee: Guarantee) -> list[str]:
    depends = "how many steps apart two places are; steps are short where people are dense"
    labels = {f"{f'{steps} step' if steps == 1 else f'{steps} steps':>8} apart": steps for steps in _STEPS}
    return _by_distance(guarantee, depends, labels)


def _by_distance(guarantee: Guarantee, depends: str, distances: dict[str, int]) -> list[str]:
    head = (
        f"How much can be learned depends on {depends}. Somebody who held both equally likely can become so sure of "
        "the one, at most:"
    )
    lines = [_wrapped(head)]
    for label, distance in distances.items():
        loss = guarantee.epsilon * distance + guarantee.offset
        sure = believed_at_most(loss)
        learned = f"{_percent(sure)} sure ({_times(loss)} likelier)"
        text = "not hidden from each other" if sure > _HOPELESS else learned
        lines.append(f"    {label}: {text}")
        if sure > _HOPELESS:
            break
    return lines


def _shared(guarantee: Guarantee) -> list[str]:
    if guarantee.epsilon == 0:
        return [_wrapped("Nobody's data was used, so there is nothing to learn from it.")]
    return _one_number(guarantee)


_MEANINGS: dict[PrivacyDefinition, Callable[[Guarantee], list[str]]] = {
    PrivacyDefinition.LOCAL: _one_number,
    PrivacyDefinition.INTERVAL: _one_number,
    PrivacyDefinition.METRIC: _by_metres,
    PrivacyDefinition.ELASTIC: _by_steps,
    PrivacyDefinition.CENTRAL: _shared,
}


def _belief(loss: float) -> str:
    return f"Somebody who held both equally likely can become {_percent(believed_at_most(loss))} sure of one at most."


def _percent(share: float) -> str:
    """A share, never less than it is, and never a whole that it is not."""
    digits = 0 if share < 0.99 else 2
    rounded = math.ceil(share * 10 ** (2 + digits) - 1e-9) / 10**digits
    return f"{rounded:.{digits}f} %" if rounded < 100 else "all but completely"


def _times(loss: float) -> str:
    factor = math.exp(loss) if loss < 25 else math.inf
    return f"at most {round_up(factor)} times" if factor < 1e6 else "perhaps more than a million times"


def _certificate(certificate: Certificate, unit: str) -> str:
    bound = f"{round_up(certificate.bound, 6)}{unit}"
    return (
        f"The number was computed ({certificate.method}): the loss is never above {bound}, and there are two places "
        f"between which it is {certificate.attained:.6g}{unit}."
    )


def _unit(guarantee: Guarantee) -> str:
    return f" {guarantee.unit}" if guarantee.definition.is_by_distance else ""


def _wrapped(text: str, bullet: str = "") -> str:
    return textwrap.fill(bullet + text, _WIDTH, subsequent_indent=" " * len(bullet), break_long_words=False)
