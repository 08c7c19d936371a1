"""Certificate: the largest privacy loss of a mechanism, computed, and where it is attained."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from nearveil.errors import DataError


class Method(StrEnum):
    """How the bound was computed."""

    EXHAUSTIVE = "every pair and every output"
    """A finite channel, gone through completely: the bound is the loss itself."""
    MESH = "mesh and Lipschitz term"
    """Values on a mesh, plus the most that the loss can rise between its points: an upper bound, not an estimate."""
    CLOSED_FORM = "closed form"
    """A formula that is proven."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A number that the privacy loss never exceeds, over all pairs that are promised.

    Attributes
    ----------
    bound : float
        Upper bound on the loss (for the metric notion: per metre on the ground).
    attained : float
        Loss at the pair and the output below, in the same unit: the true largest loss lies between the two.
    first, second, output : tuple of float
        Two places, and an output that is likelier from the first; in ``frame``.
    frame : str
        What the places are counted in: the square [-1, 1]² of the region, or metres east and north of its centre.
    method : Method
        How the bound was computed.
    how : str
        The same in a sentence or two that say why it may be believed.
    """

    bound: float
    attained: float
    first: tuple[float, float]
    second: tuple[float, float]
    output: tuple[float, float]
    frame: str
    method: Method
    how: str

    def __post_init__(self) -> None:
        numbers = (self.bound, self.attained, *self.first, *self.second, *self.output)
        if not all(math.isfinite(number) for number in numbers) or min(self.bound, self.attained) < 0:
            raise ValueError("a certificate needs finite numbers, and losses of at least 0")

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as plain values for JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def certificate_from_dict(document: dict[str, Any]) -> Certificate:
    """Read what `Certificate.to_dict` gave."""
    try:
        places = {name: _place(document[name]) for name in ("first", "second", "output")}
        return Certificate(
            bound=float(document["bound"]),
            attained=float(document["attained"]),
            frame=str(document["frame"]),
            method=Method(document["method"]),
            how=str(document["how"]),
            **places,
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        raise DataError("this is no certificate, or a damaged one; make one with 'nearveil certify'") from None


def _place(values: list[float]) -> tuple[float, float]:
    east, north = values
    return float(east), float(north)
