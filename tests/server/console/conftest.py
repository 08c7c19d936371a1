"""A real browser for tests of the console: Debian's Chromium, driven by Playwright."""

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.server.console_service import Place, console_service, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)


@pytest.fixture(scope="module")
def chromium() -> Iterator["Browser"]:
    """A browser for the tests of one file: while it runs, so does an event loop, which other tests cannot bear."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    if CHROMIUM is None:
        pytest.skip("needs Chromium (Debian: chromium)")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with console_service(tmp_path_factory.mktemp("service")) as place:
        yield place


@pytest.fixture(scope="session")
def address(place: Place) -> Iterator[str]:
    with served(place.service) as address:
        yield address
