"""The pictures of an attack: that they are there, valid, and show what differs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from nearveil.attacks.base import TraceStep
from nearveil.attacks.oracle import Spot
from nearveil.nearby.index import Person
from nearveil.report import attack_gif
from nearveil.report.attack_figure import draw_attack
from nearveil.report.attack_gif import draw_gif
from nearveil.report.attack_scene import Scene
from nearveil.report.style import PUBLISHED_COLOUR, TRUE_COLOUR
from tests.report.attack_pictures.samples import Page, empty, protected


def test_a_picture_is_a_png_whatever_its_name(adaptive: Scene, tmp_path: Path) -> None:
    draw_attack(adaptive, tmp_path / "attack.partial", title="One attack")
    with Image.open(tmp_path / "attack.partial") as picture:
        picture.load()
        assert picture.format == "PNG"
        assert picture.width > 1500


def test_circles_a_protected_user_and_others_located_are_drawn(gi_lia: Scene, tmp_path: Path) -> None:
    others: dict[Person, Spot] = {number: (gi_lia.truth[0] + 40.0 * number, gi_lia.truth[1]) for number in (1, 2, 3)}
    unfolded = replace(gi_lia, result=replace(gi_lia.result, others=others))
    scenes = {"plain": gi_lia, "protected": protected(gi_lia), "unfolded": unfolded}
    for name, scene in scenes.items():
        draw_attack(scene, tmp_path / name, title="One attack")
    assert len({(tmp_path / name).read_bytes() for name in scenes}) == 3


def test_a_gif_has_a_frame_for_each_query_in_true_colors_and_a_long_one_at_the_end(
    adaptive: Scene, tmp_path: Path
) -> None:
    path = tmp_path / "attack.partial"
    draw_gif(protected(adaptive), path, title="One attack")
    assert path.stat().st_size < 3_000_000
    with Image.open(path) as gif:
        assert (gif.format, getattr(gif, "n_frames", 1)) == ("GIF", adaptive.result.queries + 1)
        assert gif.info["duration"] == 900
        gif.seek(adaptive.result.queries)
        assert gif.info["duration"] == 3000
        pixels = np.asarray(gif.convert("RGB")).astype(int)
    # The small marks keep their colors.
    for color in (TRUE_COLOUR, PUBLISHED_COLOUR):
        wanted = 255 * np.array(to_rgb(color))
        assert (np.abs(pixels - wanted).max(axis=-1) <= 6).sum() > 50


def test_a_long_attack_has_few_frames(gi_lia: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack_gif, "_MOST_FRAMES", 4)
    assert len(gi_lia.steps) > 20
    attack_gif.draw_gif(gi_lia, tmp_path / "a.gif", title="One attack")
    with Image.open(tmp_path / "a.gif") as gif:
        assert getattr(gif, "n_frames", 1) == 4


@pytest.mark.parametrize("asked", [0, 1])
def test_an_attack_that_ended_at_once_can_be_shown(adaptive: Scene, tmp_path: Path, asked: int) -> None:
    scene = empty(adaptive, (TraceStep((0.0, 0.0), None),) * asked)
    draw_attack(scene, tmp_path / "a.png", title="One attack")
    draw_gif(scene, tmp_path / "a.gif", title="One attack")
    with Image.open(tmp_path / "a.gif") as gif:
        assert getattr(gif, "n_frames", 1) == asked + 1
    story = Page(scene, tmp_path / "a.html").story
    assert (len(story["steps"]), story["estimate"]) == (asked, None)
    assert "no estimate" in story["result"]["text"]
