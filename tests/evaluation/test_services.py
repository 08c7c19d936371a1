"""The comparison of services: whom it attacks, what it counts, and what it says of them."""

from dataclasses import replace

import pytest

from nearveil.evaluation.experiments import services
from nearveil.evaluation.experiments.scope import Scope
from nearveil.evaluation.experiments.services import PROTECTED, SERVICES, FindCell, MapCell, judged_services
from nearveil.evaluation.results import ExperimentResult
from nearveil.evaluation.stats import share_over_runs
from tests.evaluation.made_up_results import attempts, made_up_results, tiny_town

SCOPE = Scope(datasets={}, runs=2, instances=4)
TOWN = tiny_town("our town", people=300)
ROWS = [service.label for service in (*SERVICES, *PROTECTED)]


def find_cell(**settings: object) -> FindCell:
    about = {"answers": "list", "policy": "", "defence": None, "people": 0, "k": 10, "instances": 3} | settings
    return FindCell(dataset="our town", seed=1, run=0, **about)  # type: ignore[arg-type]


def made_up() -> ExperimentResult:
    return services.outcome(SCOPE, made_up_results(services.cells(SCOPE)))


def test_every_service_is_attacked_on_the_same_people() -> None:
    """Whom a cell attacks does not depend on what the service answers."""
    chosen = []
    for answers, policy in (("list", ""), ("list", "cutoff:500m"), ("distance:1km", "")):
        cell = find_cell(answers=answers, policy=policy)
        chosen.append([one.target for one in cell._instances(cell.experiment(TOWN, 3), 10)])
    assert chosen[0] == chosen[1] == chosen[2]
    assert len(set(chosen[0])) == 3


def test_people_whom_no_list_shows_are_left_out() -> None:
    """On one point of a grid there is room in the list for ten."""
    cell = find_cell(policy="snap:1000000m", instances=20, people=20)
    assert len(cell._instances(cell.experiment(cell.city(TOWN), 20), 10)) == 10


def test_an_open_list_gives_people_away_in_numbers() -> None:
    result = find_cell().measure(TOWN)
    assert [len(one) for one in result["attempts"]] == [10] * 3
    assert all(error_m <= 100 and certified for error_m, _, _, _, _, certified, *_ in result["attempts"])


def test_a_campaign_is_counted_per_person_located() -> None:
    rows = judged_services(SCOPE, made_up_results(services.cells(SCOPE)))
    by_label = {row.service.label: row for row in rows}
    mapped = by_label["ranked list of 10 (sort-by-distance)"]
    assert (mapped.per_person, mapped.mapped) == (0.5, 0.75)
    assert (mapped.guessed, mapped.matched) == (None, None)
    alone = by_label['"1 km away"']
    assert (alone.per_person, alone.mapped) == (12.0, None)
    hidden = by_label["ranked list of 10, noise of 500 m"]
    assert (hidden.guessed, hidden.matched) == (share_over_runs([10], 100), share_over_runs([12], 100))
    assert hidden.most_found == hidden.matched


def test_the_whole_city_is_mapped_once_and_only_where_lists_have_an_order() -> None:
    mapped = {cell.policy for cell in services.cells(SCOPE) if isinstance(cell, MapCell) and cell.defence is None}
    assert mapped == {"", "snap:100m", "snap:111m", "cutoff:30000m,at-least:50"}


def test_false_certificates_are_counted() -> None:
    """Each has an error of 550 m to where the service has the person, and a certificate."""
    results = made_up_results(
        services.cells(SCOPE), lambda cell: attempts(cell, found=3) if isinstance(cell, FindCell) else {}
    )
    table = services.outcome(SCOPE, results).tables[0]
    column = [one.name for one in table.columns].index("false")
    assert {row[column] for row in table.rows} == {2}


@pytest.mark.parametrize("people", [0, 50])
def test_a_quick_look_is_at_some_of_the_people(people: int) -> None:
    cell = find_cell(people=people)
    assert len(cell.city(TOWN).places) == (people or 300)
    assert (cell.city(TOWN).places == replace(cell, run=1).city(TOWN).places).all()
