"""Services compared: the same users through every service, and what is counted."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from nearveil.evaluation.stats import share_over_runs
from nearveil.evaluation.studies.services import CITY, SERVICES, USERS, Service, facts, grid, measure, summary, tables
from nearveil.evaluation.study import Scope
from nearveil.io.datasets import Dataset
from nearveil.io.synthetic import synthetic_city
from nearveil.region import named_region
from nearveil.report.beyond_figures import services_figures

REGION = named_region("san-francisco")
TOWN = Dataset("our town", REGION, synthetic_city(300, REGION, rng=1), "made up")
RANKED, BANDS, NOISE = "ranked list of 10 (sort-by-distance)", '"0 to 500 m away"', "ranked list of 10, noise of 500 m"


def attacked(service: str, users: int = 5, dataset: Dataset = TOWN) -> dict[str, Any]:
    return measure(dataset, service=service, city=0, by="attack", users=users, seed=1, run=0)


def test_exact_answers_give_users_away_and_noise_does_not() -> None:
    for service in (RANKED, BANDS):
        row = attacked(service)
        assert (row["users"], row["found"], row["certified"], row["false"]) == (5, 1.0, 1.0, 0)
    # The attack is certain of the published location; noise of 500 m leaves 6 % within 100 m, so that more than half
    # of ten are found with a chance of 1e-5.
    row = attacked(NOISE, users=10)
    assert (row["found"] <= 0.5, row["false"]) == (True, 0)


def test_a_user_whom_no_list_shows_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of twenty at one point of a grid, ten are."""
    monkeypatch.setitem(SERVICES, "crowd", Service(policy="snap:1000000m"))  # type: ignore[arg-type]
    row = attacked("crowd", users=20, dataset=Dataset("few", REGION, TOWN.places[:20]))
    assert (row["unlisted"], row["found"] <= 0.5) == (10, True)


def runs_of(*services: str) -> pd.DataFrame:
    made: list[dict[str, object]] = []
    for service in services:
        common = {"dataset": "our town", "service": service, "by": "attack", "users": 4, "certified": 1.0}
        for run, (found, queries) in enumerate(((0.25, 7.0), (0.75, 9.0))):
            made.append(common | {"run": run, "found": found, "queries": queries, "false": run, "unlisted": 1})
        mapped = {"by": "campaign", "users": 200, "queries": 100, "located": 150}
        guessed = {"by": "best attacker", "found": 0.1, "targets": 100, "named_sparsest": 0.3, "sparsest_cases": 10}
        made += [common | mapped] if SERVICES[service].mapped_k else []
        made += [common | guessed] if SERVICES[service].protection else []
    return pd.DataFrame(made)


def test_users_and_queries_are_counted() -> None:
    found = summary(runs_of(RANKED, BANDS, NOISE)).set_index("service")
    assert found.loc[RANKED, ["users", "false", "unlisted"]].tolist() == [8, 1, 2]
    assert (found.loc[RANKED, "queries"].value, found.loc[RANKED, "found"]) == (8.0, share_over_runs([1, 3], 4))
    assert (found.loc[RANKED, "campaign"], found.loc[RANKED, "located"]) == (100 / 150, 0.75)
    assert np.isnan(found.loc[BANDS, "campaign"])
    assert found.loc[NOISE, "exposed"] == share_over_runs([10], 100)
    assert found.loc[NOISE, "named"] == share_over_runs([3], 10)
    known = facts(runs_of(RANKED, BANDS, NOISE))
    assert (known["bare"], known["exposed"], known["most_queries"], known["guessed"]) == (2, 2, 8.0, 100)
    assert tables(runs_of(BANDS))["services"].loc[0, "queries for each of all users"] is None
    assert list(services_figures(runs_of(*SERVICES))) == ["services"]


def test_the_users_own_city_is_judged_in_place_of_ours_a_row_for_each_run() -> None:
    assert {row["dataset"] for row in grid(Scope(datasets=("brightkite",)))} == {CITY}
    own = pd.DataFrame(grid(Scope(datasets=("mine", "brightkite"))))
    attacks = own[own["by"] == "attack"].groupby("service")
    assert set(own["dataset"]) == {"mine"}
    assert (attacks["users"].sum().max(), attacks.size().unique().tolist()) == (USERS, [5])
    assert len(own) == len(own[["service", "by", "run"]].drop_duplicates())
