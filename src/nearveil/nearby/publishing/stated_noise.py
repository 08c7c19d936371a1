"""What a store says of the noise of its published places, and cells that are made from these.

The noise is public, and the keys are not: who reads a store learns from it how places were published, and not where
people are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points, cells_from_published
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.nearby.publishing.protection import Protection
from nearveil.nearby.stores.base import STEP_M, Store
from nearveil.nearby.stores.published import reading_published
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray

STATED_SETTING = "noise of the published places"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedNoise:
    """The noise that a store's places are published with.

    Attributes
    ----------
    region : Region
        What the places are counted in.
    noise_m : float or None
        Mean length of the planar Laplace noise of a published place; None if people are hidden among people.
    since_epoch : int
        Places that were published before this epoch may have other noise.
    """

    region: Region
    noise_m: float | None
    since_epoch: int = 0

    @classmethod
    def of(cls, protection: Protection) -> StatedNoise:
        """Return the noise of a protection."""
        noise, region = protection.noise, protection.region
        return cls(
            region=Region(region.south, region.west, region.north, region.east),
            noise_m=None if isinstance(noise, HideAmong) else noise.noise_m,
        )

    def to_json(self) -> str:
        """Write it as the store keeps it."""
        edges = [self.region.south, self.region.west, self.region.north, self.region.east]
        return json.dumps({"region": edges, "noise_m": self.noise_m, "since_epoch": self.since_epoch})


def stated_noise(kept: str) -> StatedNoise:
    """Read what `StatedNoise.to_json` wrote."""
    try:
        document: dict[str, Any] = json.loads(kept)
        length_m, (south, west, north, east) = document["noise_m"], document["region"]
        return StatedNoise(
            region=Region(float(south), float(west), float(north), float(east)),
            noise_m=None if length_m is None else float(length_m),
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


# Cells from what a store has published.


def cells_from_store(store: Store, protection: Protection, plan: CellPlan | None = None) -> Cells:
    """Make cells from the places that a store has published. They are noisy already, so that costs nobody anything.

    Parameters
    ----------
    store : Store
        With people on the map.
    protection : Protection
        How they were published: noise in metres is taken out of the density again.
    plan : CellPlan, optional
        How cells are to be made.
    """
    region = protection.region
    places = _places([batch.steps for batch in store.published()], region)
    if isinstance(protection.noise, HideAmong):
        return replace(cells_from_points(places, region, plan), source="published")
    return cells_from_published(places, region, protection.noise.noise_m, plan)


def cells_from_published_store(address: str, plan: CellPlan | None = None, *, region: Region | None = None) -> Cells:
    """Make cells from the published places of a store, with the noise that the store states. No key is needed.

    Parameters
    ----------
    address : str
        A SQLite file, or ``postgresql://…``. It is read only, and a service may be running on it.
    plan : CellPlan, optional
        How cells are to be made.
    region : Region, optional
        The region to make them for; a store of another one is refused. The store's if not given.
    """
    with reading_published(address) as reader:
        kept = reader.setting(STATED_SETTING)
        if kept is None:
            raise DataError("the store does not state the noise of its published places; start its service once")
        stated = stated_noise(kept)
        if stated.noise_m is None:
            raise UsageError(
                "the store's places are published with hide-among and state no planar noise to take out again; make "
                "the cells from public data (--density), or ask the service, which counts them as they are (GET "
                "/v1/cells)"
            )
        if region is not None and (region.scaling != "isotropic" or not region.same_edges(stated.region)):
            raise UsageError(f"the store is of the region {stated.region} with isotropic scaling; leave out the other")
        steps = reader.steps(stated.since_epoch)
    return cells_from_published(_places([steps], stated.region), stated.region, stated.noise_m, plan)


def _places(steps: Sequence[IntArray], region: Region) -> FloatArray:
    if sum(map(len, steps)) < 2:
        raise DataError("cells are made from two published people or more; wait until there are some")
    return region.clip(region.from_metres(np.vstack(steps).astype(np.float64) * STEP_M))
