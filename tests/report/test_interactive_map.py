"""Interactive maps: what is on them, what buttons and the slider show, and that they need no network."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nearveil as nv
from nearveil.errors import DataError, UsageError
from nearveil.report import interactive_map
from nearveil.report.land import land_in
from nearveil.report.style import LIGHT
from nearveil.types import FloatArray

REGION = nv.named_region("new-york")
PEOPLE = np.random.default_rng(1).normal([40.7, -74.0], 0.02, (300, 2))


@pytest.fixture(scope="module")
def outcome() -> nv.AttackOutcome:
    hidden = nv.simulate(PEOPLE, region=REGION, mechanism=nv.PlanarLaplace(region=REGION, seed=1))
    return nv.attack(hidden, target=17)


def km(points: FloatArray) -> FloatArray:
    return REGION.to_metres(points) / 1000


def test_people_are_where_they_are_and_where_they_went() -> None:
    moved_to = PEOPLE + 0.01
    traces = {trace.name: trace for trace in nv.protection_map(PEOPLE, moved_to, region=REGION).data}
    for name, places in (("before", PEOPLE), ("after", moved_to)):
        assert np.allclose(np.column_stack([traces[name].x, traces[name].y]), km(places), atol=1e-4)
    lines = np.column_stack([traces["moved"].x, traces["moved"].y]).reshape(-1, 3, 2)
    assert np.allclose(lines[:, :2], np.stack([km(PEOPLE), km(moved_to)], axis=1), atol=1e-4)
    assert np.isnan(lines[:, 2]).all()


def test_land_lies_below_on_water() -> None:
    figure = nv.protection_map(PEOPLE, PEOPLE, region=REGION)
    rings = land_in(REGION)
    for trace, ring in zip(figure.data, rings, strict=False):
        assert trace.fillcolor == LIGHT.land
        assert np.allclose(np.column_stack([trace.x, trace.y]), km(ring), atol=1e-4)
    assert figure.layout.plot_bgcolor == LIGHT.water


def test_buttons_show_one_or_both() -> None:
    figure = nv.protection_map(PEOPLE, PEOPLE, region=REGION)
    for button in figure.layout.updatemenus[0].buttons:
        seen = dict(zip([trace.name for trace in figure.data], button.args[0]["visible"], strict=True))
        wanted = {"both": (True, True, True), "before": (False, True, False), "after": (False, False, True)}[
            button.label
        ]
        assert (seen["moved"], seen["before"], seen["after"]) == wanted
        assert all(button.args[0]["visible"][:-3])


def test_crowds_are_thinned_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interactive_map, "_MOST_DOTS", 100)
    traces = {trace.name: trace for trace in nv.protection_map(PEOPLE, PEOPLE + 0.01, region=REGION).data}
    assert len(traces["before"].x) == len(traces["after"].x) == 100


def test_rows_must_fit() -> None:
    with pytest.raises(DataError, match="300 places before and 299 after"):
        nv.protection_map(PEOPLE, PEOPLE[1:], region=REGION)


def shown_at(figure: Any, number: int) -> dict[str, Any]:
    """The traces that are seen once the slider is at a step."""
    visible, _, changed = figure.layout.sliders[0].steps[number].args
    hidden = {trace for trace, seen in zip(changed, visible["visible"], strict=True) if not seen}
    return {trace.name: trace for place, trace in enumerate(figure.data) if place not in hidden}


def test_every_question_is_a_step(outcome: nv.AttackOutcome) -> None:
    figure = nv.attack_map(outcome)
    steps = outcome.result.trace.steps
    assert len(figure.layout.sliders[0].steps) == len(steps) > 2
    for number, step in enumerate(steps):
        shown = shown_at(figure, number)
        possible, asked, accounts = (shown[name] for name in ("possible", "asked from", "the attacker's accounts"))
        assert np.allclose(np.column_stack([asked.x, asked.y])[-1], np.array(step.place) / 1000, atol=1e-4)
        assert len(asked.x) == number + 1
        assert len(accounts.x) == len(step.colluders)
        if step.cells is not None:
            assert len(possible.x) == 6 * len(step.cells)
        # The words are those of the step, and the estimate is not known before the end.
        (caption,) = figure.layout.sliders[0].steps[number].args[1]["annotations"]
        assert caption["text"].startswith(f"question {number + 1} of {len(steps)}")
        assert ("estimate" in shown) is (number == len(steps) - 1)
    named = shown_at(figure, len(steps) - 1)
    for name, spot in (
        ("person", outcome.truth),
        ("published", outcome.published),
        ("estimate", outcome.result.estimate),
    ):
        assert spot is not None
        assert np.allclose([named[name].x[0], named[name].y[0]], np.array(spot) / 1000, atol=1e-4)


def test_it_opens_at_the_first_question_and_does_not_play(outcome: nv.AttackOutcome) -> None:
    figure = nv.attack_map(outcome)
    assert figure.frames == ()
    assert {trace.name for trace in figure.data if trace.visible is not False} == set(shown_at(figure, 0))
    assert "Plotly.animate" not in figure.to_html(include_plotlyjs=False)
    assert figure.layout.annotations[0].text.startswith("question 1 of")


def test_possible_places_have_no_outlines_of_their_own(outcome: nv.AttackOutcome) -> None:
    possible = shown_at(nv.attack_map(outcome), 0)["possible"]
    assert possible.fillcolor == possible.line.color


def test_a_file_of_it_loads_nothing(outcome: nv.AttackOutcome, tmp_path: Path) -> None:
    nv.attack_map(outcome).write_html(tmp_path / "attack.html")
    page = (tmp_path / "attack.html").read_text(encoding="utf-8")
    assert re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=", page[:4000] + page[-4000:]) == []
    assert "Plotly.newPlot" in page


def test_without_plotly_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interactive_map, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"nearveil\[notebook\]"):
        nv.protection_map(PEOPLE, PEOPLE, region=REGION)
