"""The picture of an attack: that it is there, valid, and shows what differs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle
from PIL import Image

from nearveil.attacks.base import TraceStep
from nearveil.attacks.oracle import Spot
from nearveil.nearby.index import Person
from nearveil.region import named_region
from nearveil.report.attack_figure import Room, add_legend, ranges, shades
from nearveil.report.attack_scene import Scene, View
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


def test_a_long_title_makes_the_picture_taller_and_dollars_are_no_formulas(adaptive: Scene, tmp_path: Path) -> None:
    nothing = empty(adaptive)
    with (
        Image.open(drawn(nothing, tmp_path / "a")) as short,
        Image.open(drawn(nothing, tmp_path / "b", r"a title of $\many words$ " * 10)) as long,
    ):
        assert long.width == short.width
        assert long.height > short.height


def test_it_can_be_read_in_a_page(adaptive: Scene, figure_of: Callable[[Scene], Figure]) -> None:
    """At 700 pixels, which is what a page of the site has, no letters are smaller than 9 pixels."""
    for scene in (adaptive, replace(adaptive, people_m=np.empty((0, 2))), protected(adaptive)):
        figure = figure_of(scene)
        texts = [*figure.texts, *figure.legends[0].get_texts(), *(text for axes in figure.axes for text in axes.texts)]
        labels = [label for axes in figure.axes for label in (axes.title, axes.xaxis.label, *axes.get_xticklabels())]
        assert min(float(text.get_fontsize()) for text in (*texts, *labels)) / 72 * 700 / figure.get_figwidth() >= 9
        # The legend and the title are inside.
        for box in (figure.legends[0].get_window_extent(), *(text.get_window_extent() for text in figure.texts)):
            assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
            assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1


def test_the_legend_has_the_colours_of_the_map(adaptive: Scene, figure_of: Callable[[Scene], Figure]) -> None:
    colours = shades(len(adaptive.steps))
    figure = figure_of(adaptive)
    shown = {to_hex(mark.get_color()) for mark in figure.legends[0].findobj(Line2D) if isinstance(mark, Line2D)}
    assert {colours[0], colours[-1]} <= shown


def test_of_each_answer_at_most_two_circles_are_drawn(adaptive: Scene, figure_of: Callable[[Scene], Figure]) -> None:
    (close,) = (axes for axes in figure_of(adaptive).axes if axes.get_title().startswith("The attack"))
    dotted = [
        each for each in close.findobj(Circle) if isinstance(each, Circle) and each.get_linestyle() in (":", "dotted")
    ]
    asked = [step for step in adaptive.steps if step.colluders]
    assert 0 < len(dotted) <= 2 * len(asked)


def test_circles_are_circles_in_the_legend(gi_lia: Scene) -> None:
    figure = Figure()
    add_legend(figure, gi_lia, 3, "lower center")
    (legend,) = figure.legends
    shown = dict(zip((text.get_text() for text in legend.get_texts()), legend.legend_handles, strict=True))
    for label in ("within 100\N{NO-BREAK SPACE}m of the person", "a circle found"):
        assert isinstance(shown[label], Circle)


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


def test_heading_and_legend_of_a_protected_person_say_what_is_shown(
    adaptive: Scene, figure_of: Callable[[Scene], Figure]
) -> None:
    figure = figure_of(protected(adaptive))
    title = " ".join(figure.get_suptitle().split("\n"))
    assert title.startswith("One attack: published place found, person missed by 5")
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "people, as published" in labels
    assert "people" not in labels


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


def test_numbers_find_room_beside_marks_and_off_lines() -> None:
    view = View((0.0, 0.0), 100.0)
    room = Room(view, [(0.0, 0.0)], [])
    first, second = room.beside((0.0, 0.0), "7"), room.beside((0.0, 0.0), "8")
    assert first is not None
    assert second is not None
    assert first[1] > 0 > second[1]
    assert room.beside((150.0, 0.0), "9") is None
    crossed = Room(view, [], [])
    crossed.keep_free((0.0, -100.0), (0.0, 100.0))
    beside = crossed.beside((0.0, 0.0), "7")
    assert beside is not None
    assert abs(beside[0]) > 3


def test_runs_of_numbers_are_put_together() -> None:
    assert ranges([1, 2, 3, 7, 9, 10]) == "1–3, 7, 9–10"


def test_without_others_there_is_no_empty_map(adaptive: Scene, figure_of: Callable[[Scene], Figure]) -> None:
    alone = figure_of(replace(adaptive, people_m=np.empty((0, 2))))
    titles = [axes.get_title() for axes in alone.axes if axes.get_title()]
    assert titles == ["The attack", "The last stretch (the square on the left)"]
    assert "people" not in [text.get_text() for text in alone.legends[0].get_texts()]
    assert "people" in [text.get_text() for text in figure_of(adaptive).legends[0].get_texts()]
