"""Fits with Spark: exact sums and counts as on one machine, noise once on the driver."""

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import DataFrame

from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.fit_pic import PlacesInMemory, centres_in_region
from nearveil.mechanisms.fitting import FitMethod
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.privacy.ledger import Budget, Ledger, OverspentError
from nearveil.region import Region
from nearveil.release.spark import protect
from nearveil.release.spark_tasks import PlaceColumns, PlacesInSpark, Tally
from nearveil.types import FloatArray


@pytest.fixture
def asked(people: DataFrame, san_francisco: Region, city: FloatArray) -> PlacesInSpark:
    columns = PlaceColumns(0, 1, san_francisco, clip=False)
    return PlacesInSpark(people.select("latitude", "longitude"), columns, Tally(rows=len(city)))


def test_sums_before_noise_are_those_of_one_machine(
    asked: PlacesInSpark, san_francisco: Region, city: FloatArray, rng: np.random.Generator
) -> None:
    local = PlacesInMemory(city, san_francisco)
    # So many that some have nobody.
    centres = centres_in_region(san_francisco, 3000, rng)
    sums = asked.sums_around(centres)
    assert sums[:, 2].sum() == len(city)
    assert (sums[:, 2] == 0).any()
    assert np.array_equal(sums, local.sums_around(centres))


def test_counts_before_noise_are_those_of_one_machine(
    asked: PlacesInSpark, san_francisco: Region, city: FloatArray
) -> None:
    counts = asked.counts_in_cells(40, 30)
    assert counts.sum() == len(city)
    assert np.array_equal(counts, PlacesInMemory(city, san_francisco).counts_in_cells(40, 30))


@pytest.mark.parametrize(
    ("method", "centres"),
    [
        ("pic", 40),
        ("private-grid", None),
        pytest.param("pic", None, marks=pytest.mark.evidence),
        pytest.param("private-grid", 40, marks=pytest.mark.evidence),
    ],
)
def test_a_fit_with_the_same_noise_finds_the_same_intervals(
    method: FitMethod, centres: int | None, asked: PlacesInSpark, city: FloatArray, san_francisco: Region
) -> None:
    settings = {"centres": centres, "rounds": 3, "fit_method": method, "region": san_francisco, "seed": 5}
    steps: list[int] = []
    here = DPRS(**settings).fit(city).intervals_  # type: ignore[arg-type]
    there = DPRS(**settings).fit(asked, progress=steps.append).intervals_  # type: ignore[arg-type]
    assert np.array_equal(here.centres, there.centres)
    assert here.answers == there.answers
    assert len(steps) == DPRS(**settings).fit_plan.steps  # type: ignore[arg-type]


@pytest.mark.parametrize("method", [pytest.param("pic", marks=pytest.mark.evidence), "private-grid"])
def test_protect_fits_and_says_so(method: FitMethod, people: DataFrame) -> None:
    asked_for = DPRS(centres=30, rounds=2, fit_method=method, epsilon=1.0, region="san-francisco")
    done = protect(people, mechanism=asked_for, key="id")
    assert done.fitted_here
    assert isinstance(done.mechanism, DPRS)
    assert len(done.mechanism.current_intervals) == 30
    assert done.mechanism.current_intervals.method == method
    assert not done.mechanism.current_intervals.seeded
    assert any("fitted on the people of this file" in note for note in done.guarantee.notes)
    # The caller's own mechanism has learned nothing.
    with pytest.raises(UsageError, match="fit the intervals first"):
        _ = asked_for.current_intervals


def test_too_few_people_and_one_place_are_refused(people: DataFrame) -> None:
    with pytest.raises(DataError, match="there are 20 rows, fewer than the 30 intervals"):
        protect(people.where("id < 20"), mechanism=DPRS(centres=30, region="san-francisco"), key="id")
    together = people.selectExpr("id", "37.7d as latitude", "-122.4d as longitude")
    with pytest.raises(DataError, match="all rows hold the same location"):
        protect(together, mechanism=DPRS(centres=30, region="san-francisco"), key="id")


def test_what_is_refused_after_a_fit_is_paid_for_first(people: DataFrame, tmp_path: Path) -> None:
    """As on one machine: the refusal tells something of the people, and is not told where that cannot be afforded."""
    central = Budget(definition=PrivacyDefinition.CENTRAL, epsilon=1.5, delta=1e-6, window=timedelta(days=1))
    ledger = Ledger(tmp_path / "ledger", [central])
    for refusal in (UsageError, OverspentError):
        with pytest.raises(refusal):
            protect(people, mechanism=HideAmong(100_000, region="san-francisco"), key="id", ledger=ledger)
    assert ledger.spent("17", PrivacyDefinition.CENTRAL).epsilon == 1.0
    together = people.selectExpr("id + 10000 as id", "37.7d as latitude", "-122.4d as longitude")
    with pytest.raises(DataError, match="all rows hold the same location"):
        protect(together, mechanism=HideAmong(region="san-francisco"), key="id", ledger=ledger)
    assert ledger.spent("10017", PrivacyDefinition.CENTRAL).epsilon == 0
