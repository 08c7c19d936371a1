"""Services compared: the same users through every service, and what is counted."""

import numpy as np
import pandas as pd
import pytest

from nearveil.evaluation.stats import share_over_runs
from nearveil.evaluation.studies.services import CITY, SERVICES, USERS, Service, facts, grid, measure, summary, tables
from nearveil.evaluation.study import Scope
from nearveil.io.datasets import Dataset
from nearveil.io.synthetic import synthetic_city
from nearveil.region import named_region
from nearveil.report.services_figure import services_figures

REGION = named_region("san-francisco")
TOWN = Dataset("our town", REGION, synthetic_city(300, REGION, rng=1), "made up")
RANKED, BANDS, NOISE = "ranked list of 10 (sort-by-distance)", '"0 to 500 m away"', "ranked list of 10, noise of 500 m"


def rows(service: str, by: str = "attack", users: int = 5, dataset: Dataset = TOWN) -> list[dict[str, object]]:
    common = {"dataset": dataset.name, "service": service, "city": 0, "by": by, "first": 0, "users": users}
    found = measure(dataset, service=service, city=0, by=by, first=0, users=users, seed=1, run=0)
    return [common | row for row in found]


def test_every_service_is_attacked_on_the_same_users() -> None:
    chosen = [[row["user"] for row in rows(service)] for service in (RANKED, BANDS, NOISE)]
    assert chosen[0] == chosen[1] == chosen[2]
    assert len(set(chosen[0])) == 5


def test_exact_answers_give_users_away_and_noise_does_not() -> None:
    for service in (RANKED, BANDS):
        assert all(row["found"] and row["certified"] and not row["false"] for row in rows(service))
    hidden = rows(NOISE, users=10)
    # The attack is certain of the published location; noise of 500 m leaves 6 % within 100 m, so that more than half
    # of ten are found with a chance of 1e-5.
    assert sum(bool(row["found"]) for row in hidden) <= 5
    assert not any(row["false"] for row in hidden)


def test_a_user_whom_no_list_shows_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of twenty at one point of a grid, ten are."""
    monkeypatch.setitem(SERVICES, "crowd", Service(policy="snap:1000000m"))  # type: ignore[arg-type]
    found = rows("crowd", users=20, dataset=Dataset("few", REGION, TOWN.places[:20]))
    assert sum("queries" not in row for row in found) == 10
    assert not any(row["found"] for row in found if "queries" not in row)


def runs_of(*services: str) -> pd.DataFrame:
    made = []
    for service in services:
        common = {"dataset": "our town", "service": service, "users": 2}
        for error_m, queries in ((10.0, 7.0), (900.0, 9.0)):
            found = {"error_m": error_m, "queries": queries, "found": error_m < 100, "certified": True}
            made.append(common | {"by": "attack", "false": error_m > 100, **found})
        mapped = {"by": "campaign", "users": 200, "queries": 100, "located": 150}
        guessed = {"by": "best attacker", "found": 0.1, "targets": 100, "named_sparsest": 0.3, "sparsest_cases": 10}
        made += [common | mapped] if SERVICES[service].mapped_k else []
        made += [common | guessed] if SERVICES[service].protection else []
    return pd.DataFrame(made)


def test_what_is_counted() -> None:
    found = summary(runs_of(RANKED, BANDS, NOISE)).set_index("service")
    assert (found.loc[RANKED, "queries"].value, found.loc[RANKED, "false"]) == (8.0, 1)
    assert found.loc[RANKED, "found"] == share_over_runs([1], 2)
    assert (found.loc[RANKED, "campaign"], found.loc[RANKED, "located"]) == (100 / 150, 0.75)
    assert np.isnan(found.loc[BANDS, "campaign"])
    assert found.loc[NOISE, "exposed"] == share_over_runs([10], 100)
    assert found.loc[NOISE, "named"] == share_over_runs([3], 10)
    known = facts(runs_of(RANKED, BANDS, NOISE))
    assert (known["bare"], known["exposed"], known["most_queries"], known["guessed"]) == (2, 2, 8.0, 100)
    assert tables(runs_of(BANDS))["services"].loc[0, "queries for each of all users"] is None
    assert list(services_figures(runs_of(*SERVICES))) == ["services"]


def test_the_users_own_city_is_judged_in_place_of_ours() -> None:
    assert {row["dataset"] for row in grid(Scope(datasets=("brightkite",)))} == {CITY}
    own = pd.DataFrame(grid(Scope(datasets=("mine", "brightkite"))))
    attacked = own[own["by"] == "attack"].groupby("service")["users"].sum()
    assert set(own["dataset"]) == {"mine"}
    assert (attacked.max(), attacked.index.nunique()) == (USERS, len(SERVICES))
