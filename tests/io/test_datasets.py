"""The paper's populations: the same everywhere, inside the region, and a clear word where a file is missing."""

from pathlib import Path

import numpy as np
import pytest

from nearveil.errors import DataError
from nearveil.io.datasets import DATA_DIR_VARIABLE, SYNTHETIC_PEOPLE, DatasetName, load_dataset


@pytest.mark.parametrize(
    ("name", "mean", "deviation"), [(DatasetName.GAUSSIAN, 0.0, 0.25), (DatasetName.BETA, 2 * 2 / 7 - 1, 0.319)]
)
def test_generated_populations(name: DatasetName, mean: float, deviation: float) -> None:
    """Mean and deviation as the laws say: B(2, 5) has mean 2/7 and variance 10/392."""
    dataset = load_dataset(name)
    assert len(dataset.places) == SYNTHETIC_PEOPLE
    assert dataset.region.contains(dataset.places).all()
    square = dataset.region.with_scaling("per-axis").to_square(dataset.places)
    assert square.mean(axis=0) == pytest.approx([mean, mean], abs=0.01)
    assert square.std(axis=0) == pytest.approx([deviation, deviation], rel=0.02)
    assert np.array_equal(load_dataset(name).places, dataset.places)


def test_equal_places_count_once(tmp_path: Path) -> None:
    path = tmp_path / "brightkite_sf.csv"
    path.write_text("user,latitude,longitude\n1,37.7,-122.4\n2,37.7,-122.4\n1,37.71,-122.4\n", encoding="utf-8")
    assert load_dataset(DatasetName.BRIGHTKITE, tmp_path).places.tolist() == [[37.7, -122.4], [37.71, -122.4]]


def test_missing_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_DIR_VARIABLE, raising=False)
    with pytest.raises(DataError, match="--data-dir or NEARVEIL_DATA_DIR"):
        load_dataset(DatasetName.GOWALLA)
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(tmp_path))
    with pytest.raises(DataError, match=r"has no gowalla_sf\.csv\.gz"):
        load_dataset(DatasetName.GOWALLA)


@pytest.mark.realdata
@pytest.mark.parametrize(("name", "people"), [(DatasetName.BRIGHTKITE, 13_931), (DatasetName.GOWALLA, 16_718)])
def test_real_populations(real_data_folder: Path, name: DatasetName, people: int) -> None:
    assert len(load_dataset(name, real_data_folder).places) == people
