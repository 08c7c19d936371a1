"""The ledger's state as the page shows it: totals, times and counters, nobody named."""

from __future__ import annotations

import re
from typing import Any

from nearveil.server.card import service_card
from nearveil.server.console.statements import card_of
from nearveil.server.service import Service

# A counter ends in _total; of a histogram, _count says how many.
_QUESTIONS = re.compile(r"^nearveil_questions?(?:_seconds)?_(?:total|count)(?:\{[^}]*\})? (\S+)", re.MULTILINE)
_SUSPECTS = re.compile(r"^nearveil_suspects?(?:_\w+)?_total(?:\{[^}]*\})? (\S+)", re.MULTILINE)


def state_of(service: Service) -> dict[str, Any]:
    """Return what is known about the service as a whole."""
    publisher, protection = service.publisher, service.protection
    epoch, schedule, totals = publisher.epoch, protection.schedule, service.totals()
    dated = service.intervals.at(epoch)
    # Reports of this epoch are published, and charged, in the next one.
    window = schedule.window_of(epoch)
    return {
        "now": service.clock(),
        "policy": str(protection.policy),
        "hide_within_m": protection.hide_within_m,
        "epoch": {
            "number": epoch,
            "length_s": schedule.epoch_s,
            "next_border": publisher.starts_at(epoch + 1),
        },
        "window": {
            "number": window,
            "epochs": schedule.epochs_per_window,
            "ends": publisher.starts_at((window + 1) * schedule.epochs_per_window),
        },
        "ledger": {
            "people": totals.people,
            "published": totals.published,
            "pending": totals.pending,
            "charged_this_window": totals.charged_by_window.get(window, 0),
            "budget_per_person": protection.most_charges,
        },
        "questions": _counted(service, _QUESTIONS),
        "suspects": _counted(service, _SUSPECTS),
        "guarantee": card_of(service_card(protection, dated.intervals if dated else None)),
    }


def _counted(service: Service, pattern: re.Pattern[str]) -> int:
    """Sum of a counter over its labels, since the process started."""
    text = service.metrics.exposition()[0].decode()
    return round(sum(float(value) for value in pattern.findall(text)))
