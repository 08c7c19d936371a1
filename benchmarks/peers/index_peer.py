"""What an index must do to be compared."""

import math
from dataclasses import dataclass
from typing import Protocol

from nearveil.types import FloatArray

Ids = list[int]


class IndexPeer(Protocol):
    """Everybody on a map: asks and moves go by number."""

    def nearest(self, query: int, k: int) -> Ids:
        """Return the k nearest to a query, nearest first."""

    def move(self, person: int, query: int) -> None:
        """Put somebody where a query was asked, durably or not, as the peer does it without further words."""


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """Where people are and where is asked from, in metres and in degrees, shape (n, 2).

    Attributes
    ----------
    first_reach_m : float
        How far to look first, for those who must be told.
    """

    people_m: FloatArray
    people_deg: FloatArray
    queries_m: FloatArray
    queries_deg: FloatArray
    first_reach_m: float = math.inf
