"""The sampler's law: draws match the exact density, and the same test rejects a scale 30 % off.

Each is a chi-square test at level 1e-6. With about 70 of them here, a false alarm happens in less than one in 10,000
runs over the choice of seeds; the seeds are fixed.
"""

from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import chi2

from nearveil.mechanisms._disc_law import GAUSSIAN, LAPLACE, log_density
from nearveil.mechanisms._disc_sampler import sample_disc
from nearveil.randomness import numbered_rows
from nearveil.types import FloatArray

LEVEL = 1e-6
DRAWS = 100_000
# From here on noise fills the disc, and it takes more draws to tell a scale 30 % off.
WIDE, WIDE_DRAWS = 1.0, 400_000
BINS = 16
LATTICE = 233

PLACES = {
    "centre": (0.0, 0.0),
    "inside": (0.35, -0.5),
    "edge": (1.0, 0.0),
    "edge, diagonal": (-np.sqrt(0.5), np.sqrt(0.5)),
    "corner": (1.0, 1.0),
    "just outside": (0.75, 0.75),
    "outside": (-2.5, 0.3),
    "far away": (8.0, -6.0),
}
SCALES = (0.02, 0.15, 0.6, 1.3)


def draw(noise: int, place: tuple[float, float], scale: float, seed: int) -> FloatArray:
    draws = WIDE_DRAWS if scale > WIDE else DRAWS
    return sample_disc(noise, np.tile(np.array(place), (draws, 1)), np.full(draws, scale), numbered_rows(draws, seed))


def direction_of(place: tuple[float, float]) -> FloatArray:
    return np.array([1.0, 0.0]) if place == (0.0, 0.0) else np.array(place) / np.hypot(*place)


def along_and_across(t: FloatArray, place: tuple[float, float]) -> FloatArray:
    """Depth below the edge on the side of x, and place on the chord from -1 to 1: narrow laws are wide in these."""
    direction = direction_of(place)
    depth = 1 - t @ direction
    return np.column_stack([depth, (t @ [-direction[1], direction[0]]) / np.sqrt(depth * (2 - depth))])


def back(coordinates: FloatArray, place: tuple[float, float]) -> FloatArray:
    direction = direction_of(place)
    depth = coordinates[..., 0]
    across = coordinates[..., 1] * np.sqrt(depth * (2 - depth))
    return (1 - depth)[..., None] * direction + across[..., None] * np.array([-direction[1], direction[0]])


def bin_edges(drawn: FloatArray, place: tuple[float, float]) -> list[FloatArray]:
    """Edges between quantiles of draws other than those tested, out to the ends of the disc."""
    inner = np.quantile(along_and_across(drawn, place), np.linspace(0, 1, BINS + 1)[1:-1], axis=0)
    return [np.concatenate([[0.0], inner[:, 0], [2.0]]), np.concatenate([[-1.0], inner[:, 1], [1.0]])]


def expected_shares(noise: int, place: tuple[float, float], scale: float, edges: list[FloatArray]) -> FloatArray:
    """Probability of each bin: the outer bins, which may be wide, are cut finer towards the inside."""
    fine = [_cut_finer(edge) for edge in edges]
    steps = np.arange(LATTICE)
    lattice = np.column_stack([(steps + 0.5) / LATTICE, (steps * 0.6180339887498949 + 0.5) % 1])
    corners = np.stack(np.meshgrid(fine[0][:-1], fine[1][:-1], indexing="ij"), axis=-1)
    sizes = np.stack(np.meshgrid(np.diff(fine[0]), np.diff(fine[1]), indexing="ij"), axis=-1)
    coordinates = corners[:, :, None, :] + lattice * sizes[:, :, None, :]
    # Area of the disc per unit of the coordinates: the half chord.
    stretch = np.sqrt(coordinates[..., 0] * (2 - coordinates[..., 0]))
    density = np.exp(log_density(noise, np.array(place), back(coordinates, place), scale)) * stretch
    masses = density.mean(axis=-1) * sizes.prod(axis=-1)
    rows, columns = (np.searchsorted(edge, part[:-1], side="right") - 1 for edge, part in zip(edges, fine, strict=True))
    shares = np.zeros((BINS, BINS))
    np.add.at(shares, np.ix_(rows, columns), masses)
    return shares


def _cut_finer(edges: FloatArray) -> FloatArray:
    outwards = np.geomspace(1e-3, 1, 7)
    first = edges[1] + (edges[0] - edges[1]) * outwards[::-1]
    last = edges[-2] + (edges[-1] - edges[-2]) * outwards
    return np.concatenate([first, edges[1:-1], last])


class Counted(NamedTuple):
    """Draws in bins."""

    edges: list[FloatArray]
    counts: FloatArray
    trials: int


def count(drawn: FloatArray, place: tuple[float, float]) -> Counted:
    """The second half of the draws in bins made from the first half."""
    half = len(drawn) // 2
    edges = bin_edges(drawn[:half], place)
    along, across = along_and_across(drawn[half:], place).T
    return Counted(edges, np.histogram2d(along, across, bins=edges)[0].ravel(), len(drawn) - half)


def p_value(counted: Counted, noise: int, place: tuple[float, float], scale: float) -> float:
    """Chi-square of the counts, if the scale is this."""
    edges, counts, trials = counted
    expected = expected_shares(noise, place, scale, edges).ravel() * trials
    assert expected.sum() == pytest.approx(trials, rel=5e-3)
    usual = expected >= 10
    rest = trials - expected[usual].sum()
    statistic = ((counts[usual] - expected[usual]) ** 2 / expected[usual]).sum()
    statistic += (trials - counts[usual].sum() - rest) ** 2 / max(rest, 10.0)
    return float(chi2.sf(statistic, usual.sum()))


@pytest.mark.statistical
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize("place", PLACES)
def test_draws_follow_the_exact_density(noise: int, place: str, scale: float) -> None:
    """False-alarm rate 1e-6 each. Rejects 0.7 and 1.3 times the scale."""
    at = PLACES[place]
    drawn = draw(noise, at, scale, seed=11)
    assert (np.hypot(*drawn.T) <= 1 + 1e-12).all()
    counted = count(drawn, at)
    assert p_value(counted, noise, at, scale) > LEVEL
    for factor in (0.7, 1.3):
        assert p_value(counted, noise, at, factor * scale) < LEVEL
