"""Made-up users: about where the true ones are, from noisy answers alone."""

import numpy as np
import pytest

from nearveil.errors import UsageError
from nearveil.mechanisms import fit_grid
from nearveil.mechanisms.fit_grid import build_grid_intervals, synthetic_delta, synthetic_people
from nearveil.region import Region
from nearveil.types import FloatArray


def _coarse_cell(region: Region, places: FloatArray) -> np.ndarray:
    share = (region.to_square(places) / np.array(region.half_extent_square) + 1) / 2
    column, row = np.minimum(8 * share, 7).astype(int).T
    return 8 * row + column


def test_synthetic_people_live_about_where_the_true_ones_do(san_francisco: Region, city: FloatArray) -> None:
    """Shares of a coarse grid; measured: 0.03 apart in total variation, against 0.52 for people scattered evenly."""
    made_up = synthetic_people(city, region=san_francisco, epsilon=5.0, rng=1)
    scattered = np.random.default_rng(1).uniform([37.5, -122.6], [37.9, -122.2], city.shape)
    three = (city, made_up, scattered)
    assert san_francisco.contains(made_up).all()
    shares = [np.bincount(_coarse_cell(san_francisco, places), minlength=64) / len(places) for places in three]
    assert np.abs(shares[0] - shares[1]).sum() / 2 < 0.15
    assert np.abs(shares[0] - shares[2]).sum() / 2 > 0.3
    assert not set(map(tuple, city)) & set(map(tuple, made_up))


def test_as_many_synthetic_people_as_the_noisy_count(san_francisco: Region, city: FloatArray) -> None:
    counts = [len(synthetic_people(city, region=san_francisco, epsilon=0.5, rng=seed)) for seed in range(8)]
    assert len(set(counts)) == 8
    # The count has noise of scale 40: fifteen times that happens once in three million.
    assert max(abs(count - 5000) for count in counts) < 600


def test_synthetic_people_are_drawn_anew_unless_seeded(san_francisco: Region, city: FloatArray) -> None:
    kwargs = {"region": san_francisco, "epsilon": 1.0}
    first, second = (synthetic_people(city, **kwargs) for _ in range(2))  # type: ignore[arg-type]
    assert not set(map(tuple, first)) & set(map(tuple, second))
    first, second = (synthetic_people(city, **kwargs, rng=7) for _ in range(2))  # type: ignore[arg-type]
    assert (first == second).all()


def test_synthetic_people_come_from_the_noisy_answers_alone(san_francisco: Region, city: FloatArray) -> None:
    """Each answer has the noise that it is charged for; given the answers, the data no longer matters."""
    asked: list[tuple[int, float]] = []

    def spy(exact: np.ndarray, scale: float, rng: np.random.Generator) -> FloatArray:
        del rng
        asked.append((exact.size, scale))
        return np.full(exact.shape, 2000.0 if exact.size == 1 else 30.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit_grid, "fixed_point_laplace", spy)
        found = [
            synthetic_people(people, region=san_francisco, epsilon=0.8, rng=3)
            for people in (city, city[:50], np.repeat(city[:1], 30, axis=0))
        ]
    assert sum(1 / scale for _, scale in asked[:2]) == pytest.approx(0.8)
    assert asked[0][0] == 1 < asked[1][0]
    assert asked[:2] == asked[2:4] == asked[4:]
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


def test_the_delta_of_synthetic_people_is_that_of_intervals(san_francisco: Region, city: FloatArray) -> None:
    for epsilon in (0.5, 3.0):
        fitted = build_grid_intervals(city, region=san_francisco, epsilon=epsilon, centres=50, rng=1)
        assert fitted.fit_cost(1e-300) == pytest.approx((epsilon, synthetic_delta(epsilon)))


def test_bad_input(san_francisco: Region, city: FloatArray) -> None:
    with pytest.raises(UsageError, match="epsilon"):
        synthetic_people(city, region=san_francisco, epsilon=0)
