"""What months give away, as it is shipped: the file fits the code, keeps what is required, and cards quote it."""

from dataclasses import replace
from typing import Any

import pytest

from nearveil.evaluation.experiments import year
from nearveil.evaluation.experiments.scope import Scope
from nearveil.evaluation.year_curve import curves_document, curves_for, year_chart, year_curves, year_note
from nearveil.nearby.publishing.protection import Protection
from nearveil.region import named_region
from nearveil.server.service import service_card
from tests.evaluation import made_up_results

USUAL = Protection(region=named_region("san-francisco"))


def names(value: object) -> Any:
    """What a document is made of, without its numbers."""
    if isinstance(value, dict):
        return {name: names(each) for name, each in value.items()}
    return [names(each) for each in value] if isinstance(value, list) else type(value)


def identity(curve: dict[str, Any]) -> tuple[Any, ...]:
    return (curve["settings"], *(curve[name] for name in ("person", "gps", "attacker", "people", "months")))


def test_the_file_has_the_curves_that_the_code_measures() -> None:
    scope = Scope(datasets={})
    expected = curves_document(scope, {cell: made_up_results.year(cell) for cell in year.cells(scope)})  # type: ignore[arg-type]
    shipped = year_curves()
    # Not all of them need be shipped; those of the default settings must be.
    by_identity = {str(identity(curve)): curve for curve in expected["curves"]}
    for curve in shipped["curves"]:
        assert names(curve) == names(by_identity[str(identity(curve))])
    assert len(curves_for(USUAL)) >= 4
    assert {name: shipped[name] for name in shipped if name != "curves"} == {
        name: expected[name] for name in expected if name != "curves"
    }
    for curve in shipped["curves"]:
        assert all(0 <= share["low"] <= share["value"] <= share["high"] <= 1 for share in curve["found"])


def usual(gps: str, attacker: str, *, person: str = "stays at home") -> dict[str, Any]:
    own = [
        curve
        for curve in curves_for(USUAL)
        if (curve["person"], curve["gps"], curve["attacker"]) == (person, gps, attacker)
    ]
    assert len(own) == 1
    return own[0]


@pytest.mark.parametrize("attacker", ["density", "addresses"])
@pytest.mark.parametrize(("gps", "most_points", "most_above"), [("good", 1.0, 0.02), ("bad", 3.0, 0.05)])
def test_who_stays_at_home_is_hidden_after_24_months_as_after_one(
    gps: str, attacker: str, most_points: float, most_above: float
) -> None:
    curve = usual(gps, attacker)
    assert (curve["months"][0], curve["months"][-1]) == (1, 24)
    assert max(curve["points"]) <= most_points
    assert max(share["value"] for share in curve["found"]) <= curve["found"][0]["value"] + most_above


def test_a_card_quotes_the_file() -> None:
    note, text = year_note(USUAL), str(service_card(USUAL, None).card(full=True))
    for attacker in ("density", "addresses"):
        for share in usual("bad", attacker)["found"]:
            assert f"{100 * share['value']:.0f} % ({100 * share['low']:.0f} to {100 * share['high']:.0f})" in note
    commuters = usual("bad", "home and work", person="commutes")["found"]
    assert f"{100 * commuters[-1]['value']:.0f} % (" in note.split("commuters")[1]
    assert " ".join(note.split())[:40] in " ".join(text.split())


@pytest.mark.parametrize(
    "other",
    [
        replace(USUAL, noise_m=300.0),
        replace(USUAL, new_places=19),
        replace(USUAL, dwell_epochs=1),
    ],
)
def test_nothing_is_said_of_settings_that_were_not_measured(other: Protection) -> None:
    assert curves_for(other) == []
    assert "was not measured for these settings" in year_note(other)
    assert "was not measured for these settings" in service_card(other, None).notes[-1]
    chart = year_chart(other)
    assert not chart["measured"]
