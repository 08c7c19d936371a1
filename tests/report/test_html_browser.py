"""The report in a real browser: it works, it fits, and it asks nobody for anything."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nearveil.evaluation.results import Column, Table
from nearveil.evaluation.stats import Mean
from nearveil.report.html import write_report
from tests.browser import Tab, launched
from tests.evidence import for_evidence
from tests.report.outcome_samples import EXPLORED, FACTS, FINDINGS, OUTCOME, PLAIN

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WIDE = Table(
    "wide",
    "A wide table",
    (Column("name"), *(Column(f"column {number}", group=f"group {number // 4}") for number in range(14))),
    tuple((f"row {row}", *(Mean(row * number / 7, 0.01) for number in range(14))) for row in range(60)),
    "Made up.",
)
UNPACKED = (
    "new Promise(done => { const look = () => document.querySelector('[data-packed]') ? setTimeout(look, 20) : done(1);"
    " look(); })"
)
SHOWN = "[...document.images].filter(image => image.checkVisibility()).map(image => image.className)"
NAMES = "[...document.querySelectorAll('#part-table-3 tbody th')].map(cell => cell.textContent.slice(0, 4))"


@pytest.fixture(scope="module")
def chromium() -> Iterator["Browser"]:
    with launched() as browser:
        yield browser


@pytest.fixture
def browser(chromium: "Browser") -> Iterator[Tab]:
    tab = Tab(chromium)
    yield tab
    tab.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    outcomes = (OUTCOME, replace(PLAIN, tables=(WIDE,)))
    write_report(path, title="A report", findings=FINDINGS, outcomes=outcomes, facts=FACTS, warnings=("Careful",))
    return path


@pytest.mark.parametrize("width", [360, *for_evidence(800, 1280)])
def test_it_fits_shows_all_pictures_and_asks_nobody(browser: Tab, page: Path, width: int) -> None:
    browser.open(page, width=width)
    assert browser.run("document.documentElement.scrollWidth") <= width
    browser.run(UNPACKED)
    browser.run("Promise.all([...document.images].map(image => image.decode()))")
    assert browser.run(
        "document.querySelector('a.csv').href.startsWith('data:text/csv;charset=utf-8,mechanism%2Cepsilon')"
    )
    assert browser.run("document.images.length") == 4
    assert browser.run("[...document.images].every(image => image.naturalWidth > 0)")
    assert browser.run(SHOWN) == ["light", "light"]
    assert browser.complaints == []
    assert browser.requests == [page.as_uri()]


def test_columns_are_sorted_by_their_numbers_and_back(browser: Tab, page: Path) -> None:
    browser.open(page, width=1280)
    header = "document.querySelector('#part-table-3 th[data-column=\"{}\"]')"

    def press(column: int) -> tuple[list[str], str | None]:
        browser.run(f"{header.format(column)}.querySelector('button').click()")
        return browser.run(NAMES), browser.run(f"{header.format(column)}.getAttribute('aria-sort')")

    printed = ["DPRS", "SRR", "</sc", "a|b"]
    assert browser.run(NAMES) == printed
    # 10 after 3: by number, not by letter.
    assert press(1) == (["DPRS", "SRR", "a|b", "</sc"], "ascending")
    assert press(1) == (["</sc", "a|b", "SRR", "DPRS"], "descending")
    assert press(1) == (printed, None)
    # What is empty is last both ways.
    assert press(2) == (["SRR", "a|b", "DPRS", "</sc"], "ascending")
    assert press(2) == (["DPRS", "a|b", "SRR", "</sc"], "descending")
    # The two with 900 stay in order both ways, and only one column is marked.
    assert press(4) == (["SRR", "a|b", "DPRS", "</sc"], "ascending")
    assert press(4) == (["</sc", "DPRS", "SRR", "a|b"], "descending")
    assert browser.run("document.querySelectorAll('#part-table-3 [aria-sort]').length") == 1
    assert press(0) == (["</sc", "a|b", "DPRS", "SRR"], "ascending")
    assert browser.complaints == []


def test_headers_are_pressed_by_keyboard(browser: Tab, page: Path) -> None:
    browser.open(page, width=1280)
    browser.run("document.querySelector('#part-table-3 th[data-column=\"1\"] button').focus()")
    browser.page.keyboard.press("Enter")
    assert browser.run(NAMES) == ["DPRS", "SRR", "a|b", "</sc"]


def test_dark_follows_the_system_and_the_button(browser: Tab, page: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    press = "document.getElementById('theme').click()"
    browser.open(page, width=1280, dark=True)
    assert browser.run(SHOWN) == ["dark", "dark"]
    assert browser.run(ground) == "rgb(20, 23, 28)"
    assert browser.run("document.getElementById('theme').getAttribute('aria-label')") == "Switch to light colours"
    browser.run(press)
    assert (browser.run(SHOWN), browser.run(ground)) == (["light", "light"], "rgb(255, 255, 255)")
    browser.run(press)
    # Paper is white whatever the screen is.
    browser.page.emulate_media(media="print", color_scheme="dark")
    assert (browser.run(SHOWN), browser.run(ground)) == (["light", "light"], "rgb(255, 255, 255)")
    browser.page.emulate_media(media="screen", color_scheme="light")
    assert browser.run(SHOWN) == ["dark", "dark"]
    assert browser.complaints == []


@pytest.mark.parametrize("width", [390, *for_evidence(1280)])
def test_the_interactive_chart_takes_the_place_of_the_picture(browser: Tab, tmp_path: Path, width: int) -> None:
    path = tmp_path / "report.html"
    write_report(path, title="A report", findings=(), outcomes=(EXPLORED,), facts=(), warnings=())
    browser.open(path, width=width)
    drawn = "document.querySelectorAll('.explore .trace.scatter').length"
    waiting = (
        f"new Promise(done => {{ const look = () => {drawn} === 2 ? done({drawn}) : setTimeout(look, 50); look(); }})"
    )
    assert browser.run(waiting) == 2
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("getComputedStyle(document.querySelector('.explored .scroll')).display") == "none"
    label = "document.querySelector('.explore .xtitle').textContent"
    assert browser.run(label) == "mean error (m)"
    browser.run(
        "{ const select = document.querySelectorAll('.controls select')[1]; select.value = 'named';"
        " select.dispatchEvent(new Event('change')); }"
    )
    assert browser.run(label) == "people named (share)"
    assert browser.complaints == []
    assert browser.requests == [path.as_uri()]
    assert browser.run("window.alerted") is None
