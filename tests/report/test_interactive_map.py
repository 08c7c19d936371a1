"""Interactive maps: what is on them, what buttons and the slider show, and that they need no network."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nearveil as nv
from nearveil.errors import DataError, UsageError
from nearveil.report import interactive_map

REGION = nv.named_region("new-york")
PEOPLE = np.random.default_rng(1).normal([40.7, -74.0], 0.02, (300, 2))


def test_users_are_where_they_are_and_where_they_went(monkeypatch: pytest.MonkeyPatch) -> None:
    before_km, after_km = (REGION.to_metres(places) / 1000 for places in (PEOPLE, PEOPLE + 0.01))
    traces = {trace.name: trace for trace in nv.protection_map(PEOPLE, PEOPLE + 0.01, region=REGION).data}
    for name, places_km in (("before", before_km), ("after", after_km)):
        assert np.allclose(np.column_stack([traces[name].x, traces[name].y]), places_km, atol=1e-4)
    lines = np.column_stack([traces["moved"].x, traces["moved"].y]).reshape(-1, 3, 2)
    assert np.allclose(lines[:, :2], np.stack([before_km, after_km], axis=1), atol=1e-4)
    assert np.isnan(lines[:, 2]).all()
    monkeypatch.setattr(interactive_map, "_MOST_DOTS", 100)
    thinned = {trace.name: trace for trace in nv.protection_map(PEOPLE, PEOPLE + 0.01, region=REGION).data}
    assert len(thinned["before"].x) == len(thinned["after"].x) == 100
    with pytest.raises(DataError, match="300 places before and 299 after"):
        nv.protection_map(PEOPLE, PEOPLE[1:], region=REGION)
    monkeypatch.setattr(interactive_map, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"nearveil\[research\]"):
        nv.protection_map(PEOPLE, PEOPLE, region=REGION)


def shown_at(figure: Any, number: int) -> dict[str, Any]:
    """The traces that are seen once the slider is at a step."""
    visible, _, changed = figure.layout.sliders[0].steps[number].args
    hidden = {trace for trace, seen in zip(changed, visible["visible"], strict=True) if not seen}
    return {trace.name: trace for place, trace in enumerate(figure.data) if place not in hidden}


def test_every_query_is_a_step_and_a_file_of_it_loads_nothing(tmp_path: Path) -> None:
    hidden = nv.simulate(PEOPLE, region=REGION, mechanism=nv.PlanarLaplace(region=REGION, seed=1))
    outcome = nv.attack(hidden, target=17)
    figure, steps = nv.attack_map(outcome), outcome.result.trace.steps
    assert len(figure.layout.sliders[0].steps) == len(steps) > 2
    for number, step in enumerate(steps):
        shown = shown_at(figure, number)
        asked = shown["asked from"]
        assert np.allclose([asked.x[-1], asked.y[-1]], np.array(step.place) / 1000, atol=1e-4)
        assert (len(asked.x), len(shown["the attacker's accounts"].x)) == (number + 1, len(step.accounts))
        assert step.cells is None or len(shown["possible"].x) == 6 * len(step.cells)
        # The words are those of the step, and the estimate is not known before the end.
        (caption,) = figure.layout.sliders[0].steps[number].args[1]["annotations"]
        assert caption["text"].startswith(f"question {number + 1} of {len(steps)}")
        assert ("estimate" in shown) is (number == len(steps) - 1)
    ends = {"person": outcome.truth, "published": outcome.published, "estimate": outcome.result.estimate}
    for name, spot in ends.items():
        assert spot is not None
        assert np.allclose([shown[name].x[0], shown[name].y[0]], np.array(spot) / 1000, atol=1e-4)
    figure.write_html(tmp_path / "attack.html")
    page = (tmp_path / "attack.html").read_text(encoding="utf-8")
    assert re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=", page[:4000] + page[-4000:]) == []
    assert "Plotly.newPlot" in page
