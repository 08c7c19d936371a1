"""The comparator of Figure 8: noise, again and again, until it lies in the disc."""

import numpy as np
import pytest
from benchmarks.peers.noise_and_resample import noise_and_resample
from scipy.stats import ks_2samp

from nearveil.mechanisms._disc_law import NOISE_CODES
from nearveil.mechanisms._disc_sampler import sample_disc
from nearveil.privacy.accounting import Noise
from nearveil.randomness import numbered_rows

DRAWS, LEVEL = 60_000, 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_it_has_the_law_of_the_sampler(noise: Noise) -> None:
    """Two-sample Kolmogorov-Smirnov tests of both coordinates at level 1e-6; not with 0.7 or 1.3 times the scale."""
    x, centre, radius, rng = np.tile([0.5, -0.4], (DRAWS, 1)), (0.2, -0.1), 0.5, np.random.default_rng(8)
    drawn, tries = noise_and_resample(x, centre=centre, radius=radius, scale=0.2, noise=noise, rng=rng)
    assert tries >= DRAWS
    for factor, agrees in ((1.0, True), (0.7, False), (1.3, False)):
        unit, scale = (x - centre) / radius, np.full(DRAWS, factor * 0.2 / radius)
        ours = np.array(centre) + radius * sample_disc(NOISE_CODES[noise], unit, scale, numbered_rows(DRAWS, 3))
        least = min(ks_2samp(drawn[:, axis], ours[:, axis]).pvalue for axis in (0, 1))
        assert (least > LEVEL) == agrees


def test_hopeless_resampling_gives_up_with_a_sentence() -> None:
    far, rng = np.array([[9.0, 9.0]]), np.random.default_rng(1)
    with pytest.raises(Exception, match="gave up"):
        noise_and_resample(far, centre=(0, 0), radius=0.01, scale=0.01, noise="laplace", rng=rng, most_tries=1000)
