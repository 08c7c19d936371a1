"""Pictures of the benchmarks, of made-up results: nothing is cut off."""

from pathlib import Path

import matplotlib.figure
import pytest
from benchmarks.measuring import pictures
from benchmarks.measuring.machine import machine_line
from benchmarks.measuring.results import Beside
from benchmarks.measuring.timing import Times
from matplotlib.backends.backend_agg import FigureCanvasAgg

MACHINE = {
    "processor": "AMD EPYC 9R14 96-Core Processor with a name that is long",
    "cores": 192,
    "aes_instructions": True,
    "memory_gb": 1536.25,
    "python": "3.11.7",
    "load_at_start": 102.77,
}
LONG = "nearveil protect, 10,000,000 rows of Parquet, planar Laplace, in random order"


def beside(what: str, peer: str, speed: float, least_speed: float | None) -> Beside:
    ours, theirs = Times((1.0, 1.2)), Times((speed, 1.3 * speed))
    return Beside(what=what, peer=peer, ours=ours, theirs=theirs, unit="row", least_speed=least_speed)


RESULTS = [
    beside(LONG, "Polars shuffling the file", 0.7, 0.5),
    beside("nearest of 1,000 centres, one core", "scipy's KD-tree", 19.0, 20.0),
    beside("a question, 1,000,000 people, k = 10", "PostGIS", 45_800.0, None),
]


def test_no_words_of_the_ratios_are_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a long name of the machine, and a long name of what is compared."""
    figures: list[matplotlib.figure.Figure] = []
    saved = pictures.save

    def save(figure: matplotlib.figure.Figure, target: Path, kind: str) -> None:
        figures.append(figure)
        saved(figure, target, kind)

    monkeypatch.setattr(pictures, "save", save)
    assert pictures.draw_ratios(RESULTS, tmp_path / "ratios.png", machine_line(MACHINE))
    assert (tmp_path / "ratios.png").stat().st_size > 10_000
    (figure,) = figures
    renderer = FigureCanvasAgg(figure).get_renderer()
    (axes,) = figure.axes
    shown = [*figure.texts, *axes.texts, *axes.get_yticklabels(), axes.xaxis.label, axes.title]
    assert any("102.77 at the start" in text.get_text() for text in shown)
    for text in (text for text in shown if text.get_text()):
        box = text.get_window_extent(renderer)
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1, text.get_text()
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1, text.get_text()


def test_nothing_is_drawn_of_nothing(tmp_path: Path) -> None:
    assert not pictures.draw_ratios([], tmp_path / "ratios.png", "")
    assert not list(tmp_path.iterdir())
