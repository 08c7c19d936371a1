"""A mechanism that is fitted, or has intervals or cells, is never fitted again, and the caller's own never changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nearveil import DPRS, HideAmong, Region, protect_file, protect_frame
from nearveil.errors import UsageError
from nearveil.evaluation.attack_experiment import AttackExperiment, AttackProtocol
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.base import Mechanism

REGION = Region(37.5, -122.6, 37.9, -122.2)
LARGER = Region(37.4, -122.7, 38.0, -122.1)
OTHERS = np.random.default_rng(2).uniform((37.6, -122.5), (37.8, -122.3), (500, 2))
DATASET = Dataset(name="city", places=OTHERS, region=REGION, source="made up")


@pytest.fixture
def table() -> pa.Table:
    places = np.random.default_rng(1).uniform((37.6, -122.5), (37.8, -122.3), (400, 2))
    return pa.table({"latitude": places[:, 0], "longitude": places[:, 1]})


@pytest.fixture
def people_csv(table: pa.Table, tmp_path: Path) -> Path:
    table.to_pandas().to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def unfitted(kind: str, **params: Any) -> Mechanism:
    if kind == "dprs":
        return DPRS(centres=5, region=REGION, **params)
    return HideAmong(20, largest_cell_m=10_000.0, region=REGION, **params)


KINDS = pytest.mark.parametrize("kind", ["dprs", "hide-among"])


@KINDS
def test_a_fitted_mechanism_publishes_a_file_by_what_it_learned(kind: str, people_csv: Path, tmp_path: Path) -> None:
    mechanism = unfitted(kind).fit(OTHERS)
    learned = mechanism.learned
    result = protect_file(people_csv, tmp_path / "out.csv", mechanism)
    assert result.mechanism.learned is mechanism.learned is learned
    assert not result.fitted_here
    # The users of the file may be those that it was fitted on, or others.
    assert result.to_dict()["fitted_on_these_people"] is None
    assert "taken as stated" in result.guarantee.card(full=True)
    assert "of this file" not in result.guarantee.card(full=True)


@KINDS
def test_a_file_fits_a_copy_that_is_in_the_result(kind: str, people_csv: Path, tmp_path: Path) -> None:
    mechanism = unfitted(kind)
    results = [protect_file(people_csv, tmp_path / f"{name}.csv", mechanism) for name in "ab"]
    assert mechanism.learned is None
    assert all(result.fitted_here and result.mechanism.learned is not None for result in results)
    assert results[0].mechanism.learned is not results[1].mechanism.learned
    assert "of this file" in results[0].guarantee.card(full=True)


@KINDS
def test_a_frame_is_published_by_what_was_learned_before(kind: str, table: pa.Table) -> None:
    """So what it is published by can always be read."""
    mechanism = unfitted(kind)
    for region in (None, REGION, LARGER):
        with pytest.raises(UsageError, match="fit it first"):
            protect_frame(table, mechanism, region=region)
    assert mechanism.learned is None
    fitted_here = mechanism.fit(table)
    learned = fitted_here.learned
    with pytest.raises(UsageError, match="are of the region"):
        protect_frame(table, fitted_here, region=LARGER)
    for region in (None, REGION):
        assert protect_frame(table, fitted_here, region=region).num_rows == 400
    assert fitted_here.learned is learned
    assert fitted_here.guarantee.also[1].offset > 0


@KINDS
def test_evaluations_use_what_was_learned_or_fit_a_copy(kind: str) -> None:
    mechanism = unfitted(kind, seed=1)
    AttackExperiment(DATASET, AttackProtocol(runs=1), mechanism).service(0)
    assert mechanism.learned is None
    mechanism = mechanism.fit(OTHERS[:400])
    learned = mechanism.learned
    assert mechanism.fitted_on(OTHERS).learned is learned
    published = AttackExperiment(DATASET, AttackProtocol(runs=1), mechanism).service(0)
    assert published.mechanism is not None
    assert published.mechanism.learned is mechanism.learned is learned
