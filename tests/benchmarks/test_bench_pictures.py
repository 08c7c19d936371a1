"""Pictures of the benchmarks, of made-up results: nothing is cut off."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks.measuring import pictures
from benchmarks.measuring.grown import Grown
from benchmarks.measuring.machine import machine_line
from benchmarks.measuring.results import Beside
from benchmarks.measuring.timing import Times
from matplotlib.figure import Figure

from nearveil.report.style import save_png

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
    words: list[str] = []

    def look_and_save(figure: Figure, target: Path) -> None:
        figure.draw_without_rendering()
        (axes,) = figure.axes
        shown = [*figure.texts, *axes.texts, *axes.get_yticklabels(), axes.xaxis.label, axes.title]
        for text in (text for text in shown if text.get_text()):
            box = text.get_window_extent()
            assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1, text.get_text()
            assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1, text.get_text()
            words.append(text.get_text())
        save_png(figure, target)

    monkeypatch.setattr(pictures, "save_png", look_and_save)
    assert pictures.draw_ratios(RESULTS, tmp_path / "ratios.png", machine_line(MACHINE))
    assert (tmp_path / "ratios.png").stat().st_size > 10_000
    assert any("102.77 at the start" in text for text in words)


def test_growth_has_a_line_to_compare_with_and_no_words_are_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = [
        Grown(series=name, people=people, times=Times((each * people**power,)))
        for name, each, power in (("sampling", 2e-8, 1.0), ("nearest centre", 5e-8, 0.95), ("k-means", 3e-7, 1.02))
        for people in (10_000, 1_000_000, 100_000_000)
    ]
    results += [
        Grown(series="the index", people=people, times=Times((3e-6,)), per="question")
        for people in (10_000, 10_000_000)
    ]
    figures: list[Figure] = []
    monkeypatch.setattr(pictures, "save_png", lambda figure, _target: figures.append(figure))
    assert pictures.draw_growth(results, tmp_path / "growth.png")
    (figure,) = figures
    figure.draw_without_rendering()
    together, _ = figure.axes
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "time in proportion" in legend
    (straight,) = (
        np.array(line.get_xydata()) for line in together.get_lines() if line.get_label() == "time in proportion"
    )
    assert (straight[1] / straight[0]).tolist() == pytest.approx([10_000, 10_000])
    for text in (*figure.texts, *figure.legends[0].get_texts()):
        box = text.get_window_extent()
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1


def test_nothing_is_drawn_of_nothing(tmp_path: Path) -> None:
    assert not pictures.draw_ratios([], tmp_path / "ratios.png", "")
    assert not pictures.draw_growth([], tmp_path / "growth.png")
    assert not list(tmp_path.iterdir())
