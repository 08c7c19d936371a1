"""What all mechanisms from outside have in common."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, Self

import numpy as np

from nearveil.audit.external.independence import IndependenceWatch, check_order
from nearveil.audit.subject import Place, PublishedSubject, checked_outputs
from nearveil.errors import UsageError
from nearveil.geodesy import wrap_longitude
from nearveil.region import Region
from nearveil.types import FloatArray

DEFAULT_TIMEOUT_S = 60.0

_PROBE = 256


class ExternalSubject(PublishedSubject):
    """A mechanism that somebody else wrote: it is called with a time limit, and its rows are watched.

    Parameters
    ----------
    region : Region
        Public region that places come from and must be published in.
    timeout_s : float
        Seconds that one call may take, whatever the number of rows in it.
    """

    repeatable: ClassVar[bool] = True
    """Whether the same generator gives the same outputs, if the mechanism takes its randomness from it."""

    def __init__(self, region: Region, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        super().__init__(region)
        if not (isinstance(timeout_s, int | float) and 0 < timeout_s < math.inf):
            raise UsageError("the time limit must be a positive number of seconds")
        self.timeout_s = float(timeout_s)
        self._watch = IndependenceWatch()
        self._probed = False
        self._order_checked = False

    @abstractmethod
    def publish(self, points: FloatArray, rng: np.random.Generator) -> object:
        """Call the mechanism once for all rows of ``points``."""

    def sample(self, place: Place, count: int, rng: np.random.Generator) -> FloatArray:
        """Publish ``count`` times for the same place, after watching how rows of one call hang together.

        The first sample of all is taken in two calls, so that noise shared by all rows of a call shows.
        """
        probe = 0 if self._probed else min(_PROBE, count // 2)
        self._probed = True
        calls = [size for size in (probe, count - probe) if size]
        return np.vstack([self._call(place, size, rng) for size in calls])

    def sample_each(self, places: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Publish once for every place, after making sure that rows come out in the order they went in."""
        if not self._order_checked:
            self._order_checked = True
            self._check_order(rng)
        return super().sample_each(places, rng)

    def close(self) -> None:
        """End what was started for it."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _check_order(self, rng: np.random.Generator) -> None:
        """Ask for two places far apart, one by one and then in one call: its halves must differ as the places do."""
        region = self.region
        west, east = (
            (region.centre[0], float(wrap_longitude(region.west + share * region.width_deg))) for share in (0.25, 0.75)
        )
        alone = [self._call(place, _PROBE, rng) for place in (west, east)]
        both = super().sample_each(np.repeat([west, east], _PROBE, axis=0), rng)
        check_order(alone, (both[:_PROBE], both[_PROBE:]))

    def _call(self, place: Place, count: int, rng: np.random.Generator) -> FloatArray:
        published = checked_outputs(self.publish(np.tile(np.array(place), (count, 1)), rng), count, self.region)
        outputs = self.in_metres(published)
        self._watch.look_at(place, self.in_outputs(place), outputs)
        return outputs
