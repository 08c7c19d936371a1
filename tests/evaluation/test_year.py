"""What a year gives away: six curves with intervals, a figure, and what is shipped for cards and the console."""

from dataclasses import replace

import pandas as pd
import pytest
from deploy.year_file import shipped

from nearveil.evaluation import study
from nearveil.evaluation.longitudinal import MONTHS
from nearveil.evaluation.stats import Share
from nearveil.evaluation.studies import year
from nearveil.evaluation.studies.services import CITY
from nearveil.evaluation.year_curve import year_chart, year_note
from nearveil.io.datasets import Dataset
from nearveil.io.synthetic import synthetic_city
from nearveil.nearby.publishing.protection import Protection
from nearveil.region import named_region
from nearveil.server.service import service_card

REGION = named_region("san-francisco")
USUAL = Protection(region=REGION)


def made_up_runs(runs: int = 2) -> pd.DataFrame:
    """One in ten is found in the first month; later four in ten where noise is drawn again."""
    rows = []
    for row in year.PART.grid(study.Scope(datasets=("brightkite",), runs=runs)):
        for attacker in ("density", "addresses", *(["home and work"] if row["users"] == year.COMMUTES else [])):
            for months in MONTHS:
                found = 0.4 if row["service"] == year.DRAWN_AGAIN and months > 1 else 0.1
                own = {"attacker": attacker, "months": months, "found": found}
                rows.append(row | own | {"named": 0.05, "error_m": 400.0, "points": 1.5, "right": 0.9})
    return pd.DataFrame(rows)


def test_the_papers_populations_have_no_homes() -> None:
    assert {row["dataset"] for row in year.PART.grid(study.Scope(datasets=("brightkite", "beta")))} == {CITY}
    assert {row["dataset"] for row in year.PART.grid(study.Scope(datasets=("brightkite", "mine")))} == {"mine"}
    assert set(year.PART.populations()) == {CITY}


@pytest.mark.evidence
def test_every_curve_is_measured() -> None:
    town = Dataset("mine", REGION, synthetic_city(600, REGION, rng=1), "generated")
    scope = study.Scope(datasets=("mine",), runs=1, instances=4, quick=True)
    runs = study.measure(year.PART, scope, {"mine": town})
    assert set(runs.months) == {1, 3}
    assert len(runs) == 2 * (4 * 2 + 2 * 3)
    assert runs.found.between(0, 1).all()
    assert (runs.named.isna() == (runs.attacker == "density")).all()
    kept = runs[(runs.service == year.USUAL) & (runs.gps == "good")]
    assert (kept.points == 1).all()
    assert (runs[runs.users == year.AT_HOME].right > 0.99).all()


def test_tables_and_facts_have_intervals() -> None:
    runs = made_up_runs()
    tables, facts = year.PART.tables(runs), year.PART.facts(runs)
    assert list(tables["year"].columns)[-4:] == ["1 month", "3 months", "6 months", "12 months"]
    assert len(tables["year"]) == 4 * 2 + 2 * 3
    assert all(isinstance(share, Share) for share in tables["year"]["12 months"])
    assert len(tables["year-points"]) == 6 * 2
    assert (facts["kept_users"], facts["commuters_users"], facts["months"]) == (200, 100, 12)
    assert (facts["kept_first"].value, facts["kept_last"].value) == (0.1, 0.1)
    assert (facts["again_first"].value, facts["again_last"].value) == (0.1, 0.4)


def test_the_file_has_the_curves_that_are_measured() -> None:
    written, chart = shipped(made_up_runs()), year_chart(USUAL)
    assert written.keys() == chart.keys()
    for new, old in zip(written["curves"], chart["curves"], strict=True):
        assert new.keys() == old.keys()
        assert all(new[name] == old[name] for name in ("person", "attacker", "months"))
        assert all(0 <= share["low"] <= share["value"] <= share["high"] <= 1 for share in old["found"])
        assert old["people"] >= 200


@pytest.mark.parametrize("row", [0, 1], ids=["density", "addresses"])
def test_users_who_stay_at_home_are_found_hardly_more_often_after_a_year(row: int) -> None:
    curve = year_chart(USUAL)["curves"][row]
    assert curve["person"] == year.AT_HOME
    assert max(share["value"] for share in curve["found"]) <= curve["found"][0]["value"] + 0.05


def test_a_card_quotes_the_file() -> None:
    note = year_note(USUAL)
    by_density, by_address, *_, by_pair = (curve["found"] for curve in year_chart(USUAL)["curves"])
    for share in [*by_density, *by_address, by_pair[0], by_pair[-1]]:
        assert f"{100 * share['value']:.0f} % ({100 * share['low']:.0f} to {100 * share['high']:.0f})" in note
    assert note in service_card(USUAL, None).notes


@pytest.mark.parametrize(
    "other", [replace(USUAL, noise_m=300.0), replace(USUAL, new_places=19), replace(USUAL, dwell_epochs=1)]
)
def test_nothing_is_said_of_settings_that_were_not_measured(other: Protection) -> None:
    assert year_chart(other)["curves"] == []
    assert "was not measured for these settings" in service_card(other, None).notes[-1]
