"""A release, and what is true of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nearveil.mechanisms.base import Mechanism
from nearveil.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Protected:
    """A release, and what is true of it.

    Attributes
    ----------
    rows : DataFrame
        The published rows, written down already: every action returns the same.
    guarantee : Guarantee
        The card.
    mechanism : Mechanism
        As it was used, with its intervals.
    count : int
        How many rows there are, as many as went in.
    clipped : int
        How many were outside the region and moved to its edge first: a figure about true places, not to be published.
    several_rows : bool
        Whether a person may have several rows, so that the card counts rows.
    fitted_here : bool
        Whether the intervals are from these very people.
    warnings : tuple of str
        What an operator should think about.
    """

    rows: DataFrame
    guarantee: Guarantee
    mechanism: Mechanism
    count: int
    clipped: int = field(repr=False)
    several_rows: bool
    fitted_here: bool
    warnings: tuple[str, ...]
