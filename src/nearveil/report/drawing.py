"""All pictures of a report, drawn on all cores: as a file of their own and as a figure of the page."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from nearveil.evaluation.outcome import Outcome, Picture
from nearveil.evaluation.workers import map_in_processes
from nearveil.report.html.pictures import picture_figure
from nearveil.report.outcome_files import draw_picture
from nearveil.types import Progress


@dataclass(frozen=True, slots=True)
class Drawn:
    """A picture as PNG, and as HTML for light and dark."""

    png: bytes
    figure: str


def draw_pictures(outcomes: Sequence[Outcome], *, cores: int, progress: Progress | None = None) -> dict[str, Drawn]:
    """Draw every picture of a report once; by the picture's name."""
    pictures = [picture for outcome in outcomes for picture in outcome.pictures]
    found = {}
    for index, drawn in map_in_processes(_draw, pictures, cores=cores):
        found[pictures[index].name] = drawn
        if progress:
            progress(1)
    return found


def _draw(picture: Picture) -> Drawn:
    stream = io.BytesIO()
    draw_picture(picture, stream)
    return Drawn(stream.getvalue(), picture_figure(picture))
