"""The statement that the mechanisms with local differential privacy share."""

from __future__ import annotations

import math

from nearveil.privacy.guarantee import Basis, Certificate, Guarantee, Notion


def rounding_delta(epsilon: float, choices: int) -> float:
    """Return what choosing among so many outcomes by one 53-bit number can add.

    Each outcome's probability is off by at most 2⁻⁵³, on both sides of the comparison, one of them times e^epsilon.
    """
    return min(1.0, choices * 2.0**-53 * (1 + math.exp(epsilon)))


def local_guarantee(
    *,
    epsilon: float,
    basis: Basis,
    because: str,
    notes: tuple[str, ...] = (),
    delta: float = 0.0,
    certificate: Certificate | None = None,
) -> Guarantee:
    """Return the guarantee of epsilon-local differential privacy over the whole region."""
    return Guarantee(
        title="Every published place",
        notion=Notion.LOCAL,
        epsilon=epsilon,
        unit="per person",
        delta=delta,
        neighbours="any two places of one person in the region, however far apart",
        protects=(
            "any two places of the region look alike up to epsilon, near or far; each further release of a "
            "person's place adds its loss to the first"
        ),
        basis=basis,
        because=because,
        notes=notes,
        certificate=certificate,
    )
