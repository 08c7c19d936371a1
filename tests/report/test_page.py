"""The page: numbers with intervals, verdicts told apart without color, nothing from a network, nothing as markup."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from nearveil.evaluation.stats import Mean, Share
from nearveil.evaluation.study import Scope
from nearveil.report.page import Section, write_page
from nearveil.report.style import house_style
from nearveil.report.tables import cells_of, frame_markdown, frame_text
from tests.browser import Tab, launched
from tests.report.toy import EVIL, TOY, VERDICTS, WIDE, figures

if TYPE_CHECKING:
    from playwright.sync_api import Browser

RUNS = pd.DataFrame({"dataset": "beta", "epsilon": [1.0, 1.0, 5.0, 5.0], "run": [0, 1] * 2, "recall": [0.4, 0.5] * 2})


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    with house_style():
        grouped = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_product([["recall"], ["ours", "paper"]]))
        sections = [
            Section("toy", f"A toy {EVIL}", {"wide": WIDE, "grouped": grouped}, figures(RUNS), {}),
            *(Section(f"other-{number}", "Another", TOY.tables(RUNS), figures(RUNS), {}) for number in range(2)),
        ]
        write_page(
            path, sections=sections, verdicts=VERDICTS, title="A report", scope=Scope(datasets=("beta",), runs=1),
            populations=[], missing=["gowalla"], command="nearveil reproduce", made_with={"Python": "3"},
            digest_of=str, data={"toy": 4},
        )  # fmt: skip
    return path


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        ([Mean(0.4711, 0.0123), Mean(0.5, 0.0114), None], ["0.471 ± 0.012", "0.500 ± 0.011", "–"]),
        ([Mean(123.4, 32.1), Mean(0.471, 0.012)], ["123 ± 32", "0.471 ± 0.012"]),
        # Three decimals at most.
        (
            [Mean(0.4, 0.03), Mean(0.4, 0.02), Mean(0.4, 0.00012)],
            ["0.400 ± 0.030", "0.400 ± 0.020", "0.400 ± 0.000"],
        ),
        ([Mean(0.47123, None), Mean(0.5, None)], ["0.471", "0.500"]),
        ([Share(0.95, 0.899, 0.982), 0.948], ["0.95 (0.90–0.98)", "0.948"]),
        ([Share(0.012, 0.003, 0.031), Share(0.1, 0.05, 0.2)], ["0.012 (0.003–0.031)", "0.100 (0.050–0.200)"]),
        # Runs that agree but for a rounding error; nought has no sign.
        ([Mean(0.1, 2e-17), Mean(-0.001, 0.12)], ["0.10 ± 0.00", "0.00 ± 0.12"]),
        ([25_000, None, 3], ["25,000", "–", "3"]),
        ([Mean(0.471, 0.012), 0.53, 0.412], ["0.471 ± 0.012", "0.530", "0.412"]),
        ([10.0, float("nan"), 50.0], ["10", "–", "50"]),
        ([0.5, 1.0, 5.0, float("inf")], ["0.5", "1.0", "5.0", "∞"]),
        ([True, "words"], ["yes", "words"]),
    ],
)
def test_numbers_have_as_many_digits_as_their_intervals_tell(values: list[object], cells: list[str]) -> None:
    assert cells_of(values) == cells


def test_the_same_table_is_text_and_markdown() -> None:
    frame = pd.DataFrame({"claim": ["a|b"], "ours": [Share(0.95, 0.9, 0.98)]})
    assert frame_text(frame).splitlines() == ["claim              ours", "a|b    0.95 (0.90–0.98)"]
    rows = ["# Title", "", "| claim | ours |", "| --- | --- |", "| a\\|b | 0.95 (0.90–0.98) |", ""]
    assert frame_markdown(frame, "Title").split("\n") == rows


def test_the_page_has_warnings_and_escapes_names(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert EVIL not in text
    assert "<script" not in text
    for words in ("A single run", "Without gowalla", '<a href="toy.csv">toy.csv</a>: 4 rows'):
        assert words in text
    # Repeated labels are written once, and columns of one kind have a common header.
    assert 'rowspan="3">brightkite' in text
    assert '<th colspan="2" class="group">recall</th>' in text


# In a browser.


@pytest.fixture(scope="module")
def chromium() -> Iterator["Browser"]:
    with launched() as browser:
        yield browser


@pytest.fixture
def browser(chromium: "Browser") -> Iterator[Tab]:
    tab = Tab(chromium)
    yield tab
    tab.close()


def test_nothing_is_scrolled_to_the_side_on_a_laptop(browser: Tab, page: Path) -> None:
    browser.open(page, width=1280)
    assert browser.run("document.documentElement.scrollWidth") <= 1280
    boxes = browser.run("[...document.querySelectorAll('.scroll')].map(box => box.scrollWidth - box.clientWidth)")
    assert len(boxes) == 9
    assert max(boxes) <= 0
    # Readable without a magnifying glass.
    assert browser.run("parseFloat(getComputedStyle(document.querySelector('.wide td')).fontSize)") >= 12
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith("data:")] == [page.as_uri()]


def test_a_phone_scrolls_tables_and_not_the_page(browser: Tab, page: Path) -> None:
    browser.open(page, width=390)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    # Verdicts are seen without scrolling, and what scrolls can be reached by keyboard.
    ends = "[...document.querySelectorAll('#verdicts [data-verdict]')].map(cell => cell.getBoundingClientRect().right)"
    assert max(browser.run(ends)) <= 390
    assert browser.run("document.querySelector('.wide .scroll').tabIndex") == 0


def test_verdicts_have_signs_besides_colors_and_the_contents_lead_to_sections(browser: Tab, page: Path) -> None:
    browser.open(page, width=1280)
    cells = "[...document.querySelectorAll('#verdicts [data-verdict]')]"
    signs = browser.run(f"{cells}.map(cell => getComputedStyle(cell, '::before').content)")
    assert signs == ['"✓"', '"≈"', '"✗"', '"⊥"', '"–"']
    links = "[...document.querySelectorAll('nav a')]"
    assert browser.run(f"{links}.map(link => document.getElementById(link.hash.slice(1)) !== null)") == [True] * 5
    pictures = "[...document.querySelectorAll('.picture img')].map(image => image.naturalWidth > 1000)"
    assert browser.run(pictures) == [True] * 3
