"""A release is charged before its output gets a name, and a fit before anything is told of it."""

from pathlib import Path

import numpy as np
import pytest

import nearveil as nv
from nearveil.errors import UsageError
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.privacy.ledger import Budget, Ledger, OverspentError
from nearveil.release.fit import fit
from tests.protect.world import write_csv

POINTS = np.array([(52.52, 13.40), (52.50, 13.50), (52.52, 13.40)])


def ledger_with(folder: Path, epsilon: float) -> Ledger:
    return Ledger(folder / "ledger.db", [Budget(definition=PrivacyDefinition.METRIC, epsilon=epsilon, delta=1e-6)])


def test_places_are_charged_and_a_budget_ends_releases(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "in.csv", POINTS, user=["ann", "ann", "ben"])
    ledger = ledger_with(tmp_path, 0.012)
    nv.protect(source, tmp_path / "one.csv", user="user", ledger=ledger)
    with pytest.raises(OverspentError):
        nv.protect(source, tmp_path / "two.csv", user="user", ledger=ledger)
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".csv") == ["in.csv", "one.csv"]
    assert ledger.spent("ann", PrivacyDefinition.METRIC)[0] == pytest.approx(0.008)
    assert ledger.spent("ben", PrivacyDefinition.METRIC)[0] == pytest.approx(0.004)


def test_users_have_one_account_however_their_id_is_written(tmp_path: Path) -> None:
    ledger = ledger_with(tmp_path, 0.004)
    nv.protect(
        write_csv(tmp_path / "1.csv", POINTS[:1], user=["ann"]), tmp_path / "out1.csv", user="user", ledger=ledger
    )
    with pytest.raises(OverspentError):
        again = write_csv(tmp_path / "2.csv", POINTS[:1], user=[" ANN\u200b"])
        nv.protect(again, tmp_path / "out2.csv", user="user", ledger=ledger)


def test_a_ledger_needs_users_and_no_seed(tmp_path: Path) -> None:
    source, ledger = write_csv(tmp_path / "in.csv", POINTS, user=["a", "b", "c"]), ledger_with(tmp_path, 1)
    with pytest.raises(UsageError, match="user="):
        nv.protect(source, tmp_path / "out.csv", ledger=ledger)
    with pytest.raises(UsageError, match="seed"):
        nv.protect(source, tmp_path / "out.csv", nv.PlanarLaplace(seed=1), user="user", ledger=ledger)


def test_a_fit_is_charged_and_its_refusal_too(tmp_path: Path) -> None:
    rng, central = np.random.default_rng(1), PrivacyDefinition.CENTRAL
    source = write_csv(tmp_path / "in.csv", rng.uniform([52.4, 13.2], [52.6, 13.6], (1500, 2)), user=range(1500))
    ledger = Ledger(tmp_path / "ledger.db", [Budget(definition=central, epsilon=1.5, delta=1e-6)])
    fitted = fit(source, nv.HideAmong(20, region="berlin"), user="user", ledger=ledger)
    fitted.save(tmp_path / "cells.json")
    assert len(nv.load_cells(tmp_path / "cells.json")) > 1
    assert ledger.spent("7", central)[0] == pytest.approx(1.0)
    with pytest.raises(OverspentError):
        fit(source, nv.HideAmong(20, region="berlin"), user="user", ledger=ledger)


def test_fits_without_users_count_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    source = write_csv(tmp_path / "in.csv", rng.uniform([52.4, 13.2], [52.6, 13.6], (1500, 2)))
    assert "row" in fit(source, nv.HideAmong(20, region="berlin")).guarantee.unit
