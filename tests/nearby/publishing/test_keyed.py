"""The keyed functions: everything matters, nothing repeats, and the noise has its law."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.nearby.publishing.keys import TAG_BYTES, keyed_bytes, place_tags, place_uniforms, place_words
from nearveil.nearby.publishing.noise import displaced, rate_per_m
from nearveil.randomness import exponential_from_uniforms
from nearveil.types import FloatArray

KEY = bytes(range(32))


def test_parts_cannot_be_confused() -> None:
    assert keyed_bytes(KEY, "p", b"ab", b"c") != keyed_bytes(KEY, "p", b"a", b"bc")
    assert keyed_bytes(KEY, "p", b"ab") != keyed_bytes(KEY, "pa", b"b")


PLACES = [
    (KEY, "ann", (1, 2), 125.0),
    (bytes(32), "ann", (1, 2), 125.0),
    (KEY, "bob", (1, 2), 125.0),
    (KEY, "ann", (2, 1), 125.0),
    (KEY, "ann", (1, -2), 125.0),
    (KEY, "ann", (1, 2), 250.0),
    (KEY, "ann", (12, 7), 125.0),
]


def tag_of(key: bytes, person: str, cell: tuple[int, int], grid_side_m: float) -> bytes:
    (tag,) = place_tags(key, person, [cell], grid_side_m)
    return tag


def uniforms_of(key: bytes, person: str, cell: tuple[int, int], grid_side_m: float) -> FloatArray:
    return place_uniforms(place_words(key, [(person, cell)], grid_side_m, count=6))


@pytest.mark.parametrize(("first", "second"), list(combinations(PLACES, 2)))
def test_key_person_cell_and_grid_all_matter(
    first: tuple[bytes, str, tuple[int, int], float], second: tuple[bytes, str, tuple[int, int], float]
) -> None:
    assert tag_of(*first) != tag_of(*second)
    assert (uniforms_of(*first) != uniforms_of(*second)).all()


def test_a_tag_repeats_and_does_not_show_the_noise() -> None:
    assert tag_of(*PLACES[0]) == tag_of(*PLACES[0])
    assert len(tag_of(*PLACES[0])) == TAG_BYTES
    words = np.frombuffer(tag_of(*PLACES[0]), dtype=">u8")
    uniforms = uniforms_of(*PLACES[0])
    assert not np.isin((words >> np.uint64(11)) * 2.0**-53, uniforms).any()


def _lengths(count: int) -> FloatArray:
    noise = PlanarLaplace(noise_m=500.0, region="san-francisco")
    words = place_words(KEY, [(f"person-{i}", (i % 7, -i)) for i in range(count)], 125.0, count=6)
    return displaced(np.zeros((count, 2)), exponential_from_uniforms(place_uniforms(words)), rate_per_m(noise))


@pytest.mark.statistical
def test_noise_of_places_has_the_law_of_planar_laplace() -> None:
    """Kolmogorov-Smirnov on length and direction at 1e-6 each; a scale 30 % off is rejected at the same level."""
    moved = _lengths(4000)
    lengths, angles = np.hypot(*moved.T), np.arctan2(moved[:, 1], moved[:, 0])
    law = stats.gamma(2, scale=250.0)
    assert stats.kstest(lengths, law.cdf).pvalue > 1e-6
    assert stats.kstest(angles, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-6
    for wrong in (0.7, 1.3):
        assert stats.kstest(lengths * wrong, law.cdf).pvalue < 1e-6
