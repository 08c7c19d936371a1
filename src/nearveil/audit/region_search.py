"""A search over the region for the places where outputs scatter least: a coarse lattice first, then its suspects."""

from __future__ import annotations

import math

import numpy as np

from nearveil.audit.region_pairs import as_place
from nearveil.audit.sampling import SEARCH_STREAM, Sampler
from nearveil.audit.subject import Place
from nearveil.region import Region
from nearveil.types import FloatArray

# For each round, how often to draw for each place and which share of the places goes on. Four draws already put a place
# with a third of the noise among the least tenth nine times out of ten.
_ROUNDS = ((4, 0.08), (12, 0.05), (60, 0.0))
_FOUND = 2
_LEAST_PLACES, _MOST_PLACES = 2_048, 131_072


def search_places(sampler: Sampler, budget: int) -> list[Place]:
    """Return the places whose outputs scatter least, of a lattice as fine as so many draws allow; none if few.

    Drawing less noise somewhere is not wrong by itself: the claim may allow it. It only says where to look.
    """
    number = min(int(budget / _draws_per_place()), _MOST_PLACES)
    if number < _LEAST_PLACES:
        return []
    region = sampler.subject.region
    places = _lattice(region, number, sampler.generator((SEARCH_STREAM,)))
    outputs = np.empty((len(places), 0, 2))
    for round_number, (draws, share) in enumerate(_ROUNDS, 1):
        fresh = sampler.draw_each(places, draws, (SEARCH_STREAM, round_number))
        outputs = np.concatenate([outputs, fresh], axis=1)
        kept = np.argsort(_scatter(outputs), kind="stable")[: max(int(share * len(places)), _FOUND)]
        places, outputs = places[kept], outputs[kept]
    return [as_place(region, place) for place in places]


def _draws_per_place() -> float:
    """Draws in all rounds together, for each place of the lattice."""
    left, total = 1.0, 0.0
    for draws, share in _ROUNDS:
        total += left * draws
        left *= share
    return total


def _scatter(outputs: FloatArray) -> FloatArray:
    """Mean distance of a place's outputs from their own mean."""
    apart = outputs - outputs.mean(axis=1, keepdims=True)
    scatter: FloatArray = np.hypot(apart[..., 0], apart[..., 1]).mean(axis=1)
    return scatter


def _lattice(region: Region, number: int, rng: np.random.Generator) -> FloatArray:
    """At most so many places, evenly over the region and shifted at random, in degrees."""
    width, height = (2 * half for half in region.half_extent_m)
    columns = min(max(int(math.sqrt(number * width / height)), 1), number)
    rows = number // columns
    x, y = ((np.arange(count) + rng.random()) / count - 0.5 for count in (columns, rows))
    metres = np.stack(np.meshgrid(x * width, y * height), axis=-1).reshape(-1, 2)
    return region.clip(region.from_metres(metres))
