"""Events as bytes and back: one JSON object each."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from nearveil.errors import DataError, UsageError
from nearveil.privacy.ledger.events import KINDS, Event
from nearveil.privacy.ledger.noise import GaussianAnswers, Law, Noise
from nearveil.privacy.paper_accounting import LaplaceAnswers


def event_to_bytes(event: Event) -> bytes:
    """Write an event as one line of ASCII, without its end."""
    document = {
        "kind": event.kind,
        "draw_id": event.draw_id,
        "when": event.when.isoformat(),
        "notion": str(event.notion),
        "epsilon": event.epsilon,
        "delta": event.delta,
        "noise": [_noise_to_dict(part) for part in event.noise],
        "who": event.who,
    }
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")


def event_from_bytes(line: bytes) -> Event:
    """Read an event that `event_to_bytes` wrote; anything else is refused rather than guessed at."""
    try:
        document = json.loads(line)
        event = _from_document(document)
        if event_to_bytes(event) == line:
            return event
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, UsageError):
        pass
    raise DataError("the ledger holds a record that this Nearveil does not understand; use the one that wrote it")


def _from_document(document: dict[str, Any]) -> Event:
    return KINDS[document["kind"]](
        who=tuple(document["who"]),
        when=datetime.fromisoformat(document["when"]),
        notion=document["notion"],
        epsilon=document["epsilon"],
        draw_id=document["draw_id"],
        delta=document["delta"],
        noise=tuple(_noise_from_dict(part) for part in document["noise"]),
    )


def _noise_to_dict(part: Noise) -> dict[str, Any]:
    if isinstance(part, LaplaceAnswers):
        return {"law": str(Law.LAPLACE), "count": part.count, "scale": part.scale}
    return {"law": str(Law.GAUSSIAN), "count": part.count, "sigma": part.sigma}


def _noise_from_dict(part: dict[str, Any]) -> Noise:
    if part["law"] == Law.LAPLACE:
        return LaplaceAnswers(part["count"], part["scale"])
    return GaussianAnswers(part["count"], part["sigma"])
