"""The GIF of an attack: its frames, how long they last, and their colours."""

from pathlib import Path

import numpy as np
from PIL import Image

from nearveil.report.attack_gif import Film
from nearveil.report.attack_scene import Scene, frames_of
from tests.report.attack_pictures.samples import animated, protected


def test_a_gif_has_a_frame_for_each_question_and_a_long_one_at_the_end(adaptive: Scene, tmp_path: Path) -> None:
    path = animated(protected(adaptive), tmp_path / "attack.partial", "gif")
    assert path.stat().st_size < 3_000_000
    with Image.open(path) as gif:
        assert gif.format == "GIF"
        assert getattr(gif, "n_frames", 1) == adaptive.result.queries + 1
        assert gif.info["duration"] == 900
        gif.seek(adaptive.result.queries)
        assert gif.info["duration"] == 3000


def test_nothing_of_a_frame_is_left_on_the_next(gi_lia: Scene) -> None:
    frames = frames_of(gi_lia)
    used, fresh = Film(gi_lia, "One attack", frames), Film(gi_lia, "One attack", frames)
    for frame in frames[:12]:
        used.image(frame)
    after, alone = used.image(frames[-1]), fresh.image(frames[-1])
    assert np.array_equal(np.asarray(after.convert("RGB")), np.asarray(alone.convert("RGB")))
