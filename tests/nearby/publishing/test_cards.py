"""What the cards say is true, and says what is not promised."""

import itertools

import numpy as np
import pyproj
import pytest

from nearveil.errors import UsageError
from nearveil.nearby.publishing.noise import rate_per_m
from nearveil.nearby.publishing.protection import Protection
from nearveil.region import Region, named_region


@pytest.mark.parametrize("name", ["san-francisco", "fiji", "berlin"])
def test_the_loss_between_two_places_is_at_most_what_the_card_says(name: str, rng: np.random.Generator) -> None:
    region = named_region(name)
    protection = Protection(region=region, noise_m=500.0)
    card = protection.guarantee
    largest = 0.0
    for _ in range(300):
        here = _somewhere(region, rng)
        # Near each other, so that the constant matters.
        there = region.clip(here + rng.normal(0, 0.003, (1, 2)))
        ground_m = _on_the_ground(here, there)
        loss = max(_losses(protection, here, there))
        assert loss <= card.epsilon * ground_m + card.offset + 1e-9
        largest = max(largest, (loss - card.epsilon * ground_m) / card.offset)
    # The constant is needed: without a good part of it the statement would be false.
    assert largest > 0.3


def test_a_window_costs_as_much_as_its_places_together() -> None:
    protection = Protection(region=named_region("paris"), noise_m=250.0, new_places=7)
    one, together = protection.guarantee, protection.guarantee.also[0]
    assert one.epsilon == 2 / 250
    assert together.epsilon == pytest.approx(7 * one.epsilon)
    assert together.offset == pytest.approx(7 * one.offset)
    assert together.delta == pytest.approx(7 * one.delta)


@pytest.mark.parametrize("places", [0, -1, 1.5, True, 10_001])
def test_budgets_of_places_that_make_no_sense_are_refused(places: int) -> None:
    with pytest.raises(UsageError, match="whole number"):
        Protection(region=named_region("paris"), new_places=places)


def _somewhere(region: Region, rng: np.random.Generator) -> np.ndarray:
    half_width, half_height = region.half_extent_m
    return region.clip(region.from_metres(rng.uniform(-1, 1, (1, 2)) * (half_width, half_height)))


def _on_the_ground(here: np.ndarray, there: np.ndarray) -> float:
    return float(pyproj.Geod(ellps="WGS84").inv(here[0, 1], here[0, 0], there[0, 1], there[0, 0])[2])


def _losses(protection: Protection, here: np.ndarray, there: np.ndarray) -> list[float]:
    """The largest log-ratio of the noise around any two cells that the two places may count as in."""
    grid, rate = protection.grid, rate_per_m(protection.planar)
    cells = [grid.cells_near(*protection.region.to_metres(place)[0]) for place in (here, there)]
    losses = []
    for one, other in itertools.product(*cells):
        centres = [np.array([grid.centre_of(cell)]) for cell in (one, other)]
        # By the triangle inequality the ratio is largest in line with both, beyond the first.
        beyond = centres[0] + 3 * (centres[0] - centres[1])
        near, far = (float(np.hypot(*(beyond - centre)[0])) for centre in centres)
        losses.append(rate * (far - near))
    return losses
