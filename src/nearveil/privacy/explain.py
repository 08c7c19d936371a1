"""Explanation of a guarantee: what anyone who sees the result may learn, in plain numbers."""

from __future__ import annotations

import math
import textwrap

from nearveil.privacy.guarantee import NUMERICAL_DELTA, Guarantee, PrivacyDefinition, round_up

_WIDTH = 96
_DISTANCES_M = (10, 50, 100, 250, 500, 1000, 2000, 5000)
_STEPS = (1, 2, 3, 5, 10, 20)
_HOPELESS = 0.9999
# From this loss on, one of two places is as good as known: 99 % sure.
_HARDLY_ANY_PROTECTION = 5.0
_HARDLY_ANY = (
    "This is practically no protection against anyone who knows a few places where the user may be, such as home and "
    "work."
)


def explain(guarantee: Guarantee) -> str:
    """Return what a guarantee means to someone who has never heard of epsilon."""
    statements = (guarantee, *guarantee.also)
    parts = [_statement(statement) for statement in statements]
    notes = [_wrapped(note, bullet="- ") for statement in statements for note in statement.notes]
    return "\n\n".join([*parts, "\n".join(["BESIDES", *notes])] if notes else parts)


def believed_at_most(loss: float) -> float:
    """Return how sure one can become of one of two places held equally likely, after a privacy loss of ``loss``."""
    return 1 / (1 + math.exp(-loss))


def _statement(guarantee: Guarantee) -> str:
    title = guarantee.title.upper()
    if not guarantee.is_promised:
        return f"{title}\n" + _wrapped(f"Nothing is promised: {guarantee.because}. Do not rely on it.")
    if not guarantee.holds:
        claim = f"A claim of epsilon = {round_up(guarantee.epsilon)} that is false: {guarantee.because}."
        return f"{title}\n" + _wrapped(f"{claim} Do not rely on it.")
    sentences = {
        f"In short: {guarantee.promise}.": True,
        f"Losses of one user's places add up: {guarantee.number}.": guarantee.most_places > 1,
        f"Not covered: {guarantee.not_covered}.": guarantee.not_covered,
        f"Why it may be believed ({guarantee.basis}): {guarantee.because}.": True,
        _certificate(guarantee): guarantee.certificate,
        f"To a probability so bounded, {round_up(guarantee.delta)} (delta) may come on top.": guarantee.delta,
    }
    worlds = _wrapped(f"Two worlds are compared: {guarantee.neighbors}.")
    said = [_wrapped(sentence) for sentence, applies in sentences.items() if applies]
    return "\n".join([title, worlds, *_meaning(guarantee), *said])


def _meaning(guarantee: Guarantee) -> list[str]:
    if guarantee.definition is PrivacyDefinition.METRIC:
        return _by_distance(guarantee, "how far apart two places are", {f"{m:>5,} m apart": m for m in _DISTANCES_M})
    if guarantee.definition is PrivacyDefinition.ELASTIC:
        depends = "how many steps apart two places are; steps are short where users are dense"
        labels = {f"{f'{steps} step' if steps == 1 else f'{steps} steps':>8} apart": steps for steps in _STEPS}
        return _by_distance(guarantee, depends, labels)
    is_central = guarantee.definition is PrivacyDefinition.CENTRAL
    if is_central and guarantee.epsilon == 0:
        return [_wrapped("No user's data was used, so there is nothing to learn from it.")]
    # Where delta is more than a rounding error, the ratio alone is not a bound.
    but = ", but for delta" if guarantee.delta > NUMERICAL_DELTA else ""
    ratio = f"Whatever is published, it is {_times(guarantee.epsilon)} likelier in the one than in the other{but}."
    sure = _percent(believed_at_most(guarantee.epsilon))
    belief = f"Anyone who held both equally likely can become {sure} sure of one at most."
    hardly_any = f" {_HARDLY_ANY}" if guarantee.epsilon >= _HARDLY_ANY_PROTECTION and not is_central else ""
    return [_wrapped(f"{ratio} {belief}{hardly_any}")]


def _by_distance(guarantee: Guarantee, depends: str, distances: dict[str, int]) -> list[str]:
    head = f"How much can be learned depends on {depends}."
    lines = [_wrapped(f"{head} Anyone who held both equally likely can become so sure of the one, at most:")]
    for label, distance in distances.items():
        loss = guarantee.epsilon * distance + guarantee.offset
        sure = believed_at_most(loss)
        if sure > _HOPELESS:
            return [*lines, f"    {label}: not hidden from each other"]
        lines.append(f"    {label}: {_percent(sure)} sure ({_times(loss)} likelier)")
    return lines


def _percent(share: float) -> str:
    """A share, never less than it is, and never a whole that it is not."""
    digits = 0 if share < 0.99 else 2
    rounded = math.ceil(share * 10 ** (2 + digits) - 1e-9) / 10**digits
    return f"{rounded:.{digits}f} %" if rounded < 100 else "all but completely"


def _times(loss: float) -> str:
    factor = math.exp(loss) if loss < 25 else math.inf
    return f"at most {round_up(factor)} times" if factor < 1e6 else "perhaps more than a million times"


def _certificate(guarantee: Guarantee) -> str:
    found = guarantee.certificate
    unit = f" {guarantee.unit}" if guarantee.definition.is_by_distance else ""
    if found is None:
        return ""
    return (
        f"The number was computed ({found.method}): the loss is never above {round_up(found.bound, 6)}{unit}, and "
        f"there are two places between which it is {found.attained:.6g}{unit}."
    )


def _wrapped(text: str, bullet: str = "") -> str:
    return textwrap.fill(bullet + text, _WIDTH, subsequent_indent=" " * len(bullet), break_long_words=False)
