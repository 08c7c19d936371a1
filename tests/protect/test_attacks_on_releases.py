"""What an attacker tried on releases, and must not get."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import nearveil as nv
from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.registry import mechanism_name
from nearveil.privacy.ledger import OverspentError
from tests.protect.world import world, write_csv

USERS = pd.DataFrame({"id": ["ann", "ann"], "latitude": [52.52, 52.40], "longitude": [13.40, 13.60]})


def test_several_places_are_not_promised_more_than_is_proved() -> None:
    """Places share a grid: epsilon times the distance holds where all move together."""
    several = nv.protect(USERS, user="id").guarantee
    assert "moved together" in several.neighbors
    assert any("0.71" in note for note in several.notes)
    assert several.certificate is None
    one = nv.protect(USERS[:1], user="id").guarantee
    assert "moved together" not in one.neighbors
    assert one.certificate is not None


def test_what_is_not_published_yet_is_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = list[int]()

    class Watching(nv.Ledger):
        def charge(self, *arguments: Any, **options: Any) -> None:
            modes.extend(path.stat().st_mode & 0o777 for path in tmp_path.glob(".*partial*"))
            super().charge(*arguments, **options)

    source = write_csv(tmp_path / "in.csv", world(1), user=range(10))
    ledger = Watching(tmp_path / "ledger.db", [nv.Budget(definition=nv.PrivacyDefinition.METRIC, epsilon=0.004)])
    with pytest.raises(OverspentError):
        nv.protect(source, tmp_path / "out.csv", nv.PlanarLaplace(400), user="user", ledger=ledger)
    assert modes == [0o600]
    assert not (tmp_path / "out.csv").exists()
    plain = tmp_path / "plain.csv"
    plain.touch()
    nv.protect(source, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").stat().st_mode == plain.stat().st_mode


class Lying(nv.PlanarLaplace):
    """Somebody else's: what it does with several rows of a user is not looked at by any test."""

    def perturb_users(self, users: Any, points: Any, rng: Any = None) -> Any:
        return np.asarray(points), np.zeros(len(users), dtype=np.int64)


def test_others_classes_take_one_row_per_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearveil.release.protect.check_mechanism", lambda mechanism: mechanism)
    with pytest.raises(UsageError, match="one row per user"):
        nv.protect(USERS, Lying(500), user="id")
    safe = nv.protect(USERS[:1], Lying(500), user="id")
    assert safe.frame["latitude"][0] != pytest.approx(52.52, abs=1e-6)
    assert mechanism_name(type("PlanarLaplace", (Lying,), {"__module__": "planar_laplace"})(500)) != "planar-laplace"


def test_a_column_that_changes_its_type_is_named_without_its_values(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    rows = [{"lat": 52.5, "lon": 13.4, "extra": {"48.123456": 1} if at > 70_000 else 1} for at in range(70_100)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError) as caught:
        nv.protect(source, tmp_path / "out.jsonl", keep=["extra"])
    assert "48.1" not in str(caught.value)


def test_types_of_frames_carry_no_other_rows() -> None:
    kinds = pl.Enum(["a", "b", "at 52.52"])
    lists = pl.DataFrame({"lat": [52.5], "lon": [13.4], "tags": pl.Series([["a"]], dtype=pl.List(kinds))})
    with pytest.raises(DataError, match="'tags' holds categories"):
        nv.protect(lists, keep=["tags"])
    frame = pd.DataFrame({"lat": [52.5, 52.6], "lon": [13.4, 13.5], "note": pd.array(["x", None], dtype="string")})
    frame["share"] = pd.arrays.SparseArray([0.25, 0.5], fill_value=52.52)
    safe = nv.protect(frame, keep=["note", "share"]).frame
    assert not isinstance(safe["share"].dtype, pd.SparseDtype)
    assert sorted(safe["share"]) == [0.25, 0.5]


def test_cells_from_a_seed_are_warned_of() -> None:
    region = nv.named_region("berlin")
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.uniform([52.4, 13.2], [52.6, 13.6], (1500, 2)), columns=["latitude", "longitude"])
    seeded = nv.fit(frame, nv.HideAmong(20, region=region, seed=1)).mechanism
    again = nv.HideAmong(20, **seeded.learned_params)
    assert any("seed" in warning for warning in nv.protect(frame, again).warnings)
