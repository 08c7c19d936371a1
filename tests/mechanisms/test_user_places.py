"""The noise of several rows per user."""

import math

import numpy as np

from nearveil.mechanisms.user_places import publish_places
from nearveil.randomness import EXPONENTIAL_REACH
from nearveil.sphere import great_circle_m


class LongestNoise(np.random.Generator):
    """Every uniform number is 1/2, but those that make the distance are the smallest there are."""

    calls = 0

    def random(self, size: tuple[int, ...]) -> np.ndarray:  # type: ignore[override]
        self.calls += 1
        uniforms = np.full(size, 0.5)
        if self.calls > 1:
            uniforms[:2] = 0.0
        return uniforms


def test_the_noise_reaches_as_far_as_the_guarantee_says() -> None:
    home = np.array([[48.85, 2.35]])
    published, _ = publish_places(500, np.array([1]), home, LongestNoise(np.random.PCG64()))
    # Two exponentials of mean 250 m, from the center of a cell that is within 125 m.
    assert great_circle_m(home, published)[0] > 2 * 250 * EXPONENTIAL_REACH - 125 > 500 * 37 * math.log(2)
    assert great_circle_m(home, published)[0] < 500 * (EXPONENTIAL_REACH + 1)
