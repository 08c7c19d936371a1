"""The GIF of an attack: its frames, how long they last, and their colours."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from nearveil.attacks.base import TraceStep
from nearveil.report import attack_gif as gif_module
from nearveil.report.attack_gif import Film
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
