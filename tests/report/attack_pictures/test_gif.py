"""The GIF of an attack: its frames, how long they last, and their colours."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from nearveil.attacks.base import TraceStep
from nearveil.report import attack_gif as gif_module
from nearveil.report.attack_gif import Film, with_palette
from nearveil.report.attack_scene import Scene, frames_of
from tests.report.attack_pictures.samples import animated, empty, protected


def test_a_gif_has_a_frame_for_each_question_and_a_long_one_at_the_end(adaptive: Scene, tmp_path: Path) -> None:
    path = animated(protected(adaptive), tmp_path / "attack.partial", "gif")
    assert path.stat().st_size < 3_000_000
    with Image.open(path) as gif:
        assert gif.format == "GIF"
        assert getattr(gif, "n_frames", 1) == adaptive.result.queries + 1
        assert gif.info["duration"] == 900
        gif.seek(adaptive.result.queries)
        assert gif.info["duration"] == 3000


def test_the_legend_is_not_cut_off(adaptive: Scene, gi_lia: Scene) -> None:
    for scene in (adaptive, protected(adaptive), gi_lia):
        figure = Film(scene, "One attack", frames_of(scene)).figure
        box = figure.legends[0].get_window_extent()
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1


class Numbers:
    """Stands in for a film: notes what it is asked to draw."""

    drawn: list[int]

    def __init__(self, *_: Any) -> None:
        type(self).drawn = []

    def image(self, frame: Any) -> Image.Image:
        self.drawn.append(frame.number)
        return Image.new("P", (4, 4), len(self.drawn))


def test_a_gif_of_a_long_attack_leaves_out_questions(
    adaptive: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gif_module, "Film", Numbers)
    scattered = tuple(TraceStep((float(number), 0.0), 1) for number in range(300))
    animated(empty(adaptive, scattered), tmp_path / "a.gif", "gif")
    assert len(Numbers.drawn) == 40
    assert (Numbers.drawn[0], Numbers.drawn[-2], Numbers.drawn[-1]) == (1, 300, 300)


def test_many_questions_from_one_place_share_frames(
    adaptive: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gif_module, "Film", Numbers)
    animated(empty(adaptive, (adaptive.steps[0],) * 300), tmp_path / "a.gif", "gif")
    assert Numbers.drawn == [*range(1, 25), 300, 300]


def test_nothing_of_a_frame_is_left_on_the_next(gi_lia: Scene) -> None:
    frames = frames_of(gi_lia)
    used, fresh = Film(gi_lia, "One attack", frames), Film(gi_lia, "One attack", frames)
    for frame in frames[:12]:
        used.image(frame)
    after, alone = used.image(frames[-1]), fresh.image(frames[-1])
    assert np.array_equal(np.asarray(after.convert("RGB")), np.asarray(alone.convert("RGB")))


def test_a_long_title_makes_the_gif_taller(adaptive: Scene, tmp_path: Path) -> None:
    with (
        Image.open(animated(empty(adaptive), tmp_path / "a", "gif")) as short,
        Image.open(animated(empty(adaptive), tmp_path / "b", "gif", "a title of $many$ words " * 5)) as long,
    ):
        assert long.width == short.width
        assert long.height > short.height


def test_the_title_of_a_gif_says_that_the_person_is_missed(adaptive: Scene) -> None:
    scene = protected(adaptive)
    film = Film(scene, "One attack", frames_of(scene))
    title = film.figure.texts[0].get_text().replace("\n", " ").replace("\N{NO-BREAK SPACE}", " ")
    assert title.startswith("One attack: published place found, person missed by ")


def test_wanted_and_frequent_colours_are_kept_exactly() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (60, 60, 3), dtype=np.uint8)
    pixels[:30], pixels[30, 0] = (10, 200, 30), (1, 2, 3)
    image = with_palette(pixels, ["#010203"])
    kept = np.asarray(image.convert("RGB"))
    assert image.mode == "P"
    assert (kept[:30] == (10, 200, 30)).all()
    assert tuple(kept[30, 0]) == (1, 2, 3)
