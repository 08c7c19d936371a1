"""``nearveil.protect``: a frame of your library in, a frame of the same kind out."""

from typing import Any

import geopandas
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import nearveil as nv
from tests.acceptance.helpers import Array, check_moved, check_planar_laplace, distances_m, in_order


def columns(users: Array) -> dict[str, object]:
    return {
        "id": [f"u{number}" for number in range(len(users))],
        "latitude": users[:, 0],
        "longitude": users[:, 1],
        "age": np.arange(len(users), dtype=np.int32) % 50,
    }


@pytest.mark.statistical
def test_pandas(many_users: Array) -> None:
    """False alarms: 1.2e-6."""
    frame = pd.DataFrame(columns(many_users))
    before = frame.copy()
    safe = nv.protect(frame, nv.PlanarLaplace(noise_m=300), user="id", keep=["age"])
    published = safe.frame
    assert isinstance(published, pd.DataFrame)
    assert list(published.dtypes) == list(frame.dtypes)
    check_planar_laplace(distances_m(many_users, in_order(published.to_dict("records"))), 300)
    pd.testing.assert_frame_equal(frame, before)
    assert safe.guarantee.epsilon == pytest.approx(2 / 300, rel=0.01)


@pytest.mark.parametrize("kind", [pl.DataFrame, pa.table])
def test_polars_and_arrow(users: Array, kind: Any) -> None:
    safe = nv.protect(kind(columns(users)), user="id")
    assert type(safe.frame) is type(kind(columns(users)))
    assert safe.left_out == ("age",)
    check_moved(users, in_order(pl.DataFrame(safe.frame).to_dicts()))


def test_geopandas_stays_in_its_reference_system(users: Array) -> None:
    data = {name: column for name, column in columns(users).items() if name in ("id", "age")}
    points = geopandas.points_from_xy(users[:, 1], users[:, 0])
    frame = geopandas.GeoDataFrame(data, geometry=points, crs=4326).to_crs(3857)
    published = nv.protect(frame, user="id").frame
    assert isinstance(published, geopandas.GeoDataFrame)
    assert published.crs == frame.crs
    degrees = published.to_crs(4326)
    places = degrees.assign(latitude=degrees.geometry.y, longitude=degrees.geometry.x).drop(columns="geometry")
    check_moved(users, in_order(places.to_dict("records")))
