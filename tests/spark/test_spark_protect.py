"""What is published from a Spark DataFrame, and what is refused."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark import TaskContext
from tests.spark.conftest import Frame

import nearveil.spark
from nearveil.errors import DataError
from nearveil.mechanisms.axis_laplace import AxisLaplace
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.privacy.ledger import Budget, Ledger, OverspentError
from nearveil.spark import Protected, protect
from nearveil.sphere import great_circle_m
from nearveil.types import FloatArray, IntArray
from nearveil.veil import Veil

HERE = np.array([37.7612345, -122.4398765])
REGION = "san-francisco"
KEY = "5b" * 32
METER_DEG = 1 / 111_195


def by_id(result: Protected) -> FloatArray:
    """Published locations in the order of the column id, which has every number once."""
    rows = result.rows.select("id", "latitude", "longitude").toArrow().sort_by("id")
    assert rows["id"].to_pylist() == list(range(result.count))
    return np.column_stack([rows["latitude"], rows["longitude"]])


def is_moved_500_m(true: FloatArray, published: FloatArray) -> bool:
    """Whether the mean displacement is within 6 standard errors of 500 m, and 3 m for a location in its cell."""
    moved = great_circle_m(true, published)
    return abs(moved.mean() - 500) < 6 * 500 / np.sqrt(2 * len(moved)) + 3


@pytest.mark.statistical
@pytest.mark.parametrize("user", [None, "id"])
def test_noise_is_500_m_everywhere(frame: Frame, world: FloatArray, user: str | None) -> None:
    """And rows are in a random order. False alarms: below 2e-5, by Chernoff's bound (12 means of 100 rows are most)."""
    df = frame(world, id=np.arange(len(world)))
    result = protect(df, user=user, keep=["id"])
    order: IntArray = np.array(result.rows.select("id").collect())[:, 0]
    assert abs(np.corrcoef(order, np.arange(len(order)))[0, 1]) < 6 / np.sqrt(len(order))
    published = by_id(result)
    assert is_moved_500_m(world, published)
    for first in range(3000, 3600, 100):  # the poles and the antimeridian
        assert is_moved_500_m(world[first : first + 100], published[first : first + 100])
    for noise_m in (350, 650):
        assert not is_moved_500_m(world, by_id(protect(df, PlanarLaplace(noise_m), user=user, keep=["id"])))


def test_columns_are_published_only_when_named(frame: Frame, world: FloatArray) -> None:
    ages, home = pa.array(np.arange(3600) % 90, pa.int8()), pa.array([{"street": "x"}] * 3600)
    df = frame(world, **{"id": range(3600), "a.b": range(3600), "age": ages, "home": home})
    df = df.withMetadata("age", {"mean": "37.7"})
    result = protect(df)
    assert result.rows.columns == ["latitude", "longitude"]
    assert result.left_out == ("id", "a.b", "age", "home")
    kept = protect(df, keep=["age", "home", "a.b"]).rows.schema
    assert kept.names == ["latitude", "longitude", "a.b", "age", "home"]
    assert kept["age"].simpleString() == "age:tinyint"
    assert not kept["age"].metadata
    everything = protect(df, keep_all=True)
    assert (everything.left_out, len(everything.warnings)) == (("home",), 1)


def test_rows_without_users_have_noise_of_their_own(frame: Frame) -> None:
    df = frame(np.tile(HERE, (1500, 1)), id=np.arange(1500))
    first, second = protect(df, keep=["id"]), protect(df, keep=["id"])
    # Two of 3,000 are in one cell of the published grid with a probability of 0.03; 20 are never.
    assert len(np.unique(np.vstack([by_id(first), by_id(second)]), axis=0)) > 2980
    assert "Counted per row" in first.guarantee.explain()


def test_a_user_has_one_location_per_place(frame: Frame, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two files are two partitions, and each has all users at home, and at work, 11 km away."""
    monkeypatch.setattr(Veil, "new_key", staticmethod(lambda: KEY))
    home_and_work = np.tile([HERE, HERE + 0.1], (600, 1))
    users = np.tile(np.repeat(np.arange(100), 2), 6)
    rows = protect(frame(home_and_work, user=users, id=np.arange(1200)), user="user", keep=["id"])
    published = by_id(rows)
    assert len(np.unique(published, axis=0)) == 200
    # A pure function of the key, the user and the location: a task that is run again gives the same.
    assert np.array_equal(published, np.column_stack(Veil(KEY).blur_many(map(str, users), *home_and_work.T)))
    assert rows.guarantee.most_places == 2


def test_other_mechanisms_take_one_row_per_user(frame: Frame) -> None:
    points = np.tile(HERE, (10, 1))
    mechanism = AxisLaplace(epsilon=20, region=REGION)
    assert protect(frame(points, user=np.arange(10)), mechanism, user="user").count == 10
    with pytest.raises(DataError, match="several rows"):
        protect(frame(points, user=np.arange(10) // 2), mechanism, user="user")


def ledger_in(folder: Path, epsilon: float) -> Ledger:
    return Ledger(folder / "ledger.db", [Budget(definition=PrivacyDefinition.METRIC, epsilon=epsilon, delta=1e-6)])


def test_a_ledger_is_charged_for_places_or_nothing_is_returned(frame: Frame, tmp_path: Path) -> None:
    points = np.array([HERE, HERE + 0.1, HERE, HERE + 0.2, HERE])
    df, ledger = frame(points, user=["ann", "ann", "ann", "ann", "bob"]), ledger_in(tmp_path, 0.02)
    protect(df, user="user", ledger=ledger)
    spent = [ledger.spent(user, PrivacyDefinition.METRIC).epsilon for user in ("ann", "bob")]
    assert spent == pytest.approx([0.012, 0.004])
    with pytest.raises(OverspentError):
        protect(df, user="user", ledger=ledger)


def test_places_beyond_a_region_count_as_places(frame: Frame, tmp_path: Path) -> None:
    """Noise of 30 km leaves the region: published locations are moved to its edge, some of a user to one corner."""
    corners = np.tile([[37.71, -122.51], [37.79, -122.39]], (100, 1))
    ledger = ledger_in(tmp_path, 1.0)
    df = frame(corners, user=np.repeat(np.arange(100), 2))
    rows = protect(df, PlanarLaplace(30_000, region="37.7,-122.52,37.8,-122.38"), user="user", ledger=ledger).rows
    assert ledger.spent("7", PrivacyDefinition.METRIC).epsilon == pytest.approx(2 * 2 / 30_000)
    published: FloatArray = np.array(rows.select("latitude", "longitude").collect())
    assert (np.abs(published - (37.75, -122.45)) <= (0.05 + 1e-9, 0.07 + 1e-9)).all()


def with_one(latitude: float, longitude: float) -> FloatArray:
    return np.vstack([np.tile(HERE, (9, 1)), [latitude, longitude]])


@pytest.mark.parametrize(
    ("points", "words"),
    [
        (with_one(np.nan, -122.4398765), "1 of the rows is without a location"),
        (with_one(np.inf, -122.4398765), "1 of the rows is without a location"),
        (np.empty((0, 2)), "there are no rows"),
        (with_one(-122.4398765, 37.7612345), "1 of the rows is with a latitude beyond 90"),
        (with_one(52.5123456, 13.4123456), "1 of the rows is outside the region .*; leave the region out"),
    ],
)
def test_bad_rows_are_counted_and_not_shown(frame: Frame, points: FloatArray, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        protect(frame(points), PlanarLaplace(region=REGION))
    assert not any(digits in str(caught.value) for digits in ("7612345", "4398765", "5123456", "4123456"))


def test_a_column_that_repeats_a_coordinate_is_refused(frame: Frame, world: FloatArray) -> None:
    latitude, longitude = world.T
    is_copied = np.arange(len(world)) % 10 < 6
    wrapped = np.where(longitude < 0, longitude + 360, longitude)
    for copy in (latitude + 90 * METER_DEG, wrapped, np.where(is_copied, longitude, 1e6)):
        with pytest.raises(DataError, match="'x' repeats a coordinate"):
            protect(frame(world, x=copy), keep=["x"])
        assert protect(frame(world, x=copy)).left_out == ("x",)
    protect(frame(world, x=np.where(is_copied, 1e6, latitude), y=latitude + 120 * METER_DEG), keep=["x", "y"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"keep": ["nothing"]}, "no column 'nothing'"),
        ({"keep": "id"}, "a list of columns"),
        ({"latitude": "id"}, "latitude= and longitude="),
        ({"latitude": "text", "longitude": "longitude"}, "cast them to double"),
        ({"user": "share"}, "cast it to string"),
        ({"user": "text"}, "1 of the rows is without a user"),
        ({"user": "null"}, "1 of the rows is without a user"),
        ({"ledger": object()}, "needs user="),
        ({"mechanism": PlanarLaplace(seed=1)}, "seed"),
        ({"mechanism": PlanarLaplace(10), "user": "id"}, "from 50 to 100,000"),
        ({"mechanism": DPRS(region=REGION)}, "not fitted"),
    ],
)
def test_wrong_options_are_one_sentence(frame: Frame, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        protect(frame(np.array([HERE]), id=[1], share=[0.5], text=[""], null=pa.array([None], pa.int64())), **options)


def test_a_task_that_is_run_again_draws_nothing_twice(frame: Frame, tmp_path: Path) -> None:
    """It fails after some batches; what it had drawn until then is drawn again, and each row is there once."""

    class FailsOnce(PlanarLaplace):
        def draw(self, x: Any, rows: Any) -> Any:
            drawn = super().draw(x, rows)
            if (task := TaskContext.get()) is None:
                return drawn  # the driver tries it first
            number = len(list(tmp_path.glob("*.npy")))
            np.save(tmp_path / f"{number}.npy", self.area.publish(self.leave(drawn)))
            if number == 2 and task.attemptNumber() == 0:
                raise ValueError("once")
            return drawn

    # One partition: two tasks at once would count each other's batches.
    df = frame(np.tile(HERE, (2000, 1)), id=np.arange(2000)).coalesce(1)
    result = protect(df, FailsOnce(), keep=["id"])
    drawn = [np.load(tmp_path / f"{number}.npy") for number in range(7)]
    assert np.array_equal(drawn[:3], drawn[3:6])
    assert sorted(map(tuple, by_id(result))) == sorted(map(tuple, np.vstack(drawn[3:])))


def test_rows_that_change_are_refused(frame: Frame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearveil.spark, "_checked_rows", lambda *_: 11)
    with pytest.raises(DataError, match="the rows changed"):
        protect(frame(np.tile(HERE, (10, 1))))


def test_without_pyspark_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['pyspark'] = None\nfrom nearveil.spark import protect"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "pip install 'nearveil[spark]'" in ended.stderr
