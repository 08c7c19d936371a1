"""The card of a running service: what its policy promises, and what its intervals cost."""

from __future__ import annotations

from dataclasses import replace

from nearveil.mechanisms.intervals import Intervals
from nearveil.nearby.publishing.protection import Policy, Protection
from nearveil.privacy.guarantee import Guarantee

_FIT_DELTA = 1e-5


def service_card(protection: Protection, intervals: Intervals | None) -> Guarantee:
    """Return what the people of a service are promised."""
    card = protection.guarantee
    if intervals is None or protection.policy is Policy.OFF:
        return card
    return replace(card, also=(*card.also, intervals.guarantee(_FIT_DELTA)))
