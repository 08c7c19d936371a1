"""Pages of the site in a real browser: they fit a phone, pictures open in full size, and axe-core finds nothing.

The site of these tests has a few pages of each shape: pictures, commands to type, wide tables, long code.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deploy.build_site import finish, stage

from tests.browser import Tab, launched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.evidence

AXE = (ROOT / "tests" / "server" / "console" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
PAGES = (
    *("start/ten-minutes", "start/try-veil", "explanation/the-attack"),
    *("reference/commands", "reference/service-figures"),
)
# Our own script runs after the theme's.
READY = """new Promise(resolve => {
    const look = () => document.documentElement.dataset.scrolling ? resolve() : requestAnimationFrame(look);
    look(); })"""
# Boxes that stand out of the screen, except within a box that scrolls.
STRAY = """[...document.querySelectorAll('.md-content :is(pre, code, table, img, p)')].filter(each =>
    each.getBoundingClientRect().right > innerWidth + 1 && !each.closest('.md-typeset__scrollwrap, pre > code'))
    .map(each => each.outerHTML.slice(0, 80))"""
# Lines of code that are cut: what holds them is narrower and does not scroll.
CUT = """[...document.querySelectorAll('.md-content pre > code')].filter(each =>
    each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).overflowX !== 'auto').length"""
SERIOUS = """axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations
    .filter(rule => ['serious', 'critical'].includes(rule.impact))
    .map(rule => `${rule.id} at ${rule.nodes[0].target}`))"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    stage(folder / "all")
    for page in PAGES:
        target = (folder / "docs" / page).with_suffix(".md")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((folder / "all" / page).with_suffix(".md").read_bytes())
    for name in ("images", "style.css", "scrolling.js", "iframe-worker.js"):
        (folder / "all" / name).rename(folder / "docs" / name)
    settings = (ROOT / "zensical.toml").read_text(encoding="utf-8").replace('"build/docs"', '"docs"')
    shown = ", ".join(f'"{page}.md"' for page in PAGES)
    settings = re.sub(r"^nav = \[.*?^\]", f"nav = [{shown}]", settings, flags=re.DOTALL | re.MULTILINE)
    (folder / "zensical.toml").write_text(settings, encoding="utf-8")
    subprocess.run([sys.executable, "-m", "zensical", "build"], cwd=folder, check=True, capture_output=True)
    finish(folder / "site")
    return folder / "site"


@pytest.fixture(scope="module")
def chromium() -> Iterator["Browser"]:
    with launched() as browser:
        yield browser


@pytest.fixture
def browser(chromium: "Browser") -> Iterator[Tab]:
    tab = Tab(chromium)
    yield tab
    tab.close()


def opened(browser: Tab, site: Path, page: str, *, width: int, dark: bool = False) -> None:
    browser.open(site / f"{page}.html", width=width, dark=dark)
    browser.run(READY)
    assert browser.run("document.body.dataset.mdColorScheme") == ("slate" if dark else "default")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("width", "dark"), [(390, True), (1280, False)])
def test_a_page_fits_and_axe_core_finds_nothing_serious(
    browser: Tab, site: Path, page: str, width: int, dark: bool
) -> None:
    opened(browser, site, page, width=width, dark=dark)
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(STRAY) == []
    assert browser.run(CUT) == 0
    browser.run(AXE)
    assert browser.run(SERIOUS) == []


def test_the_checks_see_what_is_wrong(browser: Tab, site: Path) -> None:
    opened(browser, site, "explanation/the-attack", width=390)
    browser.run("document.querySelector('.md-content p').style.width = '600px'")
    browser.run("document.querySelector('.md-content li').style.color = '#eee'")
    browser.run("document.querySelectorAll('pre > code').forEach(each => { each.style.overflow = 'hidden'; })")
    browser.run(AXE)
    assert len(browser.run(STRAY)) == 1
    assert browser.run(CUT) > 0
    assert [finding.split()[0] for finding in browser.run(SERIOUS)] == ["color-contrast"]


def test_on_a_phone_commands_are_shown_whole_and_options_stand_above_their_meaning(browser: Tab, site: Path) -> None:
    opened(browser, site, "start/ten-minutes", width=390)
    commands = "[...document.querySelectorAll('.md-content pre > code > span:has(> .gp)')]"
    assert browser.run(f"{commands}.length") > 3
    assert browser.run(f"{commands}.filter(each => each.getBoundingClientRect().right > innerWidth).length") == 0
    split = "[...document.querySelectorAll('.option')].filter(each => each.getClientRects().length > 1).length"
    assert browser.run(split) == 0
    opened(browser, site, "reference/commands", width=390)
    row = "[...document.querySelectorAll('.md-content tbody td')].slice(0, 2).map(each => each.getBoundingClientRect())"
    name, meaning = browser.run(f"{row}.map(box => [box.left, box.top])")
    assert name[0] == meaning[0]
    assert name[1] < meaning[1]


def test_pictures_open_in_full_size(browser: Tab, site: Path) -> None:
    opened(browser, site, "explanation/the-attack", width=390)
    links = "[...document.querySelectorAll('.md-content img')].map(each => [each.parentElement.href, each.src])"
    pictures = browser.run(links)
    assert len(pictures) == 3
    assert all(link == shown for link, shown in pictures)
