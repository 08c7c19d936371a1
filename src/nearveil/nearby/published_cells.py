"""Cells from what a service has published."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nearveil.errors import DataError
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points, cells_from_published
from nearveil.nearby.publishing.protection import Protection
from nearveil.nearby.stores.base import STEP_M, Store


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
    steps = [batch.steps for batch in store.published()]
    if sum(map(len, steps)) < 2:
        raise DataError("cells are made from two published people or more; wait until there are some")
    region = protection.region
    places = region.clip(region.from_metres(np.vstack(steps).astype(np.float64) * STEP_M))
    if protection.among is not None:
        return replace(cells_from_points(places, region, plan), source="published")
    return cells_from_published(places, region, protection.planar.noise_m, plan)
