"""Files: what is published, in which order, and what becomes of rows that cannot be used."""

from pathlib import Path

import numpy as np
import pytest

import nearveil as nv
from nearveil.errors import DataError, NearveilError, OutputError, UsageError
from nearveil.sphere import great_circle_m
from tests.protect.world import ANCHORS, points_in, read_csv, world, write_csv


def test_locations_everywhere_move_by_the_noise_on_average(tmp_path: Path) -> None:
    """Mean distance of Gamma(2) noise of 500 m, 1,000 users at each of ten places: 500 m, standard error 11.2 m.

    An interval of 5 standard errors holds at all ten but for a chance of 6e-6; noise 30 % off is 13 errors away.
    """
    source = write_csv(tmp_path / "world.csv", world(1000), place=np.repeat(list(ANCHORS), 1000))
    nv.protect(source, tmp_path / "out.csv", nv.PlanarLaplace(500), keep=["place"])
    published, places = points_in(tmp_path / "out.csv"), np.array(read_csv(tmp_path / "out.csv")["place"])
    assert (np.abs(published) <= (90, 180)).all()
    for name, anchor in ANCHORS.items():
        here = published[places == name]
        assert len(here) == 1000
        assert great_circle_m(np.array(anchor), here).mean() == pytest.approx(500, abs=56), name


def test_columns_are_published_only_when_named(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "in.csv", world(2), id=range(20), age=[30] * 20, note=["x"] * 20)
    bare = nv.protect(source, tmp_path / "bare.csv")
    assert list(read_csv(tmp_path / "bare.csv")) == ["latitude", "longitude"]
    assert bare.left_out == ("id", "age", "note")
    named = nv.protect(source, tmp_path / "named.csv", user="id", keep=["age"])
    assert list(read_csv(tmp_path / "named.csv")) == ["id", "age", "latitude", "longitude"]
    assert named.left_out == ("note",)
    everything = nv.protect(source, tmp_path / "all.csv", keep_all=True)
    assert list(read_csv(tmp_path / "all.csv")) == ["id", "age", "note", "latitude", "longitude"]
    assert any("every column" in warning for warning in everything.warnings)
    with pytest.raises(DataError, match="no column 'agee' to name with keep="):
        nv.protect(source, tmp_path / "no.csv", keep=["agee"])


@pytest.mark.parametrize("repeat", ["lat", "minus", "text", "e7"])
def test_a_kept_column_that_repeats_a_coordinate_is_refused(tmp_path: Path, repeat: str) -> None:
    points = np.random.default_rng(1).uniform([50, 10], [53, 14], (300, 2))
    values = {
        "lat": [f"{value:.4f}" for value in points[:, 0]],
        "minus": [f"{-value:.4f}" for value in points[:, 1]],
        "e7": np.rint(points[:, 0] * 1e7).astype(int).tolist(),
        "text": [f"{lat:.4f}, {lon:.4f}" for lat, lon in points],
    }[repeat]
    source = write_csv(tmp_path / "in.csv", points, home=values)
    with pytest.raises(DataError, match="'home'"):
        nv.protect(source, tmp_path / "out.csv", keep=["home"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv"]
    nv.protect(source, tmp_path / "out.csv")


def test_rows_are_in_random_order_unless_it_is_kept(tmp_path: Path) -> None:
    """The rank correlation of 4,000 rows with their old order has deviation 0.016: 6 deviations, 2e-9."""
    points = np.column_stack([np.linspace(-80, 80, 4000), np.zeros(4000)])
    source = write_csv(tmp_path / "in.csv", points)
    nv.protect(source, tmp_path / "out.csv")
    assert abs(np.corrcoef(points_in(tmp_path / "out.csv")[:, 0], np.arange(4000))[0, 1]) < 0.1
    kept = nv.protect(source, tmp_path / "kept.csv", keep_order=True)
    assert great_circle_m(points, points_in(tmp_path / "kept.csv")).max() < 20_000
    assert any("order" in note for note in kept.guarantee.notes)
    assert any("order" in warning for warning in kept.warnings)


def test_all_orders_of_few_rows_are_equally_likely(tmp_path: Path) -> None:
    """Chi-squared of 600 orders of three rows on 5 degrees of freedom: above 40 with a chance of 1.5e-7."""
    source = write_csv(tmp_path / "in.csv", np.array([[0.0, 0.0], [10.0, 0.0], [20.0, 0.0]]))
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(600):
        nv.protect(source, tmp_path / "out.csv", force=True)
        order = tuple(np.argsort(points_in(tmp_path / "out.csv")[:, 0]).tolist())
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 6
    assert sum((count - 100) ** 2 / 100 for count in seen.values()) < 40


def test_a_seed_repeats_the_file_and_is_noted(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "in.csv", world(20_000))
    for name in ("one.csv", "two.csv"):
        result = nv.protect(source, tmp_path / name, nv.PlanarLaplace(500, seed=1))
        assert any("seed" in note for note in result.guarantee.notes)
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    nv.protect(source, tmp_path / "other.csv", nv.PlanarLaplace(500, seed=2))
    assert (tmp_path / "one.csv").read_bytes() != (tmp_path / "other.csv").read_bytes()


def test_one_bad_row_refuses_the_file_and_leaves_nothing(tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("latitude,longitude\n52.5,13.4\n,13.4\n95.123456,13.4\n")
    with pytest.raises(DataError, match="row 2") as error:
        nv.protect(source, tmp_path / "out.csv")
    assert "13.4" not in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]
    result = nv.protect(source, tmp_path / "out.csv", skip_bad=True)
    assert result.rows == 1
    assert sorted(row for rows in result.skipped.values() for row in rows.tolist()) == [2, 3]
    assert any("left out" in note for note in result.guarantee.notes)


def test_users_outside_a_region_are_never_moved_into_it(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "in.csv", np.array([[52.52, 13.40], [40.71, -74.01]]))
    with pytest.raises(DataError, match=r"row 2 lies outside the region berlin.*leave region= out"):
        nv.protect(source, tmp_path / "out.csv", region="berlin")
    assert nv.protect(source, tmp_path / "out.csv").rows == 2


def test_outputs_are_not_replaced_by_accident(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "in.csv", world(1))
    before = source.read_bytes()
    with pytest.raises(UsageError, match="output is the input"):
        nv.protect(source, source, force=True)
    (tmp_path / "out.csv").write_text("mine")
    with pytest.raises(OutputError):
        nv.protect(source, tmp_path / "out.csv")
    assert (source.read_bytes(), (tmp_path / "out.csv").read_text()) == (before, "mine")
    nv.protect(source, tmp_path / "out.csv", force=True)
    assert len(points_in(tmp_path / "out.csv")) == 10


@pytest.mark.parametrize("arguments", [(), ("in.csv",), (1, 2)])
def test_odd_arguments_get_a_sentence(arguments: tuple[object, ...]) -> None:
    with pytest.raises((TypeError, NearveilError)):
        nv.protect(*arguments)  # type: ignore[arg-type]


def test_results_say_what_happened(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "in.csv", world(1))
    result = nv.protect(source, tmp_path / "out.csv")
    assert result.summary == "10 locations published, moved 500 m on average"
    assert "0.004 per" in repr(result)
    document = result.to_dict()
    assert (document["rows"], document["counted"], document["columns"]) == (10, "rows", [])
    assert document["guarantee"]["counted"] == "rows"
