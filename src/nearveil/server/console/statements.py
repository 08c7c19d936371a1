"""The guarantee card as plain statements: what a page shows to somebody who has never heard of epsilon."""

from __future__ import annotations

import math
from typing import Any

from nearveil.privacy.explain import believed_at_most
from nearveil.privacy.guarantee import Guarantee, Notion, round_up

_DISTANCES_M = (50, 100, 250, 500, 1000, 2000)
_HOPELESS = 0.999


def card_of(guarantee: Guarantee) -> dict[str, Any]:
    """Return the card: whether anything is protected, every statement, the notes, and the text that is printed."""
    statements = (guarantee, *guarantee.also)
    return {
        "protected": all(_protects(statement) for statement in statements),
        "statements": [_statement(statement) for statement in statements],
        "notes": [note for statement in statements for note in statement.notes],
        "text": guarantee.card(),
    }


def _protects(guarantee: Guarantee) -> bool:
    """Whether a statement is true and says anything: with protection off, epsilon has no bound."""
    return guarantee.holds and math.isfinite(guarantee.epsilon)


def _statement(guarantee: Guarantee) -> dict[str, Any]:
    endless = math.isinf(guarantee.epsilon)
    return {
        "title": guarantee.title,
        "holds": _protects(guarantee),
        "terms": [
            {"term": "What it means", "words": _sentence(guarantee.protects)},
            *([] if endless else [{"term": "Between what", "words": _sentence(guarantee.neighbours)}]),
            {"term": "The number", "words": _number(guarantee)},
            {
                "term": "Why",
                "words": _sentence(guarantee.because if endless else f"{guarantee.basis}: {guarantee.because}"),
            },
        ],
        "by_distance": _by_distance(guarantee) if _protects(guarantee) else [],
    }


def _number(guarantee: Guarantee) -> str:
    if math.isinf(guarantee.epsilon):
        return "There is none: nothing bounds what can be learned."
    offset = f", and {round_up(guarantee.offset)} on top" if guarantee.offset else ""
    delta = f"; delta = {round_up(guarantee.delta)}" if guarantee.delta else ""
    return f"Epsilon = {round_up(guarantee.epsilon)} {guarantee.unit}{offset} ({guarantee.notion} notion){delta}."


def _by_distance(guarantee: Guarantee) -> list[dict[str, Any]]:
    """How sure somebody can become of one of two places that they held equally likely, in per cent, rounded up."""
    if guarantee.notion is not Notion.METRIC:
        return []
    found: list[dict[str, Any]] = []
    for distance_m in _DISTANCES_M:
        sure = believed_at_most(guarantee.epsilon * distance_m + guarantee.offset)
        hidden = sure <= _HOPELESS
        found.append({"distance_m": distance_m, "sure_percent": math.ceil(1000 * sure) / 10 if hidden else None})
        if not hidden:
            break
    return found


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:].rstrip(".") + "."
