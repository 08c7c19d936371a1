"""The paper's bounds on expected displacement (its Theorems 6 and 8), beside the exact expectation."""

from __future__ import annotations

import math

from scipy.special import ndtr

from nearveil.mechanisms.disc_law import expected_displacement
from nearveil.mechanisms.disc_sampler import NOISE_CODES
from nearveil.privacy.accounting import Noise


def paper_displacement_bound(scale: float, noise: Noise = "laplace") -> float:
    """Return the paper's bound on E|x' - x|₁ for the unit disc around the origin.

    It holds for x in the disc. The paper states it for the whole square [-1, 1]², where it fails.

    Examples
    --------
    >>> round(paper_displacement_bound(0.1), 3)
    0.2
    >>> round(exact_displacement((1.0, 1.0), 0.1), 3)  # a corner of the square
    0.733
    """
    if noise == "laplace":
        return 2 * (scale - 2 / math.expm1(2 / scale)) if 2 / scale < 700 else 2 * scale
    mass = float(ndtr(2 / scale)) - 0.5
    return scale * math.sqrt(2 / math.pi) * -math.expm1(-2 / scale**2) / mass


def exact_displacement(x: tuple[float, float], scale: float, noise: Noise = "laplace", *, norm: int = 1) -> float:
    """Return E|x' - x| in the L1 (or L2) norm for the unit disc around the origin, by quadrature."""
    return float(expected_displacement(NOISE_CODES[noise], float(x[0]), float(x[1]), float(scale), norm))
