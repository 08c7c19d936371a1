"""Which pairs of places to try for a mechanism and a claim."""

from __future__ import annotations

from nearveil.audit.claim import Claim
from nearveil.audit.density_pairs import density_pairs
from nearveil.audit.interval_pairs import interval_pairs, with_intervals
from nearveil.audit.pairs import Pair
from nearveil.audit.region_pairs import pairs_around, pairs_by_distance, region_pairs
from nearveil.audit.subject import Place
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.intervals import Intervals
from nearveil.privacy.guarantee import Notion
from nearveil.region import Region


def audit_pairs(region: Region, claim: Claim, *, intervals: Intervals | None = None) -> list[Pair]:
    """Return pairs for anything that works in a region: with intervals, where they are known."""
    pairs = region_pairs(region)
    if claim.notion is Notion.METRIC:
        pairs += pairs_by_distance(region, claim.epsilon)
    if intervals is not None:
        pairs = [*interval_pairs(intervals), *with_intervals(pairs, intervals)]
    return pairs


def place_pairs(region: Region, place: Place, claim: Claim, *, intervals: Intervals | None = None) -> list[Pair]:
    """Return pairs of a given place and others around it."""
    per_metre = claim.epsilon if claim.notion is Notion.METRIC else None
    pairs = pairs_around(region, place, per_metre, "around the place that was asked for")
    return pairs if intervals is None else with_intervals(pairs, intervals)


def mechanism_pairs(mechanism: Mechanism, claim: Claim) -> list[Pair]:
    """Return pairs for one of our mechanisms: by its region, its intervals, and for a local claim by its density."""
    if isinstance(mechanism, DPRS):
        return audit_pairs(mechanism.resolved_region, claim, intervals=mechanism.current_intervals)
    pairs = audit_pairs(mechanism.resolved_region, claim)
    if claim.notion is Notion.LOCAL:
        pairs += density_pairs(mechanism, claim.epsilon)
    return pairs
