"""Frames come back as frames of their kind, with what was named and nothing else."""

import subprocess
import sys
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import nearveil as nv
from nearveil.errors import DataError, UsageError

ROWS: dict[str, Any] = {
    "id": ["ann", "ben", "cem"],
    "age": [30, 40, 50],
    "latitude": [52.52, -33.86, 90.0],
    "longitude": [13.4, 151.2, 0.0],
}
KINDS = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "geopandas": lambda rows: geopandas.GeoDataFrame(
        {name: rows[name] for name in ("id", "age")},
        geometry=geopandas.points_from_xy(rows["longitude"], rows["latitude"]), crs="EPSG:4326",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_frames_keep_their_kind_and_only_named_columns(kind: str) -> None:
    frame: Any = KINDS[kind](ROWS)
    safe = nv.protect(frame, nv.PlanarLaplace(500), user="id")
    assert type(safe.frame) is type(frame)
    names = list(safe.frame.column_names if kind == "arrow" else safe.frame.columns)
    assert names == (["id", "geometry"] if kind == "geopandas" else ["id", "latitude", "longitude"])
    assert safe.left_out == ("age",)
    assert sorted(np.asarray(safe.frame["id"]).tolist()) == ["ann", "ben", "cem"]
    assert safe.guarantee.epsilon == pytest.approx(0.004)
    assert "guarantee" in safe._repr_html_().lower()


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_locations_move_and_others_stay_in_their_rows(kind: str) -> None:
    safe = nv.protect(KINDS[kind](ROWS), keep=["age"])
    for age, latitude in zip(np.asarray(safe.frame["age"]), np.asarray(safe.frame["latitude"]), strict=True):
        true = dict(zip(ROWS["age"], ROWS["latitude"], strict=True))[int(age)]
        assert 0 < abs(latitude - true) < 0.2  # type: ignore[operator]


def test_nothing_hidden_travels_with_a_pandas_frame() -> None:
    frame = pd.DataFrame(ROWS | {"kind": pd.Categorical(["a", "b", "a"], categories=["a", "b", "52.52,13.4"])})
    frame.attrs["where"] = "52.52,13.4"
    frame.index = pd.Index([52.52, 13.4, 0.0], name="secret")
    safe = nv.protect(frame, keep=["kind"]).frame
    assert safe.attrs == {}
    assert safe.index.tolist() == [0, 1, 2]
    assert sorted(safe["kind"]) == ["a", "a", "b"]
    assert not hasattr(safe["kind"], "cat") or "52.52,13.4" not in safe["kind"].cat.categories


def test_rows_that_cannot_be_used() -> None:
    frame = pd.DataFrame({"latitude": [52.5, np.nan, 10.0], "longitude": [13.4, 13.4, 400.0]})
    with pytest.raises(DataError, match="row 2"):
        nv.protect(frame)
    assert nv.protect(frame, skip_bad=True).rows == 1


def test_a_mechanism_is_fitted_on_the_users_and_says_so() -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.uniform([52.4, 13.2], [52.6, 13.6], (2000, 2)), columns=["latitude", "longitude"])
    mechanism = nv.HideAmong(20, region="berlin")
    safe = nv.protect(frame, mechanism)
    assert safe.fitted_here
    assert mechanism.learned is None, "the caller's own does not change"
    assert safe.mechanism.learned is not None
    assert any("fitted on the users" in note for note in safe.guarantee.notes)


def test_wrong_calls_get_a_sentence() -> None:
    frame = pd.DataFrame(ROWS)
    with pytest.raises(UsageError, match="has no output"):
        nv.protect(frame, "out.csv")
    with pytest.raises(DataError, match="'name'"):
        nv.protect(frame, user="name")
    with pytest.raises(UsageError, match="Mechanism"):
        nv.protect(frame, mechanism="planar-laplace")  # type: ignore[arg-type]
    with pytest.raises(DataError):
        nv.protect(frame[:0])


def test_pandas_frames_need_neither_arrow_nor_numba() -> None:
    code = (
        "import sys\n"
        "for name in ('pyarrow', 'numba', 'shapely'): sys.modules[name] = None\n"
        "import pandas as pd, nearveil as nv\n"
        "print(len(nv.protect(pd.DataFrame({'latitude': [52.5], 'longitude': [13.4]})).frame))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr


def test_columns_are_named_by_keywords_too() -> None:
    frame = pd.DataFrame({"Hochwert": [5_820_000.0, 5_821_000.0], "Rechtswert": [390_000.0, 391_000.0]})
    safe = nv.protect(frame, latitude="Hochwert", longitude="Rechtswert", crs="EPSG:25833").frame
    assert np.abs(safe["Hochwert"] - 5_820_500).max() < 20_000
    with pytest.raises(TypeError, match="did you mean 'latitude'"):
        nv.protect(frame, latitud="Hochwert")
    degrees = pd.DataFrame({"latitude": [52.5, 52.6], "longitude": [13.4, 13.5]})
    with pytest.raises(DataError, match="look like degrees"):
        nv.protect(degrees, crs="EPSG:25833")
    with pytest.raises(DataError, match="'latitude' is the location"):
        nv.protect(degrees, keep=["latitude"])
