"""What a store says of the noise of its published places, so that cells can be made from these without the service.

The noise is public, and the keys are not: who reads a store learns from it how places were published, and not where
people are.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from nearveil.errors import DataError
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.nearby.publishing.protection import Policy, Protection
from nearveil.nearby.stores.base import Store
from nearveil.region import Region

STATED_SETTING = "noise of the published places"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedNoise:
    """The noise that a store's places are published with.

    Attributes
    ----------
    region : Region
        What the places are counted in.
    policy : Policy
        What happens to repeated reports.
    hide_within_m : float or None
        Mean length of the planar Laplace noise of a published place; None if people are hidden among people.
    since_epoch : int
        Places that were published before this epoch may have other noise.
    """

    region: Region
    policy: Policy
    hide_within_m: float | None
    since_epoch: int = 0

    @classmethod
    def of(cls, protection: Protection) -> StatedNoise:
        """Return the noise of a protection."""
        noise, region = protection.noise, protection.region
        return cls(
            region=Region(region.south, region.west, region.north, region.east),
            policy=protection.policy,
            hide_within_m=None if isinstance(noise, HideAmong) else noise.hide_within_m,
        )

    def to_json(self) -> str:
        """Write it as the store keeps it."""
        edges = [self.region.south, self.region.west, self.region.north, self.region.east]
        document = {"region": edges, "policy": str(self.policy), "hide_within_m": self.hide_within_m}
        return json.dumps({**document, "since_epoch": self.since_epoch})


def stated_noise(kept: str) -> StatedNoise:
    """Read what `StatedNoise.to_json` wrote."""
    try:
        document: dict[str, Any] = json.loads(kept)
        length_m, (south, west, north, east) = document["hide_within_m"], document["region"]
        return StatedNoise(
            region=Region(float(south), float(west), float(north), float(east)),
            policy=Policy(document["policy"]),
            hide_within_m=None if length_m is None else float(length_m),
            since_epoch=int(document["since_epoch"]),
        )
    except (KeyError, TypeError, ValueError):
        raise DataError("the noise that the store states cannot be read; use the version that wrote it") from None


def state_noise(store: Store, protection: Protection) -> None:
    """Let a store say with which noise its places are published.

    After a change of the noise, this is said of what is published from then on. Places that waited for their
    publication when it changed are among these.
    """
    own, kept = StatedNoise.of(protection), store.setting(STATED_SETTING)
    if kept is None:
        store.settle(STATED_SETTING, own.to_json())
        return
    with suppress(DataError):
        if replace(stated_noise(kept), since_epoch=0) == own:
            return
    last_epoch = store.last_epoch()
    since_epoch = 0 if last_epoch is None else last_epoch + 1
    store.keep_setting(STATED_SETTING, replace(own, since_epoch=since_epoch).to_json())
