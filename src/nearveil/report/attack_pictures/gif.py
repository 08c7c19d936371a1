"""One attack as an animated GIF."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nearveil.report.attack_pictures.film import Film
from nearveil.report.attack_pictures.scene import Scene
from nearveil.report.attack_pictures.story import Frame, frames_of
from nearveil.report.style import house_style

_QUESTION_MS, _RESULT_MS = 900, 3000
# From so many questions on they share frames; from so many frames on some are left out.
_FEW, _MOST = 25, 39


def save_gif(scene: Scene, path: Path, title: str) -> None:
    """Draw frame after frame, and save them."""
    *questions, result = frames_of(scene, _FEW)
    frames = [*_at_most(questions, _MOST), result]
    with house_style():
        film = Film(scene, title, frames)
        images = [film.image(frame) for frame in frames]
    durations = [_QUESTION_MS] * (len(frames) - 1) + [_RESULT_MS]
    images[0].save(
        path, format="GIF", save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=False
    )


def _at_most(frames: Sequence[Frame], most: int) -> Sequence[Frame]:
    """Frames spread evenly over all, the first and the last among them."""
    if len(frames) <= most:
        return frames
    return [frames[index] for index in np.linspace(0, len(frames) - 1, most).round().astype(int)]
