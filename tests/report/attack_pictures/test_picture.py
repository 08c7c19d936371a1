"""The picture of an attack: that it is there, valid, and shows what differs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from nearveil.attacks.base import TraceStep
from nearveil.attacks.oracle import Spot
from nearveil.nearby.index import Person
from nearveil.region import named_region
from nearveil.report.attack_scene import Scene
from nearveil.report.land import land_in
from nearveil.report.style import LIGHT
from tests.report.attack_pictures.samples import Page, animated, drawn, empty, protected


def test_a_picture_is_a_png_whatever_its_name(adaptive: Scene, tmp_path: Path) -> None:
    with Image.open(drawn(adaptive, tmp_path / "attack.partial")) as picture:
        picture.load()
        assert picture.format == "PNG"
        assert picture.width > 1500


def test_circles_a_protected_person_and_others_located_are_drawn(gi_lia: Scene, tmp_path: Path) -> None:
    others: dict[Person, Spot] = {number: (gi_lia.truth[0] + 40.0 * number, gi_lia.truth[1]) for number in (1, 2, 3)}
    unfolded = replace(gi_lia, result=replace(gi_lia.result, others=others))
    scenes = {"plain": gi_lia, "protected": protected(gi_lia), "unfolded": unfolded}
    assert len({drawn(scene, tmp_path / name).read_bytes() for name, scene in scenes.items()}) == 3


@pytest.mark.parametrize("asked", [0, 1])
def test_an_attack_that_ended_at_once_can_be_shown(adaptive: Scene, tmp_path: Path, asked: int) -> None:
    scene = empty(adaptive, (TraceStep((0.0, 0.0), None),) * asked)
    assert drawn(scene, tmp_path / "a.png").stat().st_size > 0
    with Image.open(animated(scene, tmp_path / "a.gif", "gif")) as gif:
        assert getattr(gif, "n_frames", 1) == asked + 1
    page = Page(animated(scene, tmp_path / "a.html", "html").read_text(encoding="utf-8"))
    assert len(page.story["steps"]) == asked
    assert page.story["estimate"] is None
    assert "no estimate" in page.story["result"]["text"]


@pytest.fixture
def figure_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Scene], Figure]:
    """Draw a scene and look at the figure itself."""
    figures: list[Figure] = []
    close = plt.close
    monkeypatch.setattr(plt, "close", figures.append)

    def draw(scene: Scene) -> Figure:
        drawn(scene, tmp_path / "a.png")
        close(figures[-1])
        return figures[-1]

    return draw


def test_maps_have_land_and_water(adaptive: Scene, figure_of: Callable[[Scene], Figure]) -> None:
    rings = land_in(adaptive.region)
    whole, close, end = (axes for axes in figure_of(adaptive).axes if axes.get_title())
    for axes in (whole, close, end):
        water, *land = (each for each in axes.patches if each.get_zorder() < 1)
        assert to_hex(water.get_facecolor()).upper() == LIGHT.water
        assert [to_hex(each.get_facecolor()).upper() for each in land] == [LIGHT.land] * len(rings)
        # Nothing is drawn beyond the region, of which nothing is known, nor beyond the axes.
        assert all(each.get_clip_path() is not None and each.get_clip_box() is axes.bbox for each in land)
    half_extent_m = np.array(adaptive.region.half_extent_m)
    water, shown, *_ = whole.patches
    assert np.allclose(np.abs(np.array(water.get_path().vertices)), half_extent_m / 1000)
    assert np.allclose(np.array(shown.get_path().vertices)[: len(rings[0])], adaptive.region.to_metres(rings[0]) / 1000)
    elsewhere = replace(adaptive, region=named_region("berlin"))
    assert len([each for each in figure_of(elsewhere).axes[0].patches if each.get_zorder() < 1]) == 2


def test_without_others_there_is_no_empty_map(adaptive: Scene, figure_of: Callable[[Scene], Figure]) -> None:
    alone = figure_of(replace(adaptive, people_m=np.empty((0, 2))))
    titles = [axes.get_title() for axes in alone.axes if axes.get_title()]
    assert titles == ["The attack", "The last stretch (the square on the left)"]
    assert "people" not in [text.get_text() for text in alone.legends[0].get_texts()]
    assert "people" in [text.get_text() for text in figure_of(adaptive).legends[0].get_texts()]
