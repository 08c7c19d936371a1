"""What one release was asked to do, and what became of it, whichever engine did it."""

from __future__ import annotations

from dataclasses import dataclass

from nearveil.evaluation.utility import Displacement
from nearveil.mechanisms.base import Mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOrder:
    """Where people are, where they are to be published, and how to read them; as the options of ``protect`` say."""

    source: str
    output: str
    latitude: str | None
    longitude: str | None
    drop: tuple[str, ...]
    person: str | None
    per_row: bool
    clip: bool
    keep_order: bool
    force: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """A release that is done.

    Attributes
    ----------
    mechanism : Mechanism
        As it was used, with its intervals.
    rows, clipped : int
        How many were written, and how many of them were moved to the edge of the region first: the latter is a figure
        about true places.
    several_rows : bool
        Whether a person may have several rows.
    fitted_here : bool
        Whether the intervals are from the people released.
    clip : bool
        Whether people outside the region may have been moved to its edge.
    keeps_order : bool
        Whether the rows are in the order of the input.
    warnings : tuple of str
        What to think about.
    displacement : Displacement or None
        How far people were moved, where the engine measures it: figures about true places.
    """

    mechanism: Mechanism
    rows: int
    clipped: int
    several_rows: bool
    fitted_here: bool
    clip: bool
    keeps_order: bool
    warnings: tuple[str, ...]
    displacement: Displacement | None = None
