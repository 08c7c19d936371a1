"""Square: uniform in a square around the person more likely than elsewhere (Hong, Jung and Shim, 2022)."""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from nearveil.mechanisms.base import Mechanism, local_guarantee, rounding_delta
from nearveil.privacy.accounting import root_between
from nearveil.privacy.guarantee import Basis, Certificate, Guarantee, Method, check_epsilon
from nearveil.randomness import RowKeystream
from nearveil.region import Region
from nearveil.types import FloatArray


class Square(Mechanism):
    """Publish a location with density e^ε α in a square around the user, α elsewhere in the region.

    The square's center is moved so that the square stays in the region. Its side makes the mean squared error least.

    Parameters
    ----------
    epsilon : float
        Largest loss between any two locations of the region.
    region : Region or str
        Public region.
    seed : int, optional
        For experiments only.

    Examples
    --------
    >>> Square(epsilon=1.0, region="san-francisco", seed=1).perturb([[37.77, -122.42]]).shape
    (1, 2)
    """

    frame = "square"

    def __init__(self, *, epsilon: float = 1.0, region: Region | str | None = None, seed: int | None = None) -> None:
        check_epsilon(epsilon)
        self.epsilon = epsilon
        self.region = region
        self.seed = seed
        _ = self.resolved_region

    @property
    def side(self) -> float:
        """Side of the square, in units of the square [-1, 1]²."""
        width, height = 2 * self._half_extent
        return square_side(self.epsilon, width, height)

    @property
    def _half_extent(self) -> FloatArray:
        return np.array(self.resolved_region.half_extent_square)

    @property
    def _outside_density(self) -> float:
        return float(1 / (4 * self._half_extent.prod() + math.expm1(self.epsilon) * self.side**2))

    def _corner(self, x: FloatArray) -> FloatArray:
        """Lower left corner of the square around x, moved into the region."""
        half_extent, side = self._half_extent, self.side
        lower: FloatArray = np.clip(np.asarray(x) - side / 2, -half_extent, half_extent - side)
        return lower

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        """Uniform on the region with probability α A, else uniform in the square."""
        half_extent, u = self._half_extent, rows.uniforms(3)
        anywhere = u[:, :1] < self._outside_density * 4 * half_extent.prod()
        drawn: FloatArray = np.where(anywhere, (2 * u[:, 1:] - 1) * half_extent, self._corner(x) + self.side * u[:, 1:])
        return drawn

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Log density per unit of the square."""
        offset = np.asarray(t) - self._corner(x)
        near = ((offset >= 0) & (offset <= self.side)).all(axis=-1)
        inside = (np.abs(t) <= self._half_extent).all(axis=-1)
        density: FloatArray = np.where(inside, math.log(self._outside_density) + self.epsilon * near, -np.inf)
        return density

    def rescaled(self, factor: float) -> Self:
        """Return a copy with epsilon divided by ``factor``."""
        return self.with_params(epsilon=self.epsilon / factor)

    @property
    def guarantee(self) -> Guarantee:
        """Local differential privacy over the region."""
        return local_guarantee(
            epsilon=self.epsilon,
            delta=rounding_delta(self.epsilon, choices=2),
            basis=Basis.THEOREM,
            because=(
                "the density takes two values whose ratio is e^epsilon for every location; delta is what the rounding "
                "of numbers can add"
            ),
            notes=self._notes(),
            certificate=self._certificate(),
        )

    def _certificate(self) -> Certificate:
        """Loss at an output in one corner, between a location there and one whose square does not reach it."""
        corner = self.resolved_region.half_extent_square
        opposite = -corner[0], -corner[1]
        # With a square as large as the region all users are indistinguishable.
        reached = bool((self._corner(np.array(opposite)) + self.side >= np.array(corner)).all())
        return Certificate(
            bound=self.epsilon,
            attained=0.0 if reached else self.epsilon,
            first=corner,
            second=opposite,
            output=corner,
            frame=self.frame,
            method=Method.CLOSED_FORM,
            how="the density has the same two values for all users, and the ratio of the two is e^epsilon",
        )


def square_side(epsilon: float, width: float, height: float) -> float:
    """Return the side that makes the mean squared error least, on a width x height region."""
    excess = math.expm1(epsilon)
    area, total = width * height, width + height
    diagonal = width**2 + height**2

    def slope(b: float) -> float:
        rising = 3 * excess * total * b**5 + 4 * excess * area * b**4 + 5 * area * total * b**3
        return rising + 8 * area**2 * b**2 - 4 * area**2 * diagonal

    return min(root_between(slope, 0.0, 2 * max(width, height), precision=2e-12), width, height)
