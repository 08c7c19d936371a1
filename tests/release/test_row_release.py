"""Every row of a release draws its own randomness, however its rows are cut."""

import numpy as np
import pytest

from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.randomness import NumberedRows
from nearveil.release import publishing
from nearveil.release.publishing import RowRelease
from nearveil.types import FloatArray

KEY = b"sixteen bytes ok"
ROWS = 2 * publishing._ROWS_AT_ONCE + 17


def test_more_rows_than_are_released_at_once_are_released_as_one(city: FloatArray) -> None:
    mechanism = PlanarLaplace(region="san-francisco")
    places = np.tile(city, (ROWS // len(city) + 1, 1))[:ROWS]
    expected = mechanism.perturb_rows(places, NumberedRows(KEY, 5, ROWS))
    assert (RowRelease(mechanism, KEY)(places, 5) == expected).all()


@pytest.mark.parametrize("cut", [1, publishing._ROWS_AT_ONCE, publishing._ROWS_AT_ONCE + 1])
def test_no_two_rows_share_their_noise(cut: int, city: FloatArray) -> None:
    """Everybody at one place and fine grids: rows with one keystream would be published at one place."""
    release = RowRelease(PlanarLaplace(region="san-francisco", noise_m=5000.0), KEY)
    places = np.tile(city[:1], (ROWS, 1))
    published = np.concatenate([release(places[:cut], 0), release(places[cut:], cut)])
    middle = published[(np.abs(published - city[0]) < 0.03).all(axis=1)]
    assert len(middle) > 1000
    assert len(np.unique(middle, axis=0)) > 0.99 * len(middle)
