"""The picture of an attack: that it is there, valid, and shows what differs."""

from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from nearveil.attacks.base import TraceStep
from nearveil.attacks.oracle import Spot
from nearveil.nearby.index import Person
from nearveil.report.attack_scene import Scene
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
